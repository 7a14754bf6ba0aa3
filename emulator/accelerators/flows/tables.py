"""Flat tables: paths through a network, and the transfers of a collective in one group."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]


class Paths(NamedTuple):
    """Paths through the network: path p has the links ``link[first[p] : first[p + 1]]``.

    A flow that is spread over parallel links sends only a share of its bytes over each of them.
    """

    first: NDArray[np.int64]
    """int64 [n_paths + 1], ascending from 0."""
    link: IntArray
    """int32 [n_hops]; no link twice on a path."""
    share: FloatArray
    """Share of a flow's bytes that crosses each link, float64 [n_hops], more than 0; 1 for a single path."""

    @property
    def n_paths(self) -> int:
        """Number of paths."""
        return len(self.first) - 1

    def links_of(self, path: int) -> IntArray:
        """Return the links of a path, int32."""
        return self.link[self.first[path] : self.first[path + 1]]

    def shares_of(self, path: int) -> FloatArray:
        """Return the share of the bytes that crosses each link of a path, float64."""
        return self.share[self.first[path] : self.first[path + 1]]


@dataclass(frozen=True, eq=False)
class Schedule:
    """Transfers of one group, arrays [n_transfers] unless stated otherwise; read-only.

    Attributes:
        n_members: Members of the group.
        n_pieces: Pieces of the vector.
        src: Sending member, int32.
        dst: Receiving member, int32.
        begin: First piece, int32.
        stop: One past the last piece, int32.
        step: Distance from one piece to the next, int32.
        reduces: Whether the receiver adds the pieces to its own.
        round: Round of the transfer; if all links are alike, transfers of a round run at the same time,
            int32.
        channel: Index of the ring, chain or tree, of which there may be two, int32.
        wait_first: int64 [n_transfers + 1]: transfer t waits until those from ``wait_first[t]`` up to
            ``wait_first[t + 1]`` of ``wait_on`` have arrived.
        wait_on: int32 [n_waits].
        follows: The previous transfer from the same sender to the same receiver in the same channel, int32;
            -1 for none.
    """

    n_members: int
    n_pieces: int
    src: IntArray
    dst: IntArray
    begin: IntArray
    stop: IntArray
    step: IntArray
    reduces: NDArray[np.bool_]
    round: IntArray
    channel: IntArray
    wait_first: NDArray[np.int64]
    wait_on: IntArray
    follows: IntArray

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    @property
    def n_transfers(self) -> int:
        """Number of transfers."""
        return len(self.src)

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return int(self.round.max(initial=-1)) + 1

    @functools.cached_property
    def piece_count(self) -> NDArray[np.int64]:
        """Number of pieces of each transfer, int64."""
        return (self.stop.astype(np.int64) - self.begin + self.step - 1) // self.step

    @functools.cached_property
    def connections(self) -> tuple[IntArray, IntArray, IntArray]:
        """Sender and receiver of each pair that has transfers, and the pair of each transfer, int32."""
        pairs, pair_of = np.unique(self.src.astype(np.int64) * self.n_members + self.dst, return_inverse=True)
        src, dst = np.divmod(pairs, max(self.n_members, 1))
        return src.astype(np.int32), dst.astype(np.int32), pair_of.astype(np.int32)


def new_schedule(n_members: int, n_pieces: int, **columns: Any) -> Schedule:
    """Return a schedule of columns of any type; transfers have one piece by default."""
    columns.setdefault("stop", columns["begin"] + 1)
    columns.setdefault("step", np.ones_like(columns["begin"]))
    types = {"reduces": np.bool_, "wait_first": np.int64}
    arrays: dict[str, NDArray[Any]] = {
        name: np.array(column, types.get(name, np.int32)) for name, column in columns.items()
    }
    return Schedule(n_members=n_members, n_pieces=n_pieces, **arrays)
