"""Sending end of a flow: packet selection, ACK processing, loss recovery and time-outs.

The transport sets the congestion window; its callbacks run on every event. This module decides when a packet
may leave and processes ACKs and timers, in the same way for all transports (RFC 6298: time-out). The folder
``recovery`` decides which packets count as lost.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.bursts import continue_burst, limiting_packets, sends_bursts
from sysgym.emulator.packets.engine.connections.handshake import send_syn_again
from sysgym.emulator.packets.engine.pacing import (
    begin_sample,
    bring_pace_into_force,
    finish_sample,
    halt_for_transport,
    read_telemetry,
    space_next_packet,
)
from sysgym.emulator.packets.engine.ports import enqueue, first_link
from sysgym.emulator.packets.engine.receivers.credit import (
    announce,
    declare_overdue,
    lacks_credit,
    next_when_told,
    request_credit,
    spend_credit,
    take_ack_when_told,
)
from sysgym.emulator.packets.engine.recovery.ack_by_time import (
    FOUND_LOSSES,
    REDUCE,
    look_for_losses,
    take_ack_by_time,
    take_nack,
)
from sysgym.emulator.packets.engine.recovery.duplicate_acks import (
    count_transmission,
    first_recovery_credit,
    next_by_duplicates,
    restart_from_una,
    take_ack_by_duplicates,
)
from sysgym.emulator.packets.engine.recovery.flight import (
    keeps_order,
    pipe_packets,
    window_packets,
)
from sysgym.emulator.packets.engine.recovery.go_back_n import take_ack_going_back
from sysgym.emulator.packets.engine.recovery.rack import (
    declare_timed_out,
    next_by_time,
    record_transmission,
    transmission_of,
)
from sysgym.emulator.packets.engine.recovery.rate_reduction import reduce_rate
from sysgym.emulator.packets.engine.recovery.timer import (
    in_ticks,
    replace_by_retransmission_timer,
    set_retransmission_timer,
    set_timer,
)
from sysgym.emulator.packets.engine.recovery.undo import doubt_time_out
from sysgym.emulator.packets.memory.callbacks import (
    N_ENTRIES,
    N_PARAMETERS,
    ON_ACK,
    ON_LOSS,
    ON_TIMEOUT,
    PARAMETERS,
)
from sysgym.emulator.packets.memory.flow_record import (
    CONNECTING,
    FLOW,
    GO_BACK_N,
    PROBE,
    RACK,
    REORDERING,
    RETRANSMISSION,
    TOLD,
    flow_at,
)
from sysgym.emulator.packets.memory.numba_records import callback_caller
from sysgym.emulator.packets.memory.records import (
    EVENT,
    NEVER_NS,
    NOBODY,
    PACKET_CE,
    PACKET_ECN_CAPABLE,
    PACKET_TRIMMED,
    callback_at,
    event_at,
    host_at,
    note_at,
    packet_at,
    segment_at,
)

call_callback = callback_caller(FLOW, EVENT)


@njit(forceinline=True)
def notify(world: Any, flow: Any, what: int, event: Any, extras: Any) -> None:
    """Call a flow's transport; halt the world if it raises, or leaves an invalid window or rate."""
    first = flow.transport * N_ENTRIES
    event.parameters = callback_at(world.callbacks, first + PARAMETERS).address
    event.n_parameters = callback_at(world.callbacks, first + N_PARAMETERS).address
    event.path_measured = world.measures_path
    raised = call_callback(callback_at(world.callbacks, first + what).address, flow, event)
    if raised != 0 or not (0.0 <= flow.cwnd < math.inf and flow.ssthresh >= 0.0):
        halt_for_transport(world, flow, what, raised)
    elif extras is not None:
        bring_pace_into_force(world, flow, what)


@njit(forceinline=True)
def next_sequence(world: Any, flow: Any, extras: Any) -> int:
    """Return the number of the packet that the flow would send now, or NOBODY."""
    if extras is not None and flow.needs_credit and lacks_credit(flow):
        return NOBODY
    if flow.recovery == RACK:
        return int(next_by_time(world, flow))
    if extras is not None and flow.recovery == TOLD:
        return int(next_when_told(world, flow))
    return int(next_by_duplicates(world, flow))


@njit
def transmit(world: Any, flow_id: int, seq: int, now_ns: int, extras: Any) -> int:
    """Send one packet from a free slot, and return its size in bytes."""
    flow = flow_at(world.flows, flow_id)
    host = host_at(world.hosts, flow.src)
    flow.recovery_credit -= 1
    if extras is not None and flow.needs_credit:
        spend_credit(flow)
    if flow.recovery == RACK or (extras is not None and flow.recovery == TOLD):
        record_transmission(world, flow, seq, now_ns)
    else:
        count_transmission(flow, seq, now_ns)
    if seq < flow.high:
        flow.retransmitted_packets += 1
        host.retransmitted_packets += 1
        if extras is not None and world.loses_at_random and seq == flow.una and flow.recovery != RACK:
            # The timer restarts with this transmission, as in Linux (tcp_xmit_retransmit_queue).
            flow.timer_deadline_ns = now_ns + flow.rto_ns
    else:
        flow.high = seq + 1
    if flow.recovery == RACK:
        set_timer_after_sending(world, flow, seq, now_ns)
    elif flow.timer_deadline_ns == NEVER_NS:
        flow.timer_deadline_ns = now_ns + flow.rto_ns
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
    if extras is not None:
        note = note_at(world.notes, slot)
        note.came_by = NOBODY
        note.priority = flow.priority
        begin_sample(world, flow, slot, pipe_packets(flow) <= 1, now_ns)
        if flow.needs_credit:
            announce(world, flow, slot)
        has_more = next_sequence(world, flow, extras) != NOBODY
        continues = sends_bursts(world, flow) and continue_burst(world, flow, now_ns)
        space_next_packet(flow, size_bytes, continues, has_more, now_ns)
    enqueue(world, first_link(world, packet, flow_id, 0), slot, now_ns, extras)
    return size_bytes


@njit
def update_rtt(world: Any, flow: Any, rtt_ns: int) -> None:
    """Update the RTT estimate with a sample (RFC 6298).

    The shortest time-out bounds the whole time-out (RFC 6298, 2.4) or, where losses are detected by time, the
    part above the smoothed RTT, as in Linux.
    """
    flow.rtt_samples += 1
    flow.rtt_sum_ns += rtt_ns
    if rtt_ns < flow.min_rtt_ns:
        flow.min_rtt_ns = rtt_ns
        if world.measures_path:
            flow.base_rtt_ns = rtt_ns
    if flow.srtt_ns == 0.0:
        flow.srtt_ns = float(rtt_ns)
        flow.rttvar_ns = 0.5 * rtt_ns
    else:
        error = rtt_ns - flow.srtt_ns
        flow.srtt_ns += 0.125 * error
        flow.rttvar_ns += 0.25 * (abs(error) - flow.rttvar_ns)
    least_ns = world.min_rto_ns if flow.recovery == RACK else world.timer_tick_ns
    rto_ns = int(flow.srtt_ns + max(4.0 * flow.rttvar_ns, float(least_ns)))
    flow.rto_ns = in_ticks(world, min(max(rto_ns, world.min_rto_ns), world.max_rto_ns))


@njit(forceinline=True)
def gives_round_trip(world: Any, flow: Any, seq: int) -> bool:
    """Return whether the ACK of a packet gives a sample of the round-trip time.

    The echoed sending time is that of the very transmission, so retransmissions give valid samples. Without
    timestamps it is unknown which transmission an ACK answers, so they give none (Karn's algorithm; RFC 6298,
    3).
    """
    if not world.without_timestamps or flow.recovery != RACK:
        return True
    return bool(seq >= flow.una and not transmission_of(world, flow, seq).resent)


@njit(forceinline=True)
def ack_flow(world: Any, slot: int, now_ns: int, extras: Any) -> None:
    """Apply an ACK to its flow: RTT, window, recovery and the transport's reaction. Send nothing."""
    packet = packet_at(world.packets, slot)
    if extras is not None and packet.flags & PACKET_TRIMMED:
        ack_trimmed(world, slot, now_ns, extras)
        return
    flow = flow_at(world.flows, packet.flow)
    host = host_at(world.hosts, flow.src)
    event = event_at(world.event, 0)
    segment = segment_at(world.segments, slot)
    sampled = gives_round_trip(world, flow, segment.seq)
    rtt_ns = now_ns - segment.sent_ns if sampled else int(max(flow.srtt_ns, float(flow.base_rtt_ns)))
    marked = 1 if packet.flags & PACKET_CE else 0
    covers = 1
    if extras is not None:
        covers = note_at(world.notes, slot).covers
    flow.acked_packets += covers
    flow.marked_packets += covers * marked
    host.acked_packets += covers
    host.marked_packets += covers * marked
    if sampled:
        host.rtt_samples += 1
        host.rtt_sum_ns += rtt_ns
        update_rtt(world, flow, rtt_ns)
    in_flight = flow.nxt - flow.una
    event.now_ns = now_ns
    event.marked = marked
    event.rtt_ns = rtt_ns
    event.rtt_sampled = 1 if sampled else 0
    event.in_flight_packets = in_flight
    limit = window_packets(world, flow) if extras is None else limiting_packets(world, flow)
    event.window_limited = 1 if pipe_packets(flow) >= limit else 0
    if world.as_linux and flow.cwnd < flow.ssthresh and flow.cwnd < 2.0 * in_flight:
        event.window_limited = 1  # Linux: a window in slow start may grow to twice the packets in flight
    advances = segment.ack > flow.una
    event.duplicate = 0 if advances or not keeps_order(world, extras) else 1
    if flow.recovery == RACK:
        news = take_ack_by_time(world, flow, event, slot, now_ns, extras)
        reduces = news & REDUCE != 0
    elif extras is not None and flow.recovery == TOLD:
        event.acked_packets = take_ack_when_told(world, flow, slot)
        reduces = False
        if advances:
            set_retransmission_timer(flow, now_ns)
    else:
        if flow.recovery == GO_BACK_N:
            reduces = take_ack_going_back(flow, event, segment.seq, segment.ack)
        else:
            reduces = take_ack_by_duplicates(world, flow, event, slot, now_ns, extras)
        if advances:
            set_retransmission_timer(flow, now_ns)
    if extras is not None:
        event.lost_packets = flow.lost
        finish_sample(world, flow, event, slot, now_ns)
        if world.keeps_stamps:
            read_telemetry(world, event, slot)
    if reduces:
        notify(world, flow, ON_LOSS, event, extras)
        if flow.recovery != RACK:
            flow.recovery_credit = first_recovery_credit(world, flow)
    notify(world, flow, ON_ACK, event, extras)
    if flow.recovery == RACK and flow.in_recovery and flow.reduces_by_prr:
        reduce_rate(world, flow, event.acked_packets, advances and not news & FOUND_LOSSES)


@njit
def ack_trimmed(world: Any, slot: int, now_ns: int, extras: Any) -> None:
    """Apply a NACK: a packet arrived trimmed, so it has left the network and must be retransmitted.

    A NACK gives no sample of the round-trip time, because headers overtake data.
    """
    flow = flow_at(world.flows, packet_at(world.packets, slot).flow)
    flow.nacks += 1
    if flow.recovery == TOLD:
        take_ack_when_told(world, flow, slot)
    if flow.recovery != RACK:  # the other kinds of recovery detect losses in their own ways
        return
    event = event_at(world.event, 0)
    describe_timer_event(flow, event, now_ns)
    news = take_nack(world, flow, event, slot, now_ns)
    if news & REDUCE:
        notify(world, flow, ON_LOSS, event, extras)
    if news and flow.in_recovery and flow.reduces_by_prr:
        reduce_rate(world, flow, 1, False)


@njit(forceinline=True)
def describe_timer_event(flow: Any, event: Any, now_ns: int) -> None:
    """Fill in the event of a timer or a NACK, for the transport."""
    event.now_ns = now_ns
    event.acked_packets = 0
    event.marked = 0
    event.rtt_ns = 0
    event.rtt_sampled = 0
    event.in_flight_packets = flow.nxt - flow.una
    event.window_limited = 1
    event.duplicate = 0


@njit
def expire_timer(world: Any, flow_id: int, now_ns: int, extras: Any) -> None:
    """Handle a flow's timer: time-out, tail loss probe, end of the reordering window, or a SYN's time-out.

    A receiver-driven flow with nothing in flight waits for credit, and requests it.
    """
    flow = flow_at(world.flows, flow_id)
    if extras is not None and flow.needs_credit and pipe_packets(flow) <= 0:
        request_credit(world, flow_id, now_ns, extras)
        flow.timer = RETRANSMISSION
        flow.timer_deadline_ns = now_ns + flow.rto_ns
    elif extras is not None and flow.recovery == TOLD and not declare_overdue(world, flow, now_ns):
        set_retransmission_timer(flow, now_ns)
    elif flow.timer == PROBE and flow.probe_below > 0:
        replace_by_retransmission_timer(world, flow, now_ns)  # Linux: one probe is in flight
    elif flow.timer == PROBE:
        flow.probe_due = 1
        set_retransmission_timer(flow, now_ns)
    elif flow.timer == REORDERING:
        replace_by_retransmission_timer(world, flow, now_ns)
        event = event_at(world.event, 0)
        describe_timer_event(flow, event, now_ns)
        if look_for_losses(world, flow, pipe_packets(flow), now_ns) & REDUCE:
            notify(world, flow, ON_LOSS, event, extras)
            reduce_rate(world, flow, 1 if world.as_linux else 0, False)  # tcp_rack_reo_timeout
    elif flow.timer == CONNECTING:
        send_syn_again(world, flow_id, now_ns, extras)
    else:
        time_out(world, flow, now_ns, extras)


@njit(forceinline=True)
def set_timer_after_sending(world: Any, flow: Any, seq: int, now_ns: int) -> None:
    """Set the flow's timer for a packet that has just left, and count it in a probe or a recovery (RACK)."""
    flow.prr_sent += 1
    if flow.probe_due:
        flow.probe_due = 0
        flow.probe_below = flow.high
        flow.probe_resent = transmission_of(world, flow, seq).resent
        set_retransmission_timer(flow, now_ns)
    elif flow.timer == PROBE or flow.timer_deadline_ns == NEVER_NS:
        set_timer(world, flow, now_ns)
    elif seq == flow.una and flow.timer == RETRANSMISSION:
        set_retransmission_timer(flow, now_ns)


@njit
def restart_by_time(world: Any, flow: Any, now_ns: int) -> None:
    """Declare losses after a time-out, and permit one packet more than is still in flight."""
    flow.probe_due = 0
    flow.probe_below = 0
    declare_timed_out(world, flow, now_ns)
    flow.cwnd = max(flow.cwnd, pipe_packets(flow) + 1.0)


@njit
def time_out(world: Any, flow: Any, now_ns: int, extras: Any) -> None:
    """Handle a retransmission time-out: back off and start again from the first unacknowledged packet.

    See RFC 6298, 5.4 to 5.7.
    """
    event = event_at(world.event, 0)
    describe_timer_event(flow, event, now_ns)
    flow.timeouts += 1
    host_at(world.hosts, flow.src).timeouts += 1
    if flow.recovery == RACK:
        doubt_time_out(flow)
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
    if extras is not None and flow.needs_credit:
        flow.free_packets += 1
    if flow.recovery == RACK:
        restart_by_time(world, flow, now_ns)
    elif extras is None or flow.recovery != TOLD:
        restart_from_una(world, flow)
    flow.rto_ns = min(2 * flow.rto_ns, world.max_rto_ns)
    set_retransmission_timer(flow, now_ns)
