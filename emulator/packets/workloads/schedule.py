"""Flow schedules: end hosts, sizes and start times of all flows of a workload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysgym.emulator.packets.memory.records import NEVER_NS, NOBODY
from sysgym.scenarios.errors import SysgymError

LONG_LIVED = -1
"""Size of a flow that never ends."""

NO_GROUP = -1
"""Group number of a flow without a group."""

SERVICE_PORT = 5001
"""Destination port of every flow."""

FIRST_EPHEMERAL_PORT, N_EPHEMERAL_PORTS = 49152, 16384
"""Source ports: the dynamic range (RFC 6335, section 6)."""

MOST_FLOWS = 4_000_000
"""Largest number of flows of a schedule; each keeps its state for the whole episode."""


class FlowSchedule(NamedTuple):
    """Flows sorted by start time, dependent flows last; arrays of shape (n_flows,) except ``after``."""

    src: NDArray[np.int32]
    """Sending host."""
    dst: NDArray[np.int32]
    """Receiving host, different from the sender."""
    size_bytes: NDArray[np.int64]
    """Payload; -1: the flow never ends."""
    start_ns: NDArray[np.int64]
    """Start in nanoseconds after the reset; NEVER_NS: ``after`` determines it."""
    src_port: NDArray[np.int32]
    """Ephemeral port at the sender."""
    dst_port: NDArray[np.int32]
    """Port of the service at the receiver."""
    group: NDArray[np.int32]
    """Round of an incast or a collective that the flow belongs to; -1: none."""
    after: NDArray[np.int32]
    """Flows that must end before this one starts, shape (n_flows, most per flow), rows padded with -1.

    Each has a lower index than the flow that waits for it, so there are no cycles.
    """
    after_delay_ns: NDArray[np.int64]
    """Time from the last of these ends to the start; 0 for a flow that does not wait."""
    priority: NDArray[np.int32]
    """Class of its packets, where queues have classes."""

    @property
    def needs(self) -> NDArray[np.int32]:
        """Number of flows that must end before each one starts, shape (n_flows,)."""
        return (self.after != NOBODY).sum(axis=1, dtype=np.int32)

    def successors(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the inverse of ``after``: the flows that wait for each one.

        Returns:
            ``first``, shape (n_flows + 1,), and ``waiting``: those that wait for flow ``f`` are
            ``waiting[first[f] : first[f + 1]]``.
        """
        waiting, column = np.nonzero(self.after != NOBODY)
        awaited = self.after[waiting, column]
        first = np.concatenate(([0], np.cumsum(np.bincount(awaited, minlength=len(self.src)))))
        return first.astype(np.int64), waiting[np.argsort(awaited, kind="stable")].astype(np.int32)


def nanoseconds(seconds: float) -> int:
    """Return a time in nanoseconds, rounded to the nearest integer."""
    return round(seconds * 1e9)


def make_schedule(
    rng: np.random.Generator,
    src: ArrayLike,
    dst: ArrayLike,
    *,
    size_bytes: ArrayLike,
    start_ns: ArrayLike,
    group: ArrayLike = NO_GROUP,
    after: ArrayLike | None = None,
    after_delay_ns: ArrayLike = 0,
    connection: ArrayLike | None = None,
    priority: ArrayLike = 0,
) -> FlowSchedule:
    """Return flows sorted by start time, equal times in the given order, with random source ports.

    A host's first connection has a random port, and the next ones have the ports after it. No two of its
    connections share a port until the range is exhausted, and different seeds give different ECMP paths.

    Args:
        rng: Source of the ports.
        src: Sending hosts, shape (n_flows,).
        dst: Receiving hosts, shape (n_flows,).
        size_bytes: Payloads, one for each flow or one for all.
        start_ns: Start times, one for each flow or one for all; ignored for flows that wait for others.
        group: Groups, one for each flow or one for all.
        after: Flows that each one waits for, shape (n_flows, most per flow), rows padded with -1; a flow
            waits only for flows before it in the given order. None: no flow waits.
        after_delay_ns: Time from the last end to the start, one for each flow or one for all.
        connection: Connection numbers; flows with the same number share a source port. None: every flow has
            its own connection.
        priority: Classes, one for each flow or one for all.

    Raises:
        SysgymError: If there are more than ``MOST_FLOWS`` flows, or a flow waits for itself or a later one.
    """
    senders = np.asarray(src, dtype=np.int32)
    n_flows = len(senders)
    if n_flows > MOST_FLOWS:
        raise SysgymError(
            f"the workload has {n_flows} flows in an episode; at most {MOST_FLOWS} are possible"
        )
    awaited = np.asarray(np.empty((n_flows, 0)) if after is None else after, dtype=np.int64)
    if np.any(awaited >= np.arange(n_flows)[:, np.newaxis]) or np.any(awaited < NOBODY):
        raise SysgymError(
            "the workload has a flow that waits for itself, for a later one or for none there is"
        )
    waits = np.any(awaited != NOBODY, axis=1)
    starts = np.where(waits, NEVER_NS, np.broadcast_to(np.asarray(start_ns, dtype=np.int64), senders.shape))
    order = np.argsort(starts, kind="stable")
    place = np.empty(n_flows + 1, dtype=np.int32)
    place[order] = np.arange(n_flows)
    place[NOBODY] = NOBODY
    senders = senders[order]
    return FlowSchedule(
        src=senders,
        dst=np.asarray(dst, dtype=np.int32)[order],
        size_bytes=np.broadcast_to(np.asarray(size_bytes, dtype=np.int64), senders.shape)[order],
        start_ns=starts[order],
        src_port=_source_ports(rng, senders, None if connection is None else np.asarray(connection)[order]),
        dst_port=np.full(senders.shape, SERVICE_PORT, dtype=np.int32),
        group=np.broadcast_to(np.asarray(group, dtype=np.int32), senders.shape)[order],
        after=place[awaited][order],
        after_delay_ns=np.where(waits, np.asarray(after_delay_ns, dtype=np.int64), 0)[order],
        priority=np.broadcast_to(np.asarray(priority, dtype=np.int32), senders.shape)[order],
    )


def merged(rng: np.random.Generator, parts: Sequence[FlowSchedule]) -> FlowSchedule:
    """Return all flows of several schedules in one, with new source ports and groups distinct by part."""
    offsets = np.cumsum([0, *(len(part.src) for part in parts)])
    width = max((part.after.shape[1] for part in parts), default=0)
    after = np.full((int(offsets[-1]), width), NOBODY, dtype=np.int64)
    groups, connections = [], []
    n_groups = 0
    for index, (part, offset) in enumerate(zip(parts, offsets[:-1], strict=True)):
        place = np.where(part.after == NOBODY, NOBODY, part.after + offset)
        after[offset : offset + len(part.src), : part.after.shape[1]] = place
        groups.append(np.where(part.group == NO_GROUP, NO_GROUP, part.group + n_groups))
        n_groups += int(part.group.max(initial=NO_GROUP)) + 1
        # Flows that shared a port within their part continue to share one.
        ends = (index * 2**20 + part.src.astype(np.int64)) * N_EPHEMERAL_PORTS
        connections.append(ends + part.src_port - FIRST_EPHEMERAL_PORT)
    return make_schedule(
        rng,
        _joined([part.src for part in parts]),
        _joined([part.dst for part in parts]),
        size_bytes=_joined([part.size_bytes for part in parts]),
        start_ns=_joined([part.start_ns for part in parts]),
        group=_joined(groups),
        after=after,
        after_delay_ns=_joined([part.after_delay_ns for part in parts]),
        connection=_joined(connections),
        priority=_joined([part.priority for part in parts]),
    )


def _joined(arrays: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays]).astype(np.int64)


def _source_ports(
    rng: np.random.Generator, src: NDArray[np.int32], connection: NDArray[Any] | None
) -> NDArray[np.int32]:
    if len(src) == 0:
        return np.empty(0, dtype=np.int32)
    if connection is not None:
        _, one, of_flow = np.unique(connection, return_index=True, return_inverse=True)
        # Numbered by first appearance, so the connection numbers themselves do not matter.
        rank = np.empty(len(one), dtype=np.int64)
        rank[np.argsort(one)] = np.arange(len(one))
        return _source_ports(rng, src[np.sort(one)], None)[rank[of_flow]]
    n_flows_of = np.bincount(src)
    by_host = np.argsort(src, kind="stable")
    # Number of flows of the same host before each flow.
    earlier = np.empty(len(src), dtype=np.int64)
    earlier[by_host] = np.arange(len(src)) - np.repeat(np.cumsum(n_flows_of) - n_flows_of, n_flows_of)
    first = rng.integers(0, N_EPHEMERAL_PORTS, size=len(n_flows_of))
    return (FIRST_EPHEMERAL_PORT + (first[src] + earlier) % N_EPHEMERAL_PORTS).astype(np.int32)
