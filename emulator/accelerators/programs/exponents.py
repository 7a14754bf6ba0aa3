"""Numbers of rows held by devices, as exponents of the factors.

This separates the dependence on a hierarchy's factors from the dependence on its number of levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.programs.patterns import Collective, Instruction
from sysgym.emulator.accelerators.programs.states import Convention

HOLDS_NOTHING = 127
"""Exponent of a device without rows."""


class Move(NamedTuple):
    """Effect of an instruction on the exponents of devices.

    Attributes:
        collective: The collective.
        levels: Levels whose digits differ inside a group.
        members: Devices of all groups, [n_groups, size].
    """

    collective: Collective
    levels: slice
    members: NDArray[np.int32]

    @classmethod
    def of(cls, instruction: Instruction, factors: Sequence[int]) -> Move:
        """Return the effect of an instruction with these factors."""
        pattern = instruction.pattern
        return cls(instruction.collective, slice(pattern.low, pattern.high), pattern.groups(factors))

    @property
    def roots(self) -> NDArray[np.int32]:
        """The first member of each group, [n_groups]."""
        return self.members[:, 0]

    def exponents_after(self, exponents: NDArray[np.int8], convention: Convention) -> NDArray[np.int8]:
        """Return the exponents after a step that may run, int8 [k, n_levels].

        A ReduceScatter leaves each member one of ``size`` equal runs. An AllGather, whose members hold equal
        shares of different rows, multiplies each member's rows by ``size``.
        """
        after = exponents.copy()
        if self.collective is Collective.REDUCE_SCATTER:
            after[self.members.ravel(), self.levels] += 1
        elif self.collective is Collective.ALL_GATHER:
            after[self.members.ravel(), self.levels] -= 1
        elif self.collective is Collective.BROADCAST:
            after[self.members[:, 1:]] = exponents[self.members[:, :1]]
        elif self.collective is Collective.REDUCE and not convention.reduce_keeps:
            after[self.members[:, 1:]] = HOLDS_NOTHING
        return after
