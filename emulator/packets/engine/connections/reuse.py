"""Reuse of connections: a flow continues on an idle connection between the same hosts.

A flow takes the connection that became idle last, as clients take one from their pool; if all are busy, it
opens a new connection. It continues with the window, RTT estimates, pace and path of the previous flow, and
with the state of its law. Packet numbers continue at the next multiple of the largest window, so that packet
numbers stored by a law lie in the past, and packets keep their places in the window's arrays.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.memory.flow_record import NO_WINDOW_PACKETS, STATE_SLOTS, flow_at
from sysgym.emulator.packets.memory.records import LONG_LIVED_PACKETS, NOBODY, route_hop_at

KEEP = 0
DECAY = 1
RESTART = 2
"""Rules for the window of an idle connection."""

NONVALIDATED_NS = 300_000_000_000
"""Time for which an unused window may be kept: five minutes (RFC 7661, 4.4.3)."""


@njit
def keep_connection(world: Any, flow_id: int, last_sent_ns: int) -> None:
    """Put the connection of a flow that has ended into the pool of its two hosts."""
    flow = flow_at(world.flows, flow_id)
    pool = flow_at(world.flows, flow.pool)
    flow.idle_since_ns = last_sent_ns
    flow.next_idle = pool.first_idle
    pool.first_idle = flow_id


@njit
def take_idle_connection(world: Any, flow: Any) -> int:
    """Take an idle connection from the pool; return the flow that used it last, or NOBODY."""
    if flow.pool == NOBODY:
        return NOBODY
    pool = flow_at(world.flows, flow.pool)
    idle = pool.first_idle
    if idle == NOBODY:
        return NOBODY
    last = flow_at(world.flows, idle)
    if last.n_packets + world.max_window_packets + flow.n_packets > LONG_LIVED_PACKETS:
        return NOBODY
    pool.first_idle = last.next_idle
    return int(idle)


@njit
def continue_connection(world: Any, flow_id: int, last_id: int, now_ns: int) -> None:
    """Continue the connection of a flow that has ended."""
    flow, last = flow_at(world.flows, flow_id), flow_at(world.flows, last_id)
    take_path(world, flow_id, last_id)
    take_estimates(flow, last)
    number_on(flow, last)
    flow.idle_since_ns = last.idle_since_ns
    idle_ns = now_ns - flow.idle_since_ns
    # Linux acknowledges at once again after a pause longer than the time-out.
    flow.quick_acks = world.quick_acks if idle_ns > flow.rto_ns else last.quick_acks
    shrink_idle_window(world, flow, idle_ns)


@njit
def take_path(world: Any, flow_id: int, last_id: int) -> None:
    """Copy the ports, and thus the path, of the connection."""
    flow, last = flow_at(world.flows, flow_id), flow_at(world.flows, last_id)
    flow.hash_out, flow.hash_back = last.hash_out, last.hash_back
    flow.base_rtt_ns, flow.hops = last.base_rtt_ns, last.hops
    for place in range(2 * world.route_stride):
        route_hop_at(world.routes, 2 * flow_id * world.route_stride + place).link = route_hop_at(
            world.routes, 2 * last_id * world.route_stride + place
        ).link


@njit
def number_on(flow: Any, last: Any) -> None:
    """Continue the packet numbers of the connection."""
    first = (last.n_packets + flow.window_mask) & ~flow.window_mask
    flow.first_packet = first
    flow.n_packets += first
    flow.una = flow.nxt = flow.high = flow.rcv_nxt = flow.highest_arrived = first


@njit
def take_estimates(flow: Any, last: Any) -> None:
    """Copy the state of both ends of the connection."""
    flow.cwnd, flow.ssthresh = last.cwnd, last.ssthresh
    flow.srtt_ns, flow.rttvar_ns = last.srtt_ns, last.rttvar_ns
    flow.rto_ns, flow.min_rtt_ns = last.rto_ns, last.min_rtt_ns
    for slot in range(STATE_SLOTS):
        flow.state[slot] = last.state[slot]
    # Losses by time.
    flow.rack_sent_ns, flow.rack_rtt_ns = last.rack_sent_ns, last.rack_rtt_ns
    flow.reordering_seen, flow.reordering_steps = last.reordering_seen, last.reordering_steps
    flow.reordering_recoveries = last.reordering_recoveries
    # Slow start.
    flow.round_samples, flow.round_end = last.round_samples, last.round_end
    flow.round_rtt_ns, flow.previous_round_rtt_ns = last.round_rtt_ns, last.previous_round_rtt_ns
    flow.css_baseline_ns, flow.css_rounds = last.css_baseline_ns, last.css_rounds
    flow.round_began_ns, flow.train_until_ns = last.round_began_ns, last.train_until_ns
    # Pace and delivery rate.
    flow.pacing_rate_bps, flow.pace_in_force_bps = last.pacing_rate_bps, last.pace_in_force_bps
    flow.pace_ns_per_byte_q20, flow.pace_fraction_q20 = last.pace_ns_per_byte_q20, last.pace_fraction_q20
    flow.next_send_ns, flow.paced_since_ns = last.next_send_ns, last.paced_since_ns
    flow.paced_bytes, flow.pacing_burst_packets = last.paced_bytes, last.pacing_burst_packets
    flow.delivered_packets, flow.delivered_ns = last.delivered_packets, last.delivered_ns
    flow.first_sent_ns, flow.app_limited_until = last.first_sent_ns, last.app_limited_until
    # The receiver.
    flow.ce_state, flow.last_cnp_ns = last.ce_state, last.last_cnp_ns


@njit
def shrink_idle_window(world: Any, flow: Any, idle_ns: int) -> None:
    """Reduce the window of a connection that was idle, by the scenario's rule.

    DECAY: half for each time-out that has passed, down to the initial window, as in Linux after RFC 2861.
    RESTART: the initial window after a time-out (RFC 5681, 4.1). KEEP: half for each five minutes (RFC 7661).
    Laws that set their window from a model of the path, such as BBR, and laws without a window keep it, as on
    Linux.
    """
    if not flow.reduces_by_prr or flow.cwnd >= NO_WINDOW_PACKETS:
        return
    allowed_ns = NONVALIDATED_NS if world.idle_window == KEEP else flow.rto_ns
    if idle_ns <= allowed_ns:
        return
    flow.cwnd = min(flow.cwnd, float(world.max_window_packets))  # a larger window was never used
    least = min(flow.cwnd, float(world.initial_window_packets))
    if world.idle_window == RESTART:
        flow.cwnd = least
        return
    flow.ssthresh = max(flow.ssthresh, 0.75 * flow.cwnd)
    while idle_ns > allowed_ns and flow.cwnd > least:
        flow.cwnd = max(0.5 * flow.cwnd, least)
        idle_ns -= allowed_ns
