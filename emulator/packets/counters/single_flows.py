"""Counters and settings of single flows and hosts, read and written in one compiled call.

:class:`~sysgym.emulator.packets.counters.statistics.FlowTable` holds all flows and is read rarely. This
module reads a few flows thousands of times a second, into existing arrays.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.packets.counters.rows import FlowCounters
from sysgym.emulator.packets.engine.event_queue.queue import push
from sysgym.emulator.packets.engine.event_queue.tournament import remove
from sysgym.emulator.packets.engine.events import FLOW_SENDS, event_key, flow_source
from sysgym.emulator.packets.engine.pacing import space_waiting_packet
from sysgym.emulator.packets.memory.flow_record import flow_at
from sysgym.emulator.packets.memory.records import NEVER_NS, NOBODY, host_at, world_at

_S = 1e-9


@njit(forceinline=True)
def read_flow(world: Any, flow_id: int, out: FlowCounters) -> None:
    """Read one flow's counters into a record."""
    flow = flow_at(world.flows, flow_id)
    # A packet sent is either the first with its sequence number or a retransmission.
    out.sent_packets = flow.high - flow.first_packet + flow.retransmitted_packets
    out.acked_packets = flow.acked_packets
    out.marked_packets = flow.marked_packets
    out.lost_packets = flow.retransmitted_packets + flow.lost
    out.delivered_packets = flow.rcv_nxt - flow.first_packet
    out.rtt_sum_s = flow.rtt_sum_ns * _S
    out.rtt_samples = flow.rtt_samples
    out.timeouts = flow.timeouts
    out.in_flight_packets = flow.nxt - flow.una - flow.duplicate_acks - flow.sacked - flow.lost
    out.cwnd_packets = min(flow.cwnd, float(world.max_window_packets))
    out.srtt_s = flow.srtt_ns * _S
    out.min_rtt_s = 0.0 if flow.min_rtt_ns == NEVER_NS else flow.min_rtt_ns * _S
    out.active_flows = flow.active


@njit(forceinline=True)
def read_host(world: Any, host_id: int, out: FlowCounters) -> None:
    """Read the counters of a host, summed over its flows."""
    host = host_at(world.hosts, host_id)
    out.sent_packets = host.sent_packets
    out.acked_packets = host.acked_packets
    out.marked_packets = host.marked_packets
    out.lost_packets = host.retransmitted_packets
    out.delivered_packets = host.delivered_bytes / world.payload_bytes
    out.rtt_sum_s = host.rtt_sum_ns * _S
    out.rtt_samples = host.rtt_samples
    out.timeouts = host.timeouts
    in_flight = 0
    cwnd = 0.0
    flow_id = host.first_active
    while flow_id != NOBODY:
        flow = flow_at(world.flows, flow_id)
        in_flight += flow.nxt - flow.una - flow.duplicate_acks - flow.sacked - flow.lost
        cwnd += min(flow.cwnd, float(world.max_window_packets))
        flow_id = flow.next_active
    out.in_flight_packets = in_flight
    out.cwnd_packets = cwnd
    out.srtt_s = 0.0
    out.min_rtt_s = 0.0
    out.active_flows = host.active_flows


@njit(forceinline=True)
def multiply_window(world: Any, flow_id: int, factor: float) -> None:
    """Multiply a flow's congestion window, within one packet and the largest window."""
    flow = flow_at(world.flows, flow_id)
    largest = float(world.max_window_packets)
    flow.cwnd = min(max(min(flow.cwnd, largest) * factor, 1.0), largest)


@njit(forceinline=True)
def set_pace(world: Any, flow_id: int, rate_bps: float) -> None:
    """Set a flow's pacing rate while the event loop does not run; a waiting packet is rescheduled."""
    flow = flow_at(world.flows, flow_id)
    flow.pacing_rate_bps = rate_bps
    flow.pace_in_force_bps = rate_bps
    space_waiting_packet(flow, rate_bps)
    flow.next_send_ns = max(flow.next_send_ns, world.now_ns)
    if flow.begun and flow.pace_armed:
        source = flow_source(world, flow_id, FLOW_SENDS)
        remove(world, source)
        push(world, event_key(flow.next_send_ns, source))


@cached_kernel()
def read_flows(world_address: int, flow_ids: Any, out: Any) -> None:
    """Read the counters of some flows: ``flow_ids`` int64 (n,), ``out`` FLOW_COUNTERS (n,)."""
    world = world_at(world_address, 0)
    for row in range(len(flow_ids)):
        read_flow(world, flow_ids[row], out[row])


@cached_kernel()
def read_hosts(world_address: int, host_ids: Any, out: Any) -> None:
    """Read the counters of some hosts; arrays as in :func:`read_flows`."""
    world = world_at(world_address, 0)
    for row in range(len(host_ids)):
        read_host(world, host_ids[row], out[row])


@cached_kernel()
def multiply_windows(world_address: int, flow_ids: Any, factors: Any) -> None:
    """Multiply the windows of some flows, each by its factor: int64 (n,), float64 (n,)."""
    world = world_at(world_address, 0)
    for row in range(len(flow_ids)):
        multiply_window(world, flow_ids[row], factors[row])


@cached_kernel()
def set_paces(world_address: int, flow_ids: Any, rates_bps: Any) -> None:
    """Set the pacing rates of some flows: int64 (n,), float64 (n,), bit/s."""
    world = world_at(world_address, 0)
    for row in range(len(flow_ids)):
        set_pace(world, flow_ids[row], rates_bps[row])
