"""Single flows and hosts as a controller at the sender sees and steers them, in one compiled call.

:class:`~sysgym.emulator.packets.statistics.FlowTable` is for reading everything now and then; this is for
reading a few flows thousands of times a second, into memory that is there already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from sysgym.emulator.compiling import compiled
from sysgym.emulator.packets.layout import NEVER_NS, NOBODY, flow_at, host_at, world_at
from sysgym.emulator.packets.wire import FIXED_POINT_BITS

SENT_PACKETS = 0
"""Data packets sent, retransmissions included."""
ACKED_PACKETS = 1
"""ACKs that came back: one for each data packet that arrived."""
MARKED_PACKETS = 2
"""ACKs that echo a mark."""
LOST_PACKETS = 3
"""Packets that the sender took for lost (a host: sent again)."""
DELIVERED_PACKETS = 4
"""Packets that the receiver has in order; a host: full packets' worth of payload."""
RTT_SUM_S = 5
RTT_SAMPLES = 6
TIMEOUTS = 7
IN_FLIGHT_PACKETS = 8
"""Believed to be under way now."""
CWND_PACKETS = 9
"""Congestion window now; a host: sum of its active flows'."""
SRTT_S = 10
"""Smoothed round trip (RFC 6298); 0 before the first sample. A host: 0."""
MIN_RTT_S = 11
"""Least round trip so far; 0 before the first sample. A host: 0."""
ACTIVE_FLOWS = 12
"""A flow: 1 while it has something to send. A host: how many of its flows have."""
N_COUNTERS = 13

_S = 1e-9


@njit(forceinline=True)
def read_flow(world: Any, flow_id: int, out: Any) -> None:
    """Reads one flow's counters; see the constants above for what stands where."""
    flow = flow_at(world.flows, flow_id)
    # A packet sent is either the first with its number or a retransmission.
    out[SENT_PACKETS] = flow.high + flow.retransmitted_packets
    out[ACKED_PACKETS] = flow.acked_packets
    out[MARKED_PACKETS] = flow.marked_packets
    out[LOST_PACKETS] = flow.retransmitted_packets + flow.lost
    out[DELIVERED_PACKETS] = flow.rcv_nxt
    out[RTT_SUM_S] = flow.rtt_sum_ns * _S
    out[RTT_SAMPLES] = flow.rtt_samples
    out[TIMEOUTS] = flow.timeouts
    out[IN_FLIGHT_PACKETS] = flow.nxt - flow.una - flow.duplicate_acks - flow.sacked - flow.lost
    out[CWND_PACKETS] = min(flow.cwnd, float(world.max_window_packets))
    out[SRTT_S] = flow.srtt_ns * _S
    out[MIN_RTT_S] = 0.0 if flow.min_rtt_ns == NEVER_NS else flow.min_rtt_ns * _S
    out[ACTIVE_FLOWS] = flow.active


@njit(forceinline=True)
def read_host(world: Any, host_id: int, out: Any) -> None:
    """Reads what all flows of a host have counted together."""
    host = host_at(world.hosts, host_id)
    out[SENT_PACKETS] = host.sent_packets
    out[ACKED_PACKETS] = host.acked_packets
    out[MARKED_PACKETS] = host.marked_packets
    out[LOST_PACKETS] = host.retransmitted_packets
    out[DELIVERED_PACKETS] = host.delivered_bytes / world.payload_bytes
    out[RTT_SUM_S] = host.rtt_sum_ns * _S
    out[RTT_SAMPLES] = host.rtt_samples
    out[TIMEOUTS] = host.timeouts
    in_flight = 0
    cwnd = 0.0
    flow_id = host.first_active
    while flow_id != NOBODY:
        flow = flow_at(world.flows, flow_id)
        in_flight += flow.nxt - flow.una - flow.duplicate_acks - flow.sacked - flow.lost
        cwnd += min(flow.cwnd, float(world.max_window_packets))
        flow_id = flow.next_active
    out[IN_FLIGHT_PACKETS] = in_flight
    out[CWND_PACKETS] = cwnd
    out[SRTT_S] = 0.0
    out[MIN_RTT_S] = 0.0
    out[ACTIVE_FLOWS] = host.active_flows


def source_digest(*files: Path) -> str:
    """Digest of this folder's sources and of other files.

    numba's cache on disk looks only at the file of the cached function. A function that closes over this
    digest, as a constant, is compiled again when a record's layout changes.
    """
    digest = hashlib.sha256()
    for path in [*sorted(Path(__file__).parent.glob("*.py")), *files]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


@njit(forceinline=True)
def multiply_window(world: Any, flow_id: int, factor: float) -> None:
    """Multiplies a flow's congestion window; it stays between one packet and the largest window."""
    flow = flow_at(world.flows, flow_id)
    largest = float(world.max_window_packets)
    flow.cwnd = min(max(min(flow.cwnd, largest) * factor, 1.0), largest)


@njit(forceinline=True)
def set_pace(world: Any, flow_id: int, rate_bps: float) -> None:
    """Spaces a flow's packets from the next one on."""
    flow = flow_at(world.flows, flow_id)
    flow.pacing_rate_bps = rate_bps
    flow.pace_in_force_bps = rate_bps
    flow.pace_ns_per_byte_q20 = int(np.rint(8e9 / rate_bps * 2.0**FIXED_POINT_BITS))


def _compiled(digest: str) -> tuple[Callable[..., Any], ...]:
    @compiled
    def read_flows(world_address: int, flow_ids: Any, out: Any) -> None:
        """Reads the counters of some flows: ``flow_ids`` int64 (n,), ``out`` float64 (n, N_COUNTERS)."""
        digest  # noqa: B018  (part of the cache key)
        world = world_at(world_address, 0)
        for row in range(len(flow_ids)):
            read_flow(world, flow_ids[row], out[row])

    @compiled
    def read_hosts(world_address: int, host_ids: Any, out: Any) -> None:
        """Reads the counters of some hosts, as ``read_flows``."""
        digest  # noqa: B018
        world = world_at(world_address, 0)
        for row in range(len(host_ids)):
            read_host(world, host_ids[row], out[row])

    @compiled
    def multiply_windows(world_address: int, flow_ids: Any, factors: Any) -> None:
        """Multiplies the windows of some flows, each by its factor: int64 (n,), float64 (n,)."""
        digest  # noqa: B018
        world = world_at(world_address, 0)
        for row in range(len(flow_ids)):
            multiply_window(world, flow_ids[row], factors[row])

    @compiled
    def set_paces(world_address: int, flow_ids: Any, rates_bps: Any) -> None:
        """Spaces the packets of some flows: int64 (n,), float64 (n,), bit/s."""
        digest  # noqa: B018
        world = world_at(world_address, 0)
        for row in range(len(flow_ids)):
            set_pace(world, flow_ids[row], rates_bps[row])

    return read_flows, read_hosts, multiply_windows, set_paces


read_flows, read_hosts, multiply_windows, set_paces = _compiled(source_digest())
