"""Handshake of a new connection: a SYN and its answer cross the path before any data (RFC 9293, 3.5).

Until the answer arrives, the sender assumes a receive window of 0. A SYN that is not answered is
retransmitted after a second, with exponential backoff (RFC 6298, 2.1 and 5.5).
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.ports import enqueue, first_link
from sysgym.emulator.packets.memory.flow_record import CONNECTING, RETRANSMISSION, flow_at
from sysgym.emulator.packets.memory.records import (
    NEVER_NS,
    NOBODY,
    OUT_OF_PACKETS,
    PACKET_IS_ACK,
    SYN,
    host_at,
    note_at,
    packet_at,
    segment_at,
    stamps_at,
)

FIRST_TIME_OUT_NS = 1_000_000_000


@njit
def begin_handshake(world: Any, flow_id: int, now_ns: int, extras: Any) -> None:
    """Send the first SYN of a flow."""
    flow = flow_at(world.flows, flow_id)
    flow.receive_window_packets = 0
    flow.rto_ns = min(FIRST_TIME_OUT_NS, world.max_rto_ns)
    send_syn(world, flow_id, now_ns, extras)


@njit
def send_syn(world: Any, flow_id: int, now_ns: int, extras: Any) -> None:
    """Send a SYN and set the timer; without a free packet slot, try again at the next check of the timer."""
    flow = flow_at(world.flows, flow_id)
    flow.timer = CONNECTING
    flow.timer_deadline_ns = now_ns
    if world.free_packets <= world.reserved_packets:
        world.halted |= OUT_OF_PACKETS
        return
    flow.timer_deadline_ns = now_ns + flow.rto_ns
    slot = world.first_free_packet
    packet = packet_at(world.packets, slot)
    world.first_free_packet = packet.next
    world.free_packets -= 1
    segment = segment_at(world.segments, slot)
    segment.sent_ns = now_ns
    segment.seq = SYN
    packet.flow = flow_id
    packet.size_bytes = world.ack_bytes
    packet.flags = 0
    if extras is not None:
        note = note_at(world.notes, slot)
        note.came_by = NOBODY
        note.priority = flow.priority
        if world.keeps_stamps:
            stamps_at(world.stamps, slot).hops = 0
    enqueue(world, first_link(world, packet, flow_id, 0), slot, now_ns, extras)


@njit
def send_syn_again(world: Any, flow_id: int, now_ns: int, extras: Any) -> None:
    """Retransmit a SYN that was not answered in time."""
    flow = flow_at(world.flows, flow_id)
    flow.timeouts += 1
    host_at(world.hosts, flow.src).timeouts += 1
    flow.rto_ns = min(2 * flow.rto_ns, world.max_rto_ns)
    send_syn(world, flow_id, now_ns, extras)


@njit
def answer_syn(world: Any, slot: int) -> None:
    """Turn a SYN into its answer."""
    packet = packet_at(world.packets, slot)
    segment_at(world.segments, slot).ack = flow_at(world.flows, packet.flow).rcv_nxt
    packet.flags = PACKET_IS_ACK


@njit
def end_handshake(world: Any, flow: Any) -> None:
    """Permit a flow to send, because the answer to its SYN has arrived."""
    flow.receive_window_packets = world.receive_window_packets
    flow.timer = RETRANSMISSION
    flow.timer_deadline_ns = NEVER_NS
