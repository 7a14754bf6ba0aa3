"""Protocol of all steppers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.emulator.packets.network import PacketNetwork

Rows = NDArray[np.void]

ACTS, BEGINS, FIRST_HALF, PASSES, DONE, REFUSED = range(6)
"""Stages of a decision: ACTS (apply the action), BEGINS (begin the interval), FIRST_HALF (of single flows'
intervals) and PASSES (simulate the interval), DONE. REFUSED: the action cannot take effect."""


class Stepper(Protocol):
    """Protocol of steppers of many networks or agents, with a row for each.

    Attributes:
        rows: Records, shape (n,), with at least the fields ``world`` (0 before the first episode), ``stage``,
            ``episode_seed``, ``steps`` and ``episode_steps``.
    """

    rows: Rows

    def pass_intervals(self, first: int, behind_last: int) -> None:
        """Complete the decisions of rows ``first`` and following; finished rows are skipped."""


def is_over(rows: Rows, row: int) -> bool:
    """Return whether all decisions of a row's episode have been taken."""
    return bool(rows["steps"][row] >= rows["episode_steps"][row])


def simulated(network: Network) -> PacketNetwork:
    """Return the network as a ``PacketNetwork``, which compiled code can step.

    Raises:
        TypeError: If the network is not simulated.
    """
    if not isinstance(network, PacketNetwork):
        raise TypeError(f"expected a PacketNetwork, got a {type(network).__name__}")
    return network
