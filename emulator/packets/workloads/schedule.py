"""What a workload yields: flows with their ends, sizes and start times."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sysgym.scenarios.errors import SysgymError

LONG_LIVED = -1
"""Size of a flow that never ends."""

NO_GROUP = -1
"""Group of a flow that belongs to none."""

SERVICE_PORT = 5001
"""Destination port of every flow."""

FIRST_EPHEMERAL_PORT, N_EPHEMERAL_PORTS = 49152, 16384
"""Source ports: the dynamic range (RFC 6335, section 6)."""

MOST_FLOWS = 4_000_000
"""Most flows of a schedule: each keeps its state for the whole episode."""


class FlowSchedule(NamedTuple):
    """Flows sorted by start time, arrays of shape (n_flows,)."""

    src: NDArray[np.int32]
    """Sending host."""
    dst: NDArray[np.int32]
    """Receiving host, another one than the sender."""
    size_bytes: NDArray[np.int64]
    """Payload; -1: the flow never ends."""
    start_ns: NDArray[np.int64]
    """Start in nanoseconds after the reset."""
    src_port: NDArray[np.int32]
    """Ephemeral port at the sender."""
    dst_port: NDArray[np.int32]
    """Port of the service at the receiver."""
    group: NDArray[np.int32]
    """Incast round that the flow belongs to; -1: none."""


def nanoseconds(seconds: float) -> int:
    """A time in whole nanoseconds, the nearest."""
    return round(seconds * 1e9)


def make_schedule(
    rng: np.random.Generator,
    src: ArrayLike,
    dst: ArrayLike,
    *,
    size_bytes: ArrayLike,
    start_ns: ArrayLike,
    group: ArrayLike = NO_GROUP,
) -> FlowSchedule:
    """Sorts flows by start time, equal times in the order given, and draws their source ports.

    A host's first flow has a port drawn at random, the next ones the ports after it: no two of its flows
    share a port before the range is used up, and other seeds get other ECMP paths.

    Args:
        rng: Source of the ports.
        src: Sending hosts, shape (n_flows,).
        dst: Receiving hosts, shape (n_flows,).
        size_bytes: Payloads, one for each flow or one for all.
        start_ns: Start times, one for each flow or one for all.
        group: Groups, one for each flow or one for all.

    Raises:
        SysgymError: If there are more than ``MOST_FLOWS`` flows.
    """
    senders = np.asarray(src, dtype=np.int32)
    if len(senders) > MOST_FLOWS:
        raise SysgymError(
            f"the workload has {len(senders)} flows in an episode; at most {MOST_FLOWS} are possible"
        )
    starts = np.broadcast_to(np.asarray(start_ns, dtype=np.int64), senders.shape)
    order = np.argsort(starts, kind="stable")
    senders = senders[order]
    return FlowSchedule(
        src=senders,
        dst=np.asarray(dst, dtype=np.int32)[order],
        size_bytes=np.broadcast_to(np.asarray(size_bytes, dtype=np.int64), senders.shape)[order],
        start_ns=starts[order],
        src_port=_source_ports(rng, senders),
        dst_port=np.full(senders.shape, SERVICE_PORT, dtype=np.int32),
        group=np.broadcast_to(np.asarray(group, dtype=np.int32), senders.shape)[order],
    )


def _source_ports(rng: np.random.Generator, src: NDArray[np.int32]) -> NDArray[np.int32]:
    if len(src) == 0:
        return np.empty(0, dtype=np.int32)
    n_flows_of = np.bincount(src)
    by_host = np.argsort(src, kind="stable")
    # How many flows of the same host come before each flow.
    earlier = np.empty(len(src), dtype=np.int64)
    earlier[by_host] = np.arange(len(src)) - np.repeat(np.cumsum(n_flows_of) - n_flows_of, n_flows_of)
    first = rng.integers(0, N_EPHEMERAL_PORTS, size=len(n_flows_of))
    return (FIRST_EPHEMERAL_PORT + (first[src] + earlier) % N_EPHEMERAL_PORTS).astype(np.int32)
