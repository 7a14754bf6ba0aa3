"""Sending end of a flow: packet selection, ACK processing, loss recovery and time-outs.

The transport sets the congestion window; its callbacks run on every event. This module decides when a packet
may leave, which one, and when it counts as lost, in the same way for all transports. Sources: RFC 5681 and
RFC 6582 (fast retransmit, NewReno), RFC 3042 (limited transmit), RFC 6675 (SACK), RFC 6298 (time-out).
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.pacing import (
    begin_sample,
    bring_pace_into_force,
    finish_sample,
    halt_for_transport,
    read_telemetry,
    space_next_packet,
)
from sysgym.emulator.packets.engine.ports import enqueue, first_link
from sysgym.emulator.packets.engine.scoreboard import (
    declare_lost,
    forget_acked,
    next_hole,
    repair_later_retransmissions,
    repair_lost_retransmission,
    take_repeated,
    take_sack,
)
from sysgym.emulator.packets.memory.numba_records import callback_caller
from sysgym.emulator.packets.memory.records import (
    EVENT,
    FLOW,
    LONG_LIVED_PACKETS,
    NEVER_NS,
    NEW_RENO,
    NOBODY,
    PACKET_CE,
    PACKET_ECN_CAPABLE,
    SACK,
    callback_at,
    event_at,
    flow_at,
    host_at,
    note_at,
    packet_at,
    segment_at,
)

DUPLICATE_THRESHOLD = 3

ON_START = 0
ON_ACK = 1
ON_LOSS = 2
ON_TIMEOUT = 3
ON_TICK = 4
N_CALLBACKS = 5
PARAMETERS, N_PARAMETERS, N_ENTRIES = 5, 6, 7
"""Entries of a transport behind its callbacks: address and number of its parameters; entries in all."""

call_callback = callback_caller(FLOW, EVENT)


@njit(forceinline=True)
def notify(world: Any, flow: Any, what: int, event: Any, extras: Any) -> None:
    """Call a flow's transport; halt the world if it raises, or leaves an invalid window or rate."""
    first = flow.transport * N_ENTRIES
    event.parameters = callback_at(world.callbacks, first + PARAMETERS).address
    event.n_parameters = callback_at(world.callbacks, first + N_PARAMETERS).address
    raised = call_callback(callback_at(world.callbacks, first + what).address, flow, event)
    if raised != 0 or not (0.0 <= flow.cwnd < math.inf and flow.ssthresh >= 0.0):
        halt_for_transport(world, flow, what, raised)
    elif extras is not None:
        bring_pace_into_force(world, flow, what)


@njit(forceinline=True)
def duplicate_threshold(world: Any, extras: Any) -> int:
    """Return how many packets beyond a hole make it a loss: more where packets take several paths."""
    if extras is not None:
        return int(world.duplicate_threshold)
    return DUPLICATE_THRESHOLD


@njit(forceinline=True)
def keeps_order(world: Any, extras: Any) -> bool:
    """Return whether packets of a flow arrive in the order in which they were sent."""
    if extras is not None:
        return bool(world.paths_keep_order)
    return True


@njit(forceinline=True)
def window_packets(world: Any, flow: Any) -> int:
    """Return how many packets may be in flight now: at least one, however small the transport's window."""
    return max(int(min(flow.cwnd, float(world.max_window_packets))), 1)


@njit(forceinline=True)
def pipe_packets(flow: Any) -> int:
    """Return the number of packets believed to be in flight.

    Every duplicate ACK (RFC 5681) and every sacked or lost packet (RFC 6675) reduces it by one.
    """
    return flow.nxt - flow.una - flow.duplicate_acks - flow.sacked - flow.lost


@njit(forceinline=True)
def next_sequence(world: Any, flow: Any) -> int:
    """Return the number of the packet that the flow would send now, or NOBODY."""
    if flow.resend_una:
        return flow.una
    if pipe_packets(flow) >= window_packets(world, flow):
        return NOBODY
    if flow.recovery_credit <= 0 and flow.in_recovery and flow.recovery == SACK:
        return NOBODY
    if flow.lost > 0:
        return next_hole(world, flow)
    if flow.nxt < flow.n_packets and flow.nxt - flow.una < world.max_window_packets:
        return flow.nxt
    return NOBODY


@njit
def transmit(world: Any, flow_id: int, seq: int, now_ns: int, extras: Any) -> int:
    """Send one packet from a free slot, and return its size in bytes."""
    flow = flow_at(world.flows, flow_id)
    host = host_at(world.hosts, flow.src)
    flow.recovery_credit -= 1
    if seq == flow.una:
        flow.una_sent_ns = now_ns
    if flow.resend_una:
        flow.resend_una = 0
    elif seq == flow.nxt:
        flow.nxt += 1
    elif seq < flow.hole_cursor:
        flow.repair_cursor = seq + 1
        flow.lost -= 1
    else:
        flow.hole_cursor = seq + 1
        flow.lost -= 1
    if seq < flow.high:
        flow.retransmitted_packets += 1
        host.retransmitted_packets += 1
        if extras is not None and world.loses_at_random and seq == flow.una:
            # The timer restarts with this transmission, as in Linux (tcp_xmit_retransmit_queue).
            flow.rto_deadline_ns = now_ns + flow.rto_ns
    else:
        flow.high = seq + 1
    slot = world.first_free_packet
    packet = packet_at(world.packets, slot)
    world.first_free_packet = packet.next
    world.free_packets -= 1
    payload_bytes = flow.last_packet_bytes if seq == flow.n_packets - 1 else world.payload_bytes
    size_bytes = payload_bytes + world.header_bytes
    segment = segment_at(world.segments, slot)
    segment.sent_ns = now_ns
    segment.seq = seq
    packet.flow = flow_id
    packet.size_bytes = size_bytes
    packet.flags = PACKET_ECN_CAPABLE if flow.ecn_capable else 0
    host.sent_bytes += size_bytes
    host.sent_packets += 1
    if flow.rto_deadline_ns == NEVER_NS:
        flow.rto_deadline_ns = now_ns + flow.rto_ns
    if extras is not None:
        note_at(world.notes, slot).came_by = NOBODY
        begin_sample(world, flow, slot, pipe_packets(flow) <= 1, now_ns)
        space_next_packet(flow, size_bytes, next_sequence(world, flow) != NOBODY, now_ns)
    enqueue(world, first_link(world, packet, flow_id, 0), slot, now_ns, extras)
    return size_bytes


@njit
def update_rtt(world: Any, flow: Any, rtt_ns: int) -> None:
    """Update the RTT estimate (RFC 6298) with a sample from every ACK.

    The echoed sending time is that of the very transmission, so retransmissions give valid samples.
    """
    flow.rtt_samples += 1
    flow.rtt_sum_ns += rtt_ns
    if rtt_ns < flow.min_rtt_ns:
        flow.min_rtt_ns = rtt_ns
    if flow.srtt_ns == 0.0:
        flow.srtt_ns = float(rtt_ns)
        flow.rttvar_ns = 0.5 * rtt_ns
    else:
        error = rtt_ns - flow.srtt_ns
        flow.srtt_ns += 0.125 * error
        flow.rttvar_ns += 0.25 * (abs(error) - flow.rttvar_ns)
    rto_ns = int(flow.srtt_ns + max(4.0 * flow.rttvar_ns, float(world.timer_tick_ns)))
    flow.rto_ns = min(max(rto_ns, world.min_rto_ns), world.max_rto_ns)


@njit
def enter_recovery(flow: Any) -> bool:
    """Begin fast recovery, unless the loss belongs to a window that has already been answered.

    See RFC 6582, 3.2 step 2.
    """
    if flow.in_recovery or flow.una < flow.recover:
        return False
    flow.in_recovery = 1
    flow.recover = flow.high
    return True


@njit(forceinline=True)
def take_cumulative_ack(world: Any, flow: Any, ack: int) -> int:
    """Move the window forward; return how many packets are newly known to have arrived.

    A partial ACK means that the packet it asks for is lost (RFC 6582, 3.2 step 3); NewReno also deflates the
    window by the packets that left the network.
    """
    known = forget_acked(world, flow, ack) if flow.sacked + flow.lost > 0 else 0
    newly_acked = ack - flow.una
    flow.una = ack
    flow.nxt = max(flow.nxt, ack)
    flow.timeouts_in_a_row = 0
    if not flow.in_recovery or ack >= flow.recover:
        flow.in_recovery = 0
        flow.duplicate_acks = 0
    elif flow.recovery == NEW_RENO:
        flow.resend_una = 1
        flow.duplicate_acks = max(flow.duplicate_acks - newly_acked + 1, 0)
    elif flow.hole_cursor <= ack:
        declare_lost(world, flow, ack + 1)
    return newly_acked - known


@njit(forceinline=True)
def take_duplicate_ack(flow: Any, threshold: int) -> bool:
    """Count a duplicate ACK (NewReno); return True if it begins a recovery (RFC 5681, 3.2)."""
    if flow.high == flow.una:
        return False
    flow.duplicate_acks += 1
    if flow.duplicate_acks == threshold and enter_recovery(flow):
        flow.resend_una = 1
        return True
    return False


@njit(forceinline=True)
def first_recovery_credit(world: Any, flow: Any) -> int:
    """Return how many packets may leave in a SACK recovery before the next one is delivered.

    From then on every delivered packet lets one leave: packet conservation, the bound of RFC 6937. It does
    not apply to a flow without a window, whose rate is set from outside.
    """
    return 1 if flow.cwnd < world.max_window_packets else int(LONG_LIVED_PACKETS)


@njit(forceinline=True)
def ack_flow(world: Any, slot: int, now_ns: int, extras: Any) -> None:
    """Apply an ACK to its flow: RTT, window, recovery and the transport's reaction. Send nothing."""
    packet = packet_at(world.packets, slot)
    flow = flow_at(world.flows, packet.flow)
    host = host_at(world.hosts, flow.src)
    event = event_at(world.event, 0)
    segment = segment_at(world.segments, slot)
    rtt_ns = now_ns - segment.sent_ns
    marked = 1 if packet.flags & PACKET_CE else 0
    covers = 1
    if extras is not None:
        covers = note_at(world.notes, slot).covers
    flow.acked_packets += covers
    flow.marked_packets += covers * marked
    host.acked_packets += covers
    host.rtt_samples += 1
    host.rtt_sum_ns += rtt_ns
    host.marked_packets += covers * marked
    update_rtt(world, flow, rtt_ns)
    in_flight = flow.nxt - flow.una
    event.now_ns = now_ns
    event.marked = marked
    event.rtt_ns = rtt_ns
    event.in_flight_packets = in_flight
    event.window_limited = 1 if pipe_packets(flow) >= window_packets(world, flow) else 0
    event.acked_packets = 0
    begins_recovery = False
    advances = segment.ack > flow.una
    event.duplicate = 0 if advances or not keeps_order(world, extras) else 1
    if advances:
        event.acked_packets = take_cumulative_ack(world, flow, segment.ack)
    if extras is not None and world.loses_at_random and flow.recovery == SACK and segment.seq > segment.ack:
        event.acked_packets += take_repeated(world, flow, slot)
    if advances:
        flow.rto_deadline_ns = now_ns + flow.rto_ns if flow.high > flow.una else NEVER_NS
        if extras is not None and flow.recovery == SACK and segment.seq > segment.ack:
            # The ACKs in between were lost: this one brings both a new left edge and a packet beyond it.
            event.acked_packets += take_sack(world, flow, segment.seq, duplicate_threshold(world, extras))
            begins_recovery = flow.lost > 0 and enter_recovery(flow)
    elif flow.recovery == NEW_RENO:
        begins_recovery = take_duplicate_ack(flow, duplicate_threshold(world, extras))
    else:
        event.acked_packets = take_sack(world, flow, segment.seq, duplicate_threshold(world, extras))
        begins_recovery = flow.lost > 0 and enter_recovery(flow)
    if flow.recovery == SACK and flow.hole_cursor > 0 and keeps_order(world, extras):
        repair_lost_retransmission(flow, advances, segment.sent_ns, now_ns)
        if extras is not None and world.loses_at_random:
            repair_later_retransmissions(world, flow, segment.sent_ns, now_ns)
    flow.recovery_credit += event.acked_packets
    if extras is not None:
        event.lost_packets = flow.lost
        finish_sample(world, flow, event, slot, now_ns)
        if world.keeps_stamps:
            read_telemetry(world, event, slot)
    if begins_recovery:
        notify(world, flow, ON_LOSS, event, extras)
        flow.recovery_credit = first_recovery_credit(world, flow)
    notify(world, flow, ON_ACK, event, extras)


@njit
def time_out(world: Any, flow: Any, now_ns: int, extras: Any) -> None:
    """Handle a retransmission time-out: back off and start again from the first unacknowledged packet.

    See RFC 6298, 5.4 to 5.7.
    """
    event = event_at(world.event, 0)
    event.now_ns = now_ns
    event.acked_packets = 0
    event.marked = 0
    event.rtt_ns = 0
    event.in_flight_packets = flow.nxt - flow.una
    event.window_limited = 1
    event.duplicate = 0
    flow.timeouts += 1
    host_at(world.hosts, flow.src).timeouts += 1
    flow.recover = flow.high
    flow.in_recovery = 0
    flow.duplicate_acks = 0
    flow.resend_una = 0
    ssthresh = flow.ssthresh
    notify(world, flow, ON_TIMEOUT, event, extras)
    if (
        flow.timeouts_in_a_row > 0
    ):  # RFC 5681, 3.1: a packet that is lost repeatedly lowers the threshold only once
        flow.ssthresh = ssthresh
    flow.timeouts_in_a_row += 1
    if flow.recovery == NEW_RENO:
        flow.nxt = flow.una
    else:
        flow.hole_cursor = flow.una
        flow.lost_below = flow.una
        flow.repair_below = 0
        flow.resent_by_ns = 0
        flow.lost = 0
        declare_lost(world, flow, flow.high)
    flow.rto_ns = min(2 * flow.rto_ns, world.max_rto_ns)
    flow.rto_deadline_ns = now_ns + flow.rto_ns
