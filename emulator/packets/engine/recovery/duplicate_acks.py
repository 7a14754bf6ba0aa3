"""Loss detection by duplicate ACKs, as before RACK: NewReno and SACK.

Sources: RFC 5681 and RFC 6582 (fast retransmit, NewReno), RFC 3042 (limited transmit), RFC 6675 (SACK).
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.recovery.flight import (
    enter_recovery,
    has_new_packet,
    keeps_order,
    pipe_packets,
    window_packets,
)
from sysgym.emulator.packets.engine.recovery.scoreboard import (
    declare_lost,
    forget_acked,
    next_hole,
    repair_later_retransmissions,
    repair_lost_retransmission,
    take_repeated,
    take_sack,
)
from sysgym.emulator.packets.memory.flow_record import NEW_RENO, SACK
from sysgym.emulator.packets.memory.records import LONG_LIVED_PACKETS, NOBODY, segment_at

DUPLICATE_THRESHOLD = 3


@njit(forceinline=True)
def duplicate_threshold(world: Any, extras: Any) -> int:
    """Return the number of packets beyond a hole that make it a loss; it is larger with several paths."""
    if extras is not None:
        return int(world.duplicate_threshold)
    return DUPLICATE_THRESHOLD


@njit(forceinline=True)
def next_by_duplicates(world: Any, flow: Any) -> int:
    """Return the number of the packet that the flow would send now, or NOBODY."""
    if flow.resend_una:
        return flow.una
    if pipe_packets(flow) >= window_packets(world, flow):
        return NOBODY
    if flow.recovery_credit <= 0 and flow.in_recovery and flow.recovery == SACK:
        return NOBODY
    if flow.lost > 0:
        return next_hole(world, flow)
    if has_new_packet(flow):
        return flow.nxt
    return NOBODY


@njit(forceinline=True)
def count_transmission(flow: Any, seq: int, now_ns: int) -> None:
    """Update sequence numbers and scoreboard for a packet that leaves."""
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


@njit(forceinline=True)
def take_cumulative_ack(world: Any, flow: Any, ack: int) -> int:
    """Move the window forward; return the number of packets newly known to have arrived.

    A partial ACK means that the packet it requests is lost (RFC 6582, 3.2 step 3); NewReno also deflates the
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
    """Return the number of packets that may leave in a SACK recovery before the next delivery.

    From then on each delivered packet permits one packet: packet conservation, the bound of RFC 6937. It does
    not apply to a flow without a window, whose rate is set externally.
    """
    return 1 if flow.cwnd < world.max_window_packets else int(LONG_LIVED_PACKETS)


@njit(forceinline=True)
def take_ack_by_duplicates(world: Any, flow: Any, event: Any, slot: int, now_ns: int, extras: Any) -> bool:
    """Apply an ACK to window and scoreboard; return whether it begins a recovery."""
    segment = segment_at(world.segments, slot)
    advances = segment.ack > flow.una
    begins_recovery = False
    event.acked_packets = 0
    if advances:
        event.acked_packets = take_cumulative_ack(world, flow, segment.ack)
    if extras is not None and world.loses_at_random and flow.recovery == SACK:
        event.acked_packets += take_repeated(world, flow, slot)
    if advances:
        if extras is not None and flow.recovery == SACK and segment.seq > segment.ack:
            # The ACKs in between were lost: this one brings both a new left edge and a packet beyond it.
            event.acked_packets += take_sack(world, flow, segment.seq, duplicate_threshold(world, extras))
            begins_recovery = flow.lost > 0 and enter_recovery(flow)
    elif flow.recovery == NEW_RENO:
        begins_recovery = take_duplicate_ack(flow, duplicate_threshold(world, extras))
    else:
        event.acked_packets += take_sack(world, flow, segment.seq, duplicate_threshold(world, extras))
        begins_recovery = flow.lost > 0 and enter_recovery(flow)
    if flow.recovery == SACK and flow.hole_cursor > 0 and keeps_order(world, extras):
        repair_lost_retransmission(flow, advances, segment.sent_ns, now_ns)
        if extras is not None and world.loses_at_random:
            repair_later_retransmissions(world, flow, segment.sent_ns, now_ns)
    flow.recovery_credit += event.acked_packets
    return begins_recovery


@njit(forceinline=True)
def restart_from_una(world: Any, flow: Any) -> None:
    """Begin again from the first unacknowledged packet after a time-out (RFC 6298, 5.4)."""
    if flow.recovery != SACK:
        flow.nxt = flow.una
    else:
        flow.hole_cursor = flow.una
        flow.lost_below = flow.una
        flow.repair_below = 0
        flow.resent_by_ns = 0
        flow.lost = 0
        declare_lost(world, flow, flow.high)
