"""Sending end of a receiver-driven flow: credit from its receiver, and reported losses.

Credit is a number of transmissions: packets leave while fewer were sent than the receiver has granted.
Packets that the receiver requests again, the probe of RFC 8985 and the first packet after a time-out need no
credit.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.ports import enqueue, first_link
from sysgym.emulator.packets.engine.recovery.ack_by_time import advance
from sysgym.emulator.packets.engine.recovery.flight import has_new_packet
from sysgym.emulator.packets.engine.recovery.rack import (
    declare_packet_lost,
    next_lost,
    sent_time_of,
    take_arrival,
    take_repeated_arrivals,
    transmission_of,
)
from sysgym.emulator.packets.memory.flow_record import IN_FLIGHT, LOST, flow_at
from sysgym.emulator.packets.memory.message_records import credit_at, message_at
from sysgym.emulator.packets.memory.records import (
    NOBODY,
    PACKET_IS_ACK,
    PACKET_TRIMMED,
    note_at,
    packet_at,
    segment_at,
    stamps_at,
)


@njit(forceinline=True)
def lacks_credit(flow: Any) -> bool:
    """Return whether a flow may send nothing until its receiver grants more."""
    return flow.spent_packets >= flow.credit_packets and flow.free_packets == 0 and not flow.probe_due


@njit(forceinline=True)
def spend_credit(flow: Any) -> None:
    """Charge a packet that leaves to the flow's credit."""
    if flow.free_packets > 0:
        flow.free_packets -= 1
    elif not flow.probe_due:
        flow.spent_packets += 1


@njit(forceinline=True)
def wanted_packets(flow: Any) -> int:
    """Return the total number of transmissions of a flow: those made, lost packets, and new packets."""
    missing = flow.lost + flow.n_packets - flow.nxt - flow.free_packets
    return int(flow.spent_packets + max(missing, 0))


@njit(forceinline=True)
def announce(world: Any, flow: Any, slot: int) -> None:
    """Write the number of transmissions that a flow needs into a packet."""
    flow.announced_packets = wanted_packets(flow)
    credit_at(world.credits, slot).packets = flow.announced_packets


@njit(forceinline=True)
def next_when_told(world: Any, flow: Any) -> int:
    """Return the number of the packet that the flow would send with sufficient credit, or NOBODY."""
    if flow.lost > 0:
        return int(next_lost(world, flow))
    if has_new_packet(flow):
        return int(flow.nxt)
    return NOBODY


@njit
def take_ack_when_told(world: Any, flow: Any, slot: int) -> int:
    """Apply an ACK, or the report that a packet arrived without its payload.

    Return the number of packets that are newly known to have arrived.
    """
    segment = segment_at(world.segments, slot)
    newly_arrived = advance(world, flow, segment.ack) if segment.ack > flow.una else 0
    if world.loses_at_random:
        newly_arrived += take_repeated_arrivals(world, flow, slot)
    if packet_at(world.packets, slot).flags & PACKET_TRIMMED:
        sent = transmission_of(world, flow, segment.seq)
        is_last = sent_time_of(world, flow, segment.seq).ns == segment.sent_ns
        if segment.seq >= flow.una and sent.status == IN_FLIGHT and is_last:
            declare_packet_lost(flow, segment.seq, sent)
    elif segment.seq > segment.ack:
        newly_arrived += take_arrival(world, flow, segment.seq)
    return int(newly_arrived)


@njit
def take_credit(world: Any, slot: int) -> int:
    """Apply the credit in an ACK or a grant; return the number of newly granted transmissions."""
    packet = packet_at(world.packets, slot)
    flow = flow_at(world.flows, packet.flow)
    credit = credit_at(world.credits, slot)
    if credit.ask_below > 0:
        send_missing_again(world, flow, segment_at(world.segments, slot).ack, credit.ask_below)
    granted = credit.packets - flow.credit_packets
    if granted <= 0:  # nothing new, or overtaken by a later grant
        return 0
    flow.credit_packets = credit.packets
    flow.priority = credit.priority
    return int(granted)


@njit
def send_missing_again(world: Any, flow: Any, first: int, below: int) -> None:
    """Declare packets lost that the receiver requests again; all of them may leave without credit."""
    asked = 0
    for seq in range(max(first, flow.una), min(below, flow.nxt)):
        sent = transmission_of(world, flow, seq)
        if sent.status == IN_FLIGHT:
            declare_packet_lost(flow, seq, sent)
        asked += sent.status == LOST
    flow.free_packets = max(flow.free_packets, asked)


@njit
def declare_overdue(world: Any, flow: Any, now_ns: int) -> bool:
    """Declare packets lost that were sent longer ago than the time-out; return whether there are any."""
    found = False
    for seq in range(flow.una, flow.nxt):
        sent = transmission_of(world, flow, seq)
        if sent.status == IN_FLIGHT and sent_time_of(world, flow, seq).ns + flow.rto_ns <= now_ns:
            declare_packet_lost(flow, seq, sent)
            found = True
    return found


@njit
def control_packet(world: Any, flow_id: int, direction: int, now_ns: int) -> int:
    """Take a free slot for a packet without data, and return it; NOBODY if there is none.

    Args:
        world: The world.
        flow_id: Flow of the packet.
        direction: 0: to the receiver; 1: to the sender.
        now_ns: Present time.
    """
    if world.free_packets == 0:
        return NOBODY
    slot = world.first_free_packet
    packet = packet_at(world.packets, slot)
    world.first_free_packet = packet.next
    world.free_packets -= 1
    packet.flow = flow_id
    packet.size_bytes = world.ack_bytes
    packet.flags = PACKET_IS_ACK if direction else 0
    segment = segment_at(world.segments, slot)
    segment.seq = NOBODY
    segment.ack = 0
    segment.sent_ns = now_ns
    note_at(world.notes, slot).came_by = NOBODY
    if world.keeps_stamps:
        stamps_at(world.stamps, slot).hops = 0
    message_at(world.messages, flow_id).control_sent += 1
    return int(slot)


@njit
def request_credit(world: Any, flow_id: int, now_ns: int, extras: Any) -> None:
    """Send the receiver the number of transmissions that a flow needs; it replies with the grant."""
    slot = control_packet(world, flow_id, 0, now_ns)
    if slot != NOBODY:
        announce(world, flow_at(world.flows, flow_id), slot)
        note_at(world.notes, slot).priority = flow_at(world.flows, flow_id).ack_priority
        packet = packet_at(world.packets, slot)
        enqueue(world, first_link(world, packet, flow_id, 0), slot, now_ns, extras)


@njit
def request_if_short(world: Any, flow_id: int, now_ns: int, extras: Any) -> None:
    """Request credit if the receiver believes that it has granted all that the flow needs."""
    flow = flow_at(world.flows, flow_id)
    if (
        lacks_credit(flow)
        and flow.announced_packets <= flow.credit_packets
        and flow.announced_packets < wanted_packets(flow)
    ):
        request_credit(world, flow_id, now_ns, extras)
