"""SACK scoreboard of a sender: packets that arrived, were lost or were retransmitted (RFC 6675)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sysgym.emulator.packets.engine.receiver import bits_up_to, clear_bit, set_bit, test_bit
from sysgym.emulator.packets.memory.records import note_at, segment_at


@njit(forceinline=True)
def next_hole(world: Any, flow: Any) -> int:
    """Move the cursor to the next lost packet, and return it; there must be one."""
    if flow.repair_cursor < flow.repair_below:
        flow.repair_cursor = max(flow.repair_cursor, flow.una)
        while test_bit(world.sacked, flow.bitmap_offset, flow.repair_cursor & flow.window_mask):
            flow.repair_cursor += 1
        if flow.repair_cursor < flow.repair_below:
            return flow.repair_cursor
    flow.hole_cursor = max(flow.hole_cursor, flow.una)
    while test_bit(world.sacked, flow.bitmap_offset, flow.hole_cursor & flow.window_mask):
        flow.hole_cursor += 1
    return flow.hole_cursor


@njit(forceinline=True)
def waits_to_be_resent(flow: Any, seq: int) -> bool:
    """Return whether a hole is lost and has not been retransmitted since its last loss."""
    return (flow.hole_cursor <= seq < flow.lost_below) or (flow.repair_cursor <= seq < flow.repair_below)


@njit(forceinline=True)
def forget_acked(world: Any, flow: Any, ack: int) -> int:
    """Remove the packets before ``ack`` from the scoreboard.

    Return how many of them were known to have arrived.
    """
    n_sacked = 0
    for seq in range(flow.una, ack):
        index = seq & flow.window_mask
        if test_bit(world.sacked, flow.bitmap_offset, index):
            clear_bit(world.sacked, flow.bitmap_offset, index)
            n_sacked += 1
        elif waits_to_be_resent(flow, seq):
            flow.lost -= 1
    flow.sacked -= n_sacked
    return n_sacked


@njit(forceinline=True)
def declare_lost(world: Any, flow: Any, below: int) -> None:
    """Declare every hole below a number lost, unless it is already."""
    for seq in range(max(flow.lost_below, flow.una), below):
        if not test_bit(world.sacked, flow.bitmap_offset, seq & flow.window_mask):
            flow.lost += 1
    flow.lost_below = max(flow.lost_below, below)


@njit(forceinline=True)
def take_sack(world: Any, flow: Any, seq: int, threshold: int) -> int:
    """Record that a packet beyond the first hole has arrived; return 1 if that was not known, else 0."""
    index = seq & flow.window_mask
    if seq < flow.una or test_bit(world.sacked, flow.bitmap_offset, index):
        return 0
    set_bit(world.sacked, flow.bitmap_offset, index)
    flow.sacked += 1
    if waits_to_be_resent(flow, seq):
        flow.lost -= 1
    declare_lost(world, flow, seq + 1 - threshold)
    return 1


@njit
def take_repeated(world: Any, flow: Any, slot: int) -> int:
    """Record the packets that an ACK reports beyond the one that caused it; return how many were new."""
    note = note_at(world.notes, slot)
    seq = note.newest_arrival
    unseen = note.recent_arrivals & ~bits_up_to(world.sacked, flow, flow.una, seq)
    cause = segment_at(world.segments, slot).seq
    news = 0
    while unseen != np.uint64(0) and seq > flow.una:
        if unseen >> np.uint64(63) and seq != cause:
            index = seq & flow.window_mask
            set_bit(world.sacked, flow.bitmap_offset, index)
            flow.sacked += 1
            news += 1
            if waits_to_be_resent(flow, seq):
                flow.lost -= 1
        unseen <<= np.uint64(1)
        seq -= 1
    return news


@njit(forceinline=True)
def repair_lost_retransmission(flow: Any, advanced: bool, sent_ns: int, now_ns: int) -> None:
    """Retransmit the first hole again if a packet sent after its retransmission has arrived (as RFC 8985).

    Paths keep the order of packets, so a packet that was sent earlier and has not arrived is lost.
    """
    if advanced:
        flow.una_sent_ns = (
            now_ns  # unknown for a hole retransmitted before it became the first: a later time is safe
        )
    elif flow.una < flow.hole_cursor and sent_ns > flow.una_sent_ns:
        flow.resend_una = 1


@njit
def repair_later_retransmissions(world: Any, flow: Any, sent_ns: int, now_ns: int) -> None:
    """Retransmit the later holes again in the same case: all those retransmitted by some time at once.

    With random loss, one by one would take a round trip or two each, and the window would fill up.
    """
    if 0 < flow.resent_by_ns < sent_ns:
        flow.resent_by_ns = 0
        flow.repair_cursor = flow.una + 1
        flow.repair_below = flow.resent_below
        for seq in range(flow.repair_cursor, flow.repair_below):
            if not test_bit(world.sacked, flow.bitmap_offset, seq & flow.window_mask):
                flow.lost += 1
    if flow.resent_by_ns == 0 and flow.repair_cursor >= flow.repair_below and flow.una < flow.hole_cursor:
        flow.resent_by_ns = now_ns
        flow.resent_below = flow.hole_cursor
