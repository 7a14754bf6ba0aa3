"""Collectives as chunks: where each comes from, and which devices want it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.collectives.network import IntArray

BoolArray = NDArray[np.bool_]


class Kind(StrEnum):
    """Kinds of collectives."""

    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"


class Phase(StrEnum):
    """Phases of a collective.

    In ``REDUCE``, partial sums of a chunk move to its owner: a device sends what it has of the chunk and
    keeps nothing. In ``COPY``, devices send copies of complete chunks.
    """

    REDUCE = "reduce"
    COPY = "copy"


PHASES: dict[Kind, tuple[Phase, ...]] = {
    Kind.ALL_GATHER: (Phase.COPY,),
    Kind.REDUCE_SCATTER: (Phase.REDUCE,),
    Kind.ALL_REDUCE: (Phase.REDUCE, Phase.COPY),
    Kind.ALL_TO_ALL: (Phase.COPY,),
    Kind.BROADCAST: (Phase.COPY,),
}


@dataclass(frozen=True, eq=False)
class Collective:
    """A collective over a group of devices.

    Attributes:
        kind: The collective.
        members: Devices that take part, ascending; the first is the root of a broadcast.
        n_devices: Devices of the system.
        size_bytes: The vector: complete on a member after an all-gather, or before the others.
        pieces: Chunks of a member's part of the vector (all-to-all: of what it sends to one other); of the
            whole vector of a broadcast.
    """

    kind: Kind
    members: tuple[int, ...]
    n_devices: int
    size_bytes: float
    pieces: int = 1

    @property
    def n_members(self) -> int:
        """Number of devices that take part."""
        return len(self.members)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Phases, one after another for each chunk."""
        return PHASES[self.kind]

    @property
    def chunk_bytes(self) -> float:
        """Size of a chunk."""
        parts = 1 if self.kind is Kind.BROADCAST else self.n_members
        return self.size_bytes / (parts * self.pieces)

    @cached_property
    def owners(self) -> IntArray:
        """Device that has the complete chunk before copies are sent or after its reduction, [n_chunks]."""
        if self.kind is Kind.BROADCAST:
            return np.full(self.pieces, self.members[0], np.int64)
        each = self.pieces * (self.n_members - 1 if self.kind is Kind.ALL_TO_ALL else 1)
        return np.repeat(np.array(self.members, np.int64), each)

    @cached_property
    def others(self) -> BoolArray:
        """Devices other than the owner that want a chunk, or contribute to it, [n_chunks, n_devices]."""
        wanted = np.zeros((self.n_chunks, self.n_devices), np.bool_)
        if self.kind is Kind.ALL_TO_ALL:
            targets = [other for one in self.members for other in self.members if other != one]
            wanted[np.arange(self.n_chunks), np.repeat(np.array(targets, np.int64), self.pieces)] = True
            return wanted
        wanted[:, list(self.members)] = True
        wanted[np.arange(self.n_chunks), self.owners] = False
        return wanted

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.owners)

    @property
    def busbw_factor(self) -> float:
        """Bus bandwidth over ``size_bytes / time`` (nccl-tests, doc/PERFORMANCE.md)."""
        if self.kind is Kind.BROADCAST:
            return 1.0
        share = (self.n_members - 1) / self.n_members
        return 2.0 * share if self.kind is Kind.ALL_REDUCE else share
