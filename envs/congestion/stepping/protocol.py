"""Protocol of all steppers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.emulator.packets.network import PacketNetwork

Rows = NDArray[np.void]

ACTS, BEGINS, FIRST_HALF, PASSES, DONE, REFUSED = range(6)
"""Stages of a decision. An action takes effect, an interval begins, it passes (for flows in two halves, the
second of which is PASSES), and what happened is read. REFUSED: the action cannot take effect."""


class Stepper(Protocol):
    """Worlds whose decisions are taken together, a row each.

    Attributes:
        rows: Shape (n,); each kind of stepper has at least the fields ``world`` (0 before the first episode),
            ``stage``, ``episode_seed``, ``steps`` and ``episode_steps``.
    """

    rows: Rows

    def pass_intervals(self, first: int, behind_last: int) -> None:
        """Take the decisions of rows ``first`` and on to their end; rows that are done are left alone."""


def is_over(rows: Rows, row: int) -> bool:
    """Return whether a row's episode has had all its decisions."""
    return bool(rows["steps"][row] >= rows["episode_steps"][row])


def simulated(network: Network) -> PacketNetwork:
    """Return the network as compiled code can move it.

    Raises:
        TypeError: If it is no simulated one.
    """
    if not isinstance(network, PacketNetwork):
        raise TypeError(f"expected a PacketNetwork, got a {type(network).__name__}")
    return network
