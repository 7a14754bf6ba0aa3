"""The step of a job as flows on the links of its system, which wait for each other.

A computation is a flow of its own: through a link that stands for the accelerator's computing, with as many
bytes as it takes time. A collective is a ring whose transfers are flows, cut into chunks; rings of several
groups and sends run at once and share links. A transfer begins when its sender and its receiver have both
started the operation. This is the simulation of :mod:`sysgym.emulator.accelerators.flows`; here is only the
lowering.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.flows.engine import NOBODY
from sysgym.emulator.accelerators.flows.links import LinkGraph
from sysgym.emulator.accelerators.flows.schedules import make_schedule
from sysgym.emulator.accelerators.flows.tables import Paths
from sysgym.emulator.accelerators.flows.transfers import spans_ring
from sysgym.emulator.accelerators.programs import Collective
from sysgym.emulator.training.generated.structure import SENDS, Structure
from sysgym.emulator.training.operations import FloatArray, IntArray

CHUNK_BYTES, MOST_CHUNKS = 4e6, 4
"""Largest chunk of a transfer of a ring, and the most chunks into which one is cut."""


@dataclass(frozen=True, eq=False)
class Lowered:
    """Flows of a step.

    The first n flows are the operations' begins, of a computation the computation itself. Then come the ends
    of communications, then transfers.

    Attributes:
        structure: The operations.
        links: Links of the system.
        end_of: The flow whose arrival ends each operation, int64 [n].
        first_transfer: The first flow that is a transfer.
        operation: Operation of each transfer, of which its size is a share, int64 [n_transfers].
        share: Bytes of each transfer over those of its operation, float64 [n_transfers].
        latency_s: Latency of each transfer, float64 [n_transfers].
        path: Path of each transfer, int32 [n_transfers].
        receiver: Receiving device of each path, int64 [n_paths].
        ring: Number of the ring to which each path belongs, int64 [n_paths]; a send's is one by itself.
        paths: The paths.
        wait_first: Flow f waits on ``wait_on[wait_first[f] : wait_first[f + 1]]``, int64 [n_flows + 1].
        wait_on: int32.
        follows: The transfer before each flow on its connection, -1 for none, int32 [n_flows].
    """

    structure: Structure
    links: LinkGraph
    end_of: IntArray
    first_transfer: int
    operation: IntArray
    share: FloatArray
    latency_s: FloatArray
    path: NDArray[np.int32]
    receiver: IntArray
    ring: IntArray
    paths: Paths
    wait_first: IntArray
    wait_on: NDArray[np.int32]
    follows: NDArray[np.int32]

    @property
    def n_flows(self) -> int:
        """Number of flows."""
        return len(self.follows)

    def transfer_bytes(self) -> FloatArray:
        """Return the bytes of each transfer with microbatches of mean length, float64 [n_transfers]."""
        parts = self.structure.operations.parts
        assert parts is not None
        return self.share * parts.size_bytes[self.operation]


@dataclass(frozen=True, eq=False)
class _Transfers:
    """Transfers of groups of one kind, numbered from 0, with paths numbered from 0."""

    operation: IntArray
    share: FloatArray
    latency_s: FloatArray
    path: IntArray
    receiver: IntArray
    ring: IntArray
    paths: Paths
    begins: list[IntArray]
    """Operations for whose begin each transfer waits: pairs (transfers, operations), flat."""
    arrivals: IntArray
    """Pairs of a transfer and the one whose arrival it waits for, [2, n]."""
    ends: IntArray
    """Pairs of an operation and a transfer that it ends after, [2, n]."""
    follows: IntArray


@lru_cache(maxsize=4)
def lowered(structure: Structure) -> Lowered:
    """Return the flows of a job's step."""
    operations, graph = structure.operations, structure.graph
    parts = operations.parts
    assert parts is not None
    n, links = len(operations), LinkGraph(structure.job.hierarchy)
    communications = np.flatnonzero(~operations.computes)
    end_of = np.arange(n)
    end_of[communications] = n + np.arange(len(communications))
    first_transfer = n + len(communications)
    waits = [_graph_waits(structure, end_of)]
    # An operation that nobody meets ends when it begins.
    waits.append(np.stack([end_of[communications], communications]))
    batches: dict[tuple[bool, int, int], list[list[int]]] = defaultdict(list)
    for start, stop in zip(graph.first_place, graph.first_place[1:], strict=False):
        if stop - start == 1:
            continue
        group = sorted(graph.operation_at[start:stop].tolist(), key=lambda one: operations.rank[one])
        sends = operations.kind[group[0]] in SENDS or operations.kind[group[1]] in SENDS
        chunk_bytes = float(parts.size_bytes[group[0]]) / len(group)
        chunks = 1 if sends else min(max(math.ceil(chunk_bytes / CHUNK_BYTES), 1), MOST_CHUNKS)
        batches[sends, len(group), chunks].append(group)
    found = [
        _sends(structure, links, groups) if sends else _rings(structure, links, groups, chunks)
        for (sends, _, chunks), groups in batches.items()
    ]
    offset, path_offset, ring_offset = first_transfer, 0, 0
    follows = [np.full(first_transfer, NOBODY)]
    paths, rings = [], []
    for one in found:
        transfers, begins = one.begins
        waits.append(np.stack([transfers + offset, begins]))
        waits.append(one.arrivals + offset)
        waits.append(np.stack([end_of[one.ends[0]], one.ends[1] + offset]))
        follows.append(np.where(one.follows == NOBODY, NOBODY, one.follows + offset))
        paths.append(one.path + path_offset)
        offset += len(one.operation)
        path_offset += one.paths.n_paths
        rings.append(one.ring + ring_offset)
        ring_offset = int(rings[-1].max()) + 1
    waiting, wait_on = np.concatenate(waits, axis=1)
    order = np.argsort(waiting, kind="stable")
    return Lowered(
        structure,
        links,
        end_of,
        first_transfer,
        _joined([one.operation for one in found], np.int64),
        _joined([one.share for one in found], np.float64),
        _joined([one.latency_s for one in found], np.float64),
        _joined(paths, np.int32),
        _joined([one.receiver for one in found], np.int64),
        _joined(rings, np.int64),
        _joined_paths([one.paths for one in found]),
        np.searchsorted(waiting[order], np.arange(offset + 1)).astype(np.int64),
        wait_on[order].astype(np.int32),
        np.concatenate(follows).astype(np.int32),
    )


def _graph_waits(structure: Structure, end_of: IntArray) -> IntArray:
    """Return pairs of an operation and the end of one before it."""
    graph = structure.graph
    after = np.repeat(np.arange(graph.n_operations), np.diff(graph.first_predecessor))
    return np.stack([graph.operation_at[after], end_of[graph.operation_at[graph.predecessors]]])


def _sends(structure: Structure, links: LinkGraph, groups: Sequence[Sequence[int]]) -> _Transfers:
    """Return a transfer for each pair of a send and a receive."""
    operations = structure.operations
    pairs = np.array(groups, np.int64)
    is_send = np.isin(operations.kind[pairs], SENDS)
    send, receive = pairs[is_send], pairs[~is_send]
    ends = np.stack([operations.rank[send], operations.rank[receive]])
    unique, path = np.unique(ends, axis=1, return_inverse=True)
    source, target = unique
    transfers = np.arange(len(pairs))
    return _Transfers(
        send,
        np.ones(len(pairs)),
        links.latency_s(ends[0], ends[1]),
        path.ravel(),
        target,
        np.arange(len(source)),
        links.paths(source, target, unique.T, np.arange(len(source))),
        [np.tile(transfers, 2), np.concatenate([send, receive])],
        np.zeros((2, 0), np.int64),
        np.stack([np.concatenate([send, receive]), np.tile(transfers, 2)]),
        np.full(len(pairs), NOBODY),
    )


def _rings(
    structure: Structure, links: LinkGraph, groups: Sequence[Sequence[int]], chunks: int
) -> _Transfers:
    """Return the transfers of ring all-reduces; a round of all chunks comes before the next round."""
    members = np.array(groups, np.int64)
    devices, of_devices = np.unique(structure.operations.rank[members], axis=0, return_inverse=True)
    n_groups, n_members = members.shape
    channels = 2 if spans_ring(links, devices.astype(np.int32)) else 1
    schedule = make_schedule(Collective.ALL_REDUCE, "ring", (n_members,), channels=channels)
    n_each = schedule.n_transfers * chunks

    def in_groups(of_one: NDArray[np.signedinteger], step: int = n_each) -> IntArray:
        """Return numbers of one group's transfers in all groups."""
        found: IntArray = (of_one[None, :].astype(np.int64) + step * np.arange(n_groups)[:, None]).ravel()
        return found

    # Transfer t of the schedule and chunk c is t * chunks + c.
    transfer = np.repeat(np.arange(schedule.n_transfers), chunks)
    chunk = np.tile(np.arange(chunks), schedule.n_transfers)
    before = schedule.follows[transfer].astype(np.int64)
    follows = np.where(
        chunk > 0,
        np.arange(n_each) - 1,
        np.where(before == NOBODY, NOBODY, before * chunks + chunks - 1),
    )
    n_waits = np.diff(schedule.wait_first)
    waiting = np.repeat(np.repeat(np.arange(schedule.n_transfers), n_waits) * chunks, chunks)
    each = np.tile(np.arange(chunks), len(schedule.wait_on))
    arrivals = np.stack(
        [waiting + each, np.repeat(schedule.wait_on.astype(np.int64) * chunks, chunks) + each]
    )
    senders, receivers, pair_of = schedule.connections
    source, target = devices[:, senders], devices[:, receivers]
    group_of_path = np.broadcast_to(np.arange(len(devices))[:, None], source.shape)
    src, dst = members[:, schedule.src[transfer]].ravel(), members[:, schedule.dst[transfer]].ravel()
    path = (pair_of[transfer][None, :] + len(senders) * of_devices.ravel()[:, None]).ravel()
    everything = np.arange(n_groups * n_each)
    return _Transfers(
        src,
        np.full(n_groups * n_each, schedule.piece_count[0] / schedule.n_pieces / chunks),
        links.latency_s(source.ravel(), target.ravel())[path],
        path,
        target.ravel(),
        group_of_path.ravel(),
        links.paths(source.ravel(), target.ravel(), devices, group_of_path.ravel()),
        [np.tile(everything, 2), np.concatenate([src, dst])],
        np.stack([in_groups(arrivals[0]), in_groups(arrivals[1])]),
        np.stack([np.concatenate([src, dst]), np.tile(everything, 2)]),
        np.where(np.tile(follows, n_groups) == NOBODY, NOBODY, in_groups(follows)),
    )


def _joined(arrays: Sequence[NDArray[Any]], dtype: type) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype)


def _joined_paths(tables: Sequence[Paths]) -> Paths:
    counts = _joined([np.diff(one.first) for one in tables], np.int64)
    return Paths(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        _joined([one.link for one in tables], np.int32),
        _joined([one.share for one in tables], np.float64),
    )
