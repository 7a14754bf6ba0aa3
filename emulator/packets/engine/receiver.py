"""Receiving end of a flow: in-order delivery, a bitmap of packets received out of order, and ACKs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sysgym.emulator.packets.engine.connections.handshake import answer_syn
from sysgym.emulator.packets.engine.event_queue.queue import push
from sysgym.emulator.packets.engine.events import (
    RECEIVER_ACKS,
    RECEIVER_GATHERS,
    event_key,
    flow_source,
)
from sysgym.emulator.packets.engine.ports import enqueue, first_link
from sysgym.emulator.packets.engine.recovery.go_back_n import is_discarded
from sysgym.emulator.packets.engine.wire import release_packet
from sysgym.emulator.packets.memory.flow_record import GO_BACK_N, flow_at
from sysgym.emulator.packets.memory.records import (
    NOBODY,
    PACKET_CE,
    PACKET_CNP,
    PACKET_DUPLICATE,
    PACKET_IS_ACK,
    PACKET_TRIMMED,
    SYN,
    host_at,
    note_at,
    packet_at,
    segment_at,
    word_at,
)


@njit(forceinline=True)
def test_bit(bitmap: Any, offset: int, index: int) -> bool:
    """Return whether a packet is set in a flow's bitmap."""
    return (word_at(bitmap, offset + (index >> 6)).bits >> np.uint64(index & 63)) & np.uint64(1) != np.uint64(
        0
    )


@njit(forceinline=True)
def set_bit(bitmap: Any, offset: int, index: int) -> None:
    """Set a packet in a flow's bitmap."""
    word_at(bitmap, offset + (index >> 6)).bits |= np.uint64(1) << np.uint64(index & 63)


@njit(forceinline=True)
def clear_bit(bitmap: Any, offset: int, index: int) -> None:
    """Clear a packet in a flow's bitmap."""
    word_at(bitmap, offset + (index >> 6)).bits &= ~(np.uint64(1) << np.uint64(index & 63))


@njit
def bits_up_to(bitmap: Any, flow: Any, first: int, seq: int) -> Any:
    """Return the bits of the 64 packets up to ``seq``, whose bit is the highest.

    Bits of packets before ``first`` are 0; all are 0 where the window is smaller than 64 packets.
    """
    ahead = seq - first
    if ahead < 0 or flow.window_mask < 63:
        return np.uint64(0)
    index = seq & flow.window_mask
    word, bit = index >> 6, index & 63
    bits = word_at(bitmap, flow.bitmap_offset + word).bits << np.uint64(63 - bit)
    if ahead > bit and bit < 63:
        before = word - 1 if word > 0 else flow.window_mask >> 6
        bits |= word_at(bitmap, flow.bitmap_offset + before).bits >> np.uint64(bit + 1)
    if ahead < 63:
        bits &= ~(~np.uint64(0) >> np.uint64(ahead + 1))
    return bits


@njit
def deliver_held_packets(world: Any, flow: Any) -> None:
    """Advance the receiver past the packets that it already holds."""
    while flow.held_out_of_order > 0:
        index = flow.rcv_nxt & flow.window_mask
        if not test_bit(world.received, flow.bitmap_offset, index):
            return
        clear_bit(world.received, flow.bitmap_offset, index)
        flow.held_out_of_order -= 1
        flow.rcv_nxt += 1


@njit(forceinline=True)
def accept_data(world: Any, flow: Any, seq: int, now_ns: int) -> bool:
    """Deliver a packet and those that it makes deliverable, or hold it until the gap before it is filled.

    With go-back-N a packet beyond a gap is not held, and its ACK is a NAK.

    Return False if it had arrived before.
    """
    if seq == flow.rcv_nxt:
        flow.rcv_nxt += 1
        deliver_held_packets(world, flow)
        credit_delivery(world, flow, seq, now_ns)
        return True
    if flow.recovery == GO_BACK_N:
        return bool(seq > flow.rcv_nxt)
    index = seq & flow.window_mask
    if seq < flow.rcv_nxt or test_bit(world.received, flow.bitmap_offset, index):
        return False
    set_bit(world.received, flow.bitmap_offset, index)
    flow.held_out_of_order += 1
    flow.highest_held = max(flow.highest_held, seq)
    return True


@njit(forceinline=True)
def report_arrivals(world: Any, flow: Any, slot: int, seq: int) -> None:
    """Report in an ACK which of the latest packets are held, as SACK blocks do (RFC 2018, 4).

    Each arrival is reported several times, so that the loss of an ACK hides no arrival.
    """
    note = note_at(world.notes, slot)
    note.newest_arrival = max(seq, flow.highest_held)
    note.recent_arrivals = bits_up_to(world.received, flow, flow.rcv_nxt, note.newest_arrival)


@njit
def receive_data(world: Any, slot: int, now_ns: int, extras: Any) -> None:
    """Receive a data packet and send it back as an ACK that echoes the CE mark.

    One ACK per packet gives the exact feedback that the receiver of RFC 8257, 3.2, approximates.
    """
    packet = packet_at(world.packets, slot)
    flow = flow_at(world.flows, packet.flow)
    if extras is not None and packet.flags & PACKET_TRIMMED:
        send_nack(world, slot, now_ns, extras)
        return
    segment = segment_at(world.segments, slot)
    if segment.seq == SYN:
        answer_syn(world, slot)
        send_back(world, flow, packet.flow, slot, now_ns, extras)
        return
    if is_discarded(flow, segment.seq):
        release_packet(world, slot)
        return
    if extras is not None and (world.delayed_ack_packets > 1 or world.coalescing_ns > 0):
        receive_and_wait(world, packet.flow, slot, now_ns, extras)
        return
    repeated = 0 if accept_data(world, flow, segment.seq, now_ns) else PACKET_DUPLICATE
    ce = packet.flags & PACKET_CE
    segment.ack = flow.rcv_nxt
    packet.flags = PACKET_IS_ACK | ce | repeated
    packet.size_bytes = world.ack_bytes
    if extras is not None and world.loses_at_random:
        report_arrivals(world, flow, slot, segment.seq)
    if extras is not None and ce and notification_is_due(world, flow, now_ns):
        packet.flags |= PACKET_CNP
    send_back(world, flow, packet.flow, slot, now_ns, extras)


@njit(forceinline=True)
def send_back(world: Any, flow: Any, flow_id: int, slot: int, now_ns: int, extras: Any) -> None:
    """Send a packet that has become an ACK to its flow's sender."""
    if extras is not None and flow.ack_priority != NOBODY:
        note_at(world.notes, slot).priority = flow.ack_priority
    enqueue(world, first_link(world, packet_at(world.packets, slot), flow_id, 1), slot, now_ns, extras)


@njit
def send_nack(world: Any, slot: int, now_ns: int, extras: Any) -> None:
    """Return a trimmed packet as a NACK, with the number of the missing packet and the cumulative ACK."""
    packet = packet_at(world.packets, slot)
    flow = flow_at(world.flows, packet.flow)
    flow.trimmed_packets += 1
    segment_at(world.segments, slot).ack = flow.rcv_nxt
    packet.flags = PACKET_IS_ACK | PACKET_TRIMMED
    packet.size_bytes = world.ack_bytes
    note_at(world.notes, slot).covers = 0
    send_back(world, flow, packet.flow, slot, now_ns, extras)


@njit
def receive_and_wait(world: Any, flow_id: int, slot: int, now_ns: int, extras: Any) -> None:
    """Receive a data packet and delay its ACK (RFC 5681, 4.2; RFC 8257, 3.2, figure 1).

    When the CE mark changes, earlier arrivals are acknowledged at once with the old mark, so that an ACK
    never covers both marked and unmarked packets. A packet out of order, one that fills a hole and the
    flow's last one are acknowledged at once too. With receive coalescing, an ACK that is due waits until no
    more packets are gathered.
    """
    packet = packet_at(world.packets, slot)
    flow = flow_at(world.flows, flow_id)
    ce = 1 if packet.flags & PACKET_CE else 0
    seq = segment_at(world.segments, slot).seq
    out_of_order = seq != flow.rcv_nxt
    if flow.unacked_arrivals > 0 and (out_of_order or ce != flow.ce_state):
        send_held_ack(world, flow_id, now_ns, extras)
    flow.ce_state = ce
    at_once = out_of_order or flow.held_out_of_order > 0
    flow.repeated_arrival = 0 if accept_data(world, flow, seq, now_ns) else 1
    if flow.repeated_arrival:
        flow.quick_acks = world.quick_acks
    if flow.unacked_arrivals > 0:
        release_packet(world, flow.held_ack_slot)
    else:
        flow.unacked_since_ns = now_ns
    flow.held_ack_slot = slot
    flow.unacked_arrivals += 1
    note_at(world.notes, slot).received_ns = now_ns
    if ce and notification_is_due(world, flow, now_ns):
        flow.cnp_due = 1
        at_once = True
    if at_once or flow.finish_ns >= 0 or (owes_ack(world, flow) and not gathers_more(world, flow, now_ns)):
        send_held_ack(world, flow_id, now_ns, extras)
    elif flow.unacked_arrivals == 1:
        set_ack_timer(world, flow_id, RECEIVER_GATHERS if world.coalescing_ns > 0 else RECEIVER_ACKS)


@njit(forceinline=True)
def ack_timer_ns(world: Any, flow: Any, what: int) -> int:
    """Return the end of a receiver's wait for more packets: coalescing, or the delay of an ACK."""
    waits_ns = world.coalescing_ns if what == RECEIVER_GATHERS else world.delayed_ack_ns
    return int(flow.unacked_since_ns + waits_ns)


@njit
def set_ack_timer(world: Any, flow_id: int, what: int) -> None:
    """Set an event for the end of a receiver's wait, unless one is set, which is never later."""
    flow = flow_at(world.flows, flow_id)
    if not flow.ack_timers & (1 << what):
        flow.ack_timers |= 1 << what
        push(world, event_key(ack_timer_ns(world, flow, what), flow_source(world, flow_id, what)))


@njit(forceinline=True)
def owes_ack(world: Any, flow: Any) -> bool:
    """Return whether the arrivals must be acknowledged before the delayed-ACK timer expires."""
    return bool(flow.quick_acks > 0 or flow.unacked_arrivals >= world.delayed_ack_packets)


@njit(forceinline=True)
def gathers_more(world: Any, flow: Any, now_ns: int) -> bool:
    """Return whether the network card is still coalescing packets, which it will deliver as one."""
    return bool(
        flow.unacked_arrivals < world.coalesced_packets
        and now_ns - flow.unacked_since_ns < world.coalescing_ns
    )


@njit
def send_held_ack(world: Any, flow_id: int, now_ns: int, extras: Any) -> None:
    """Send the last packet that arrived back as an ACK for all unacknowledged arrivals."""
    flow = flow_at(world.flows, flow_id)
    slot = flow.held_ack_slot
    packet = packet_at(world.packets, slot)
    note = note_at(world.notes, slot)
    note.covers = flow.unacked_arrivals
    note.endpoint_delay_ns = now_ns - note.received_ns
    flow.held_ack_slot = NOBODY
    flow.unacked_arrivals = 0
    flow.quick_acks = max(flow.quick_acks - 1, 0)
    segment_at(world.segments, slot).ack = flow.rcv_nxt
    if world.loses_at_random:
        report_arrivals(world, flow, slot, segment_at(world.segments, slot).seq)
    packet.flags = PACKET_IS_ACK | (PACKET_CE if flow.ce_state else 0)
    if flow.repeated_arrival:
        packet.flags |= PACKET_DUPLICATE
    if flow.cnp_due:
        packet.flags |= PACKET_CNP
        flow.cnp_due = 0
    packet.size_bytes = world.ack_bytes
    send_back(world, flow, flow_id, slot, now_ns, extras)


@njit
def expire_ack_timer(world: Any, flow_id: int, what: int, now_ns: int, extras: Any) -> None:
    """Send the waiting ACK if it is due; set the event again if it was for an earlier ACK.

    A single packet waits for another one after the coalescing ends.
    """
    flow = flow_at(world.flows, flow_id)
    flow.ack_timers &= ~(1 << what)
    if flow.unacked_arrivals == 0:
        return
    if ack_timer_ns(world, flow, what) > now_ns:
        set_ack_timer(world, flow_id, what)
    elif what == RECEIVER_ACKS or owes_ack(world, flow):
        send_held_ack(world, flow_id, now_ns, extras)
    else:
        set_ack_timer(world, flow_id, RECEIVER_ACKS)


@njit(forceinline=True)
def notification_is_due(world: Any, flow: Any, now_ns: int) -> bool:
    """Return whether DCQCN may send a notification: at most one per interval (Zhu et al., SIGCOMM 2015)."""
    if world.cnp_interval_ns == 0 or now_ns < flow.last_cnp_ns + world.cnp_interval_ns:
        return False
    flow.last_cnp_ns = now_ns
    return True


@njit(forceinline=True)
def credit_delivery(world: Any, flow: Any, first_seq: int, now_ns: int) -> None:
    """Count the payload of the packets from ``first_seq`` that have just become deliverable in order."""
    payload_bytes = (flow.rcv_nxt - first_seq) * world.payload_bytes
    if flow.rcv_nxt == flow.n_packets:
        payload_bytes += flow.last_packet_bytes - world.payload_bytes
        flow.finish_ns = now_ns
    host_at(world.hosts, flow.src).delivered_bytes += payload_bytes
    host_at(world.hosts, flow.dst).received_bytes += payload_bytes
