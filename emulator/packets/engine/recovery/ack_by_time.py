"""ACK processing of a sender that detects losses by time: RACK-TLP (RFC 8985)."""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.recovery.flight import enter_recovery, has_new_packet, pipe_packets
from sysgym.emulator.packets.engine.recovery.rack import (
    count_recovery,
    declare_packet_lost,
    detect_losses,
    forget_acknowledged,
    note_arrival_time,
    sent_time_of,
    take_arrival,
    take_repeated_arrivals,
    transmission_of,
    widen_reordering_window,
)
from sysgym.emulator.packets.engine.recovery.rate_reduction import begin_reduction
from sysgym.emulator.packets.engine.recovery.timer import in_ticks, set_timer
from sysgym.emulator.packets.engine.recovery.undo import (
    continue_frto,
    remember_window,
    take_duplicate_report,
    undo_if_spurious,
)
from sysgym.emulator.packets.memory.flow_record import IN_FLIGHT, REORDERING
from sysgym.emulator.packets.memory.records import NEVER_NS, PACKET_DUPLICATE, packet_at, segment_at

FOUND_LOSSES = 1
REDUCE = 2
"""Results of an ACK: packets were newly declared lost, and the transport must reduce its window."""


@njit(forceinline=True)
def take_ack_by_time(world: Any, flow: Any, event: Any, slot: int, now_ns: int, extras: Any) -> int:
    """Apply an ACK to window and scoreboard; return FOUND_LOSSES, REDUCE, both or 0."""
    segment = segment_at(world.segments, slot)
    flight_packets = pipe_packets(flow)
    una = flow.una
    advances = segment.ack > una
    event.acked_packets = 0
    if advances:
        event.acked_packets = advance(world, flow, segment.ack)
    if extras is not None and world.loses_at_random:
        event.acked_packets += take_repeated_arrivals(world, flow, slot)
    if segment.seq > segment.ack:
        event.acked_packets += take_arrival(world, flow, segment.seq)
    note_arrival_time(flow, segment.seq, segment.sent_ns, now_ns)
    if advances:
        set_timer(world, flow, now_ns)
    news = 0
    duplicate = packet_at(world.packets, slot).flags & PACKET_DUPLICATE != 0
    if duplicate:
        widen_reordering_window(flow)
        take_duplicate_report(flow)
    if flow.in_recovery or flow.frto_step > 0:
        fills = una <= segment.seq < segment.ack and not world.without_timestamps
        filled_by_ns = int(segment.sent_ns) if fills else int(NEVER_NS)
        if not undo_if_spurious(world, flow, filled_by_ns) and flow.frto_step > 0:
            continue_frto(flow, advances, has_new_packet(flow))
    if world.as_linux and event.marked and not flow.in_recovery and flow.una > flow.cwr_below:
        # Linux discards its probe when it begins to reduce a window (tcp_init_cwnd_reduction). A reduction
        # for marks lasts until a packet beyond the window of its beginning has arrived.
        flow.cwr_below = flow.nxt
        flow.probe_below = 0
    if flow.probe_below > 0:
        news |= end_probe(flow, event.acked_packets == 0 and not advances, duplicate)
    if flow.sacked > 0 or flow.oldest_resent_ns != NEVER_NS:
        news |= look_for_losses(world, flow, flight_packets, now_ns)
    return int(news)


@njit(forceinline=True)
def advance(world: Any, flow: Any, ack: int) -> int:
    """Move the left edge of the window; return how many packets are newly known to have arrived."""
    newly_arrived = ack - flow.una
    if flow.sacked + flow.lost + flow.frto_step > 0:
        newly_arrived = forget_acknowledged(world, flow, ack)
    flow.una = ack
    flow.timeouts_in_a_row = 0
    flow.highest_arrived = max(flow.highest_arrived, ack - 1)
    if flow.in_recovery and ack >= flow.recover:
        flow.in_recovery = 0
        count_recovery(flow)
    return int(newly_arrived)


@njit
def take_nack(world: Any, flow: Any, event: Any, slot: int, now_ns: int) -> int:
    """Declare a packet lost that arrived trimmed; return FOUND_LOSSES, REDUCE, both or 0.

    A report of a transmission other than the last one is out of date. Other losses may be detected by time
    meanwhile, but the reported loss is certain, so this recovery is not undone.
    """
    segment = segment_at(world.segments, slot)
    flight_packets = pipe_packets(flow)
    if segment.ack > flow.una:
        event.acked_packets = advance(world, flow, segment.ack)
    sent = transmission_of(world, flow, segment.seq)
    is_last = sent_time_of(world, flow, segment.seq).ns == segment.sent_ns
    if segment.seq < flow.una or sent.status != IN_FLIGHT or not is_last:
        return 0
    declare_packet_lost(flow, segment.seq, sent)
    set_timer(world, flow, now_ns)
    news = look_for_losses(world, flow, flight_packets, now_ns) | begin_recovery(world, flow, flight_packets)
    flow.undo_possible = 0
    return int(news)


@njit
def look_for_losses(world: Any, flow: Any, flight_packets: int, now_ns: int) -> int:
    """Detect losses, begin a recovery if due, and set the timer if a packet is still in doubt."""
    known = flow.lost
    again_ns = detect_losses(world, flow, now_ns)
    if again_ns != NEVER_NS:
        flow.timer = REORDERING
        wait_ns = again_ns + world.reordering_slack_ns - now_ns
        flow.timer_deadline_ns = now_ns + in_ticks(world, wait_ns)
    if flow.lost <= known:
        return 0
    if world.as_linux and flow.in_recovery:
        # Linux keeps the window of the last ACK, so packets found lost before the next ACK may leave at once.
        flow.recovery_credit += flow.lost - known
    return begin_recovery(world, flow, flight_packets)


@njit(forceinline=True)
def begin_recovery(world: Any, flow: Any, flight_packets: int) -> int:
    """Begin a recovery for new losses if none is in progress; return FOUND_LOSSES, and REDUCE if begun."""
    if not enter_recovery(flow):
        return FOUND_LOSSES
    remember_window(flow)
    begin_reduction(world, flow, flight_packets)
    if world.as_linux:
        flow.probe_below = 0
    return FOUND_LOSSES | REDUCE


@njit
def end_probe(flow: Any, duplicate_ack: bool, reported_duplicate: bool) -> int:
    """End a tail loss probe if this ACK answers it; return REDUCE if the probe repaired a loss.

    See RFC 8985, 7.4.
    """
    repaired = False
    if flow.una < flow.probe_below:
        if not (flow.probe_resent and duplicate_ack):
            return 0
    elif flow.probe_resent and not reported_duplicate:
        if flow.una == flow.probe_below:
            return 0
        repaired = not flow.in_recovery
    flow.probe_below = 0
    return REDUCE if repaired else 0
