"""Loss detection by time, as in Linux: RACK (RFC 8985, 6).

A packet is lost when another one that was sent after it has arrived, and a round trip and the reordering
window have passed since it was sent. This also detects the loss of retransmissions. An ACK of the simulator
names the very transmission that caused it, as exact timestamps would, so the ambiguity that step 2 of the
algorithm guards against does not arise. In Linux it affects hosts without timestamps; here it does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sysgym.emulator.packets.engine.recovery.flight import (
    has_new_packet,
    pipe_packets,
    repairs,
    window_packets,
)
from sysgym.emulator.packets.memory.flow_record import (
    ARRIVED,
    FRTO_SENDS_NEW,
    FRTO_SPURIOUS,
    IN_FLIGHT,
    LOST,
    sent_time_at,
    transmission_at,
)
from sysgym.emulator.packets.memory.records import NEVER_NS, NOBODY, note_at

DUPLICATE_THRESHOLD = 3
LARGEST_STEPS = 255
RECOVERIES_WITH_STEPS = 16  # RFC 8985, 6.2 step 4


@njit(forceinline=True)
def transmission_of(world: Any, flow: Any, seq: int) -> Any:
    """Return the record of a packet in the window."""
    return transmission_at(world.transmissions, flow.first_transmission + (seq & flow.window_mask))


@njit(forceinline=True)
def sent_time_of(world: Any, flow: Any, seq: int) -> Any:
    """Return the record of the time at which a packet in the window was last sent."""
    return sent_time_at(world.sent_times, flow.first_transmission + (seq & flow.window_mask))


@njit(forceinline=True)
def next_by_time(world: Any, flow: Any) -> int:
    """Return the number of the packet that the flow would send now, or NOBODY."""
    if flow.probe_due:
        return probe_sequence(world, flow)
    if flow.in_recovery and flow.reduces_by_prr:
        if flow.recovery_credit <= 0:
            return NOBODY
    elif pipe_packets(flow) >= window_packets(world, flow):
        return NOBODY
    if flow.lost > 0 and flow.frto_step != FRTO_SENDS_NEW:
        return next_lost(world, flow)
    if has_new_packet(flow):
        return int(flow.nxt)
    return NOBODY


@njit
def probe_sequence(world: Any, flow: Any) -> int:
    """Return the packet to probe with: a new one, or the last that has not arrived (RFC 8985, 7.3)."""
    if has_new_packet(flow):
        return int(flow.nxt)
    seq = flow.nxt - 1
    while transmission_of(world, flow, seq).status == ARRIVED:
        seq -= 1
    return int(seq)


@njit
def next_lost(world: Any, flow: Any) -> int:
    """Move the cursor to the first lost packet, and return it; there must be one."""
    flow.hole_cursor = max(flow.hole_cursor, flow.una)
    while transmission_of(world, flow, flow.hole_cursor).status != LOST:
        flow.hole_cursor += 1
    return int(flow.hole_cursor)


@njit(forceinline=True)
def record_transmission(world: Any, flow: Any, seq: int, now_ns: int) -> None:
    """Record that a packet leaves, for the first time or again."""
    sent = transmission_of(world, flow, seq)
    if seq == flow.nxt:
        flow.nxt += 1
        sent.resent = 0
    else:
        flow.lost -= sent.status == LOST
        sent.resent = 1
        flow.oldest_resent_ns = min(flow.oldest_resent_ns, now_ns)
        flow.highest_resent = max(flow.highest_resent, seq)
        flow.undo_resent += 1
        if flow.first_resent_ns == 0:
            flow.first_resent_ns = now_ns
    sent.status = IN_FLIGHT
    sent_time_of(world, flow, seq).ns = now_ns


@njit
def forget_acknowledged(world: Any, flow: Any, ack: int) -> int:
    """Remove the packets before ``ack`` from the counts; return how many are newly known to have arrived.

    A packet among them that was sent only once proves a time-out spurious: its first transmission arrived.
    """
    newly_arrived = 0
    for seq in range(flow.una, ack):
        sent = transmission_of(world, flow, seq)
        if sent.status == ARRIVED:
            flow.sacked -= 1
            continue
        newly_arrived += 1
        flow.lost -= sent.status == LOST
        note_order(flow, seq, sent)
        note_first_transmission(flow, seq, sent)
    return newly_arrived


@njit(forceinline=True)
def note_first_transmission(flow: Any, seq: int, sent: Any) -> None:
    """Note a spurious time-out: an earlier packet arrives that was not resent (RFC 5682, 3.1 step 3)."""
    if flow.frto_step > 0 and not sent.resent and seq < flow.recover:
        flow.frto_step = FRTO_SPURIOUS


@njit(forceinline=True)
def take_arrival(world: Any, flow: Any, seq: int) -> int:
    """Record that a packet beyond the first hole has arrived; return 1 if that was not known, else 0."""
    sent = transmission_of(world, flow, seq)
    if seq < flow.una or sent.status == ARRIVED:
        return 0
    flow.lost -= sent.status == LOST
    sent.status = ARRIVED
    flow.sacked += 1
    note_order(flow, seq, sent)
    note_first_transmission(flow, seq, sent)
    return 1


@njit
def take_repeated_arrivals(world: Any, flow: Any, slot: int) -> int:
    """Record the packets that an ACK reports beyond the one that caused it; return how many were new."""
    note = note_at(world.notes, slot)
    arrivals, newest = note.recent_arrivals, note.newest_arrival
    newly_arrived = 0
    if arrivals != np.uint64(0):
        for seq in range(max(flow.una, newest - 63), newest + 1):
            if (arrivals >> np.uint64(63 - (newest - seq))) & np.uint64(1):
                newly_arrived += take_arrival(world, flow, seq)
    return newly_arrived


@njit(forceinline=True)
def note_order(flow: Any, seq: int, sent: Any) -> None:
    """Detect reordering: a packet sent once arrives after a later one (RFC 8985, 6.2 step 3)."""
    if seq > flow.highest_arrived:
        flow.highest_arrived = seq
    elif not sent.resent:
        flow.reordering_seen = 1


@njit(forceinline=True)
def note_arrival_time(flow: Any, seq: int, sent_ns: int, now_ns: int) -> None:
    """Update the packet sent last among those that arrived, and its round trip (RFC 8985, 6.2 step 2)."""
    if sent_ns > flow.rack_sent_ns or (sent_ns == flow.rack_sent_ns and seq > flow.rack_seq):
        flow.rack_sent_ns = sent_ns
        flow.rack_seq = seq
        flow.rack_rtt_ns = now_ns - sent_ns


@njit(forceinline=True)
def widen_reordering_window(flow: Any) -> None:
    """Widen the reordering window by a step, at most once a round trip, on a DSACK (RFC 8985, 6.2 step 4)."""
    if flow.una >= flow.reordering_round:
        flow.reordering_round = flow.nxt
        flow.reordering_steps = min(flow.reordering_steps + 1, LARGEST_STEPS)
        flow.reordering_recoveries = RECOVERIES_WITH_STEPS


@njit(forceinline=True)
def count_recovery(flow: Any) -> None:
    """Reset the reordering window after 16 recoveries without a DSACK."""
    if flow.reordering_recoveries > 0:
        flow.reordering_recoveries -= 1
    if flow.reordering_recoveries == 0:
        flow.reordering_steps = 1


@njit(forceinline=True)
def reordering_window_ns(world: Any, flow: Any) -> int:
    """Return the reordering window: 0 for a recovery on a path without observed reordering."""
    if not flow.reordering_seen and (repairs(flow) or flow.sacked >= DUPLICATE_THRESHOLD):
        return 0
    shortest_ns = flow.min_rtt_ns
    if world.as_linux:  # Linux has also measured the handshake
        shortest_ns = min(shortest_ns, flow.base_rtt_ns)
    return int(min(flow.reordering_steps * shortest_ns >> 2, flow.srtt_ns))


@njit
def detect_losses(world: Any, flow: Any, now_ns: int) -> int:
    """Declare packets lost (RFC 8985, 6.2 step 5); return the time at which to look again, or NEVER_NS."""
    window_ns = reordering_window_ns(world, flow)
    sent_by_ns = now_ns - flow.rack_rtt_ns - window_ns
    waits = judge_first_transmissions(world, flow, sent_by_ns)
    if flow.oldest_resent_ns <= flow.rack_sent_ns:
        waits = judge_retransmissions(world, flow, sent_by_ns) or waits
    # All packets in doubt were sent before the one that arrived.
    return int(flow.rack_sent_ns + flow.rack_rtt_ns + window_ns) if waits else int(NEVER_NS)


@njit(forceinline=True)
def was_overtaken(flow: Any, seq: int, sent_ns: int) -> bool:
    """Return whether a packet that was sent later has arrived (RACK_sent_after)."""
    return sent_ns < flow.rack_sent_ns or (sent_ns == flow.rack_sent_ns and seq < flow.rack_seq)


@njit(forceinline=True)
def declare_packet_lost(flow: Any, seq: int, sent: Any) -> None:
    """Mark a packet as lost."""
    sent.status = LOST
    flow.hole_cursor = seq if flow.lost == 0 else min(flow.hole_cursor, seq)
    flow.lost += 1


@njit
def judge_first_transmissions(world: Any, flow: Any, sent_by_ns: int) -> bool:
    """Judge the packets that were sent once, in their order, up to the first that is not overtaken.

    Return whether one of them waits for the end of the reordering window.
    """
    seq = max(flow.lost_below, flow.una)
    waits = False
    while seq < flow.nxt:
        sent = transmission_of(world, flow, seq)
        if sent.status == IN_FLIGHT and not sent.resent:
            sent_ns = sent_time_of(world, flow, seq).ns
            waits = was_overtaken(flow, seq, sent_ns)
            if not waits or sent_ns > sent_by_ns:
                break
            declare_packet_lost(flow, seq, sent)
            waits = False
        seq += 1
    flow.lost_below = seq
    return waits


@njit
def judge_retransmissions(world: Any, flow: Any, sent_by_ns: int) -> bool:
    """Judge the retransmissions in flight; return whether one of them waits."""
    oldest_ns = NEVER_NS
    highest = NOBODY
    waits = False
    for seq in range(flow.una, min(flow.highest_resent + 1, flow.nxt)):
        sent = transmission_of(world, flow, seq)
        if sent.status != IN_FLIGHT or not sent.resent:
            continue
        sent_ns = sent_time_of(world, flow, seq).ns
        overtaken = was_overtaken(flow, seq, sent_ns)
        if overtaken and sent_ns <= sent_by_ns:
            declare_packet_lost(flow, seq, sent)
            continue
        waits = waits or overtaken
        oldest_ns = min(oldest_ns, sent_ns)
        highest = seq
    flow.oldest_resent_ns = oldest_ns
    flow.highest_resent = highest
    return waits


@njit
def declare_timed_out(world: Any, flow: Any, now_ns: int) -> None:
    """Declare lost, after a time-out, the first packet and all whose round trip has passed (RFC 8985)."""
    sent_by_ns = now_ns - flow.rack_rtt_ns - reordering_window_ns(world, flow)
    flow.lost_below = flow.una
    for seq in range(flow.una, flow.nxt):
        sent = transmission_of(world, flow, seq)
        timed_out = seq == flow.una or sent_time_of(world, flow, seq).ns <= sent_by_ns
        if sent.status == IN_FLIGHT and timed_out:
            declare_packet_lost(flow, seq, sent)


@njit
def withdraw_losses(world: Any, flow: Any) -> None:
    """Mark lost packets as in flight again, because the recovery has proved spurious."""
    for seq in range(flow.una, flow.nxt):
        sent = transmission_of(world, flow, seq)
        if sent.status == LOST:
            sent.status = IN_FLIGHT
            if sent.resent:
                flow.oldest_resent_ns = min(flow.oldest_resent_ns, sent_time_of(world, flow, seq).ns)
                flow.highest_resent = max(flow.highest_resent, seq)
    flow.lost = 0
    flow.lost_below = flow.una
