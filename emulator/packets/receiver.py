"""The receiving end of a flow: in-order delivery, a bitmap of what came out of order.

One ACK for each packet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sysgym.emulator.packets.layout import (
    PACKET_CE,
    PACKET_CNP,
    PACKET_IS_ACK,
    flow_at,
    host_at,
    packet_at,
    word_at,
)
from sysgym.emulator.packets.ports import enqueue, route_link


@njit(inline="always")
def test_bit(bitmap: Any, offset: int, index: int) -> bool:
    """Says whether a packet of a flow's bitmap is set."""
    return (word_at(bitmap, offset + (index >> 6)).bits >> np.uint64(index & 63)) & np.uint64(1) != np.uint64(
        0
    )


@njit(inline="always")
def set_bit(bitmap: Any, offset: int, index: int) -> None:
    """Sets a packet in a flow's bitmap."""
    word_at(bitmap, offset + (index >> 6)).bits |= np.uint64(1) << np.uint64(index & 63)


@njit(inline="always")
def clear_bit(bitmap: Any, offset: int, index: int) -> None:
    """Clears a packet in a flow's bitmap."""
    word_at(bitmap, offset + (index >> 6)).bits &= ~(np.uint64(1) << np.uint64(index & 63))


@njit
def deliver_held_packets(world: Any, flow: Any) -> None:
    """Moves the receiver past the packets that it already holds."""
    while flow.held_out_of_order > 0:
        index = flow.rcv_nxt & flow.window_mask
        if not test_bit(world.received, flow.bitmap_offset, index):
            return
        clear_bit(world.received, flow.bitmap_offset, index)
        flow.held_out_of_order -= 1
        flow.rcv_nxt += 1


@njit(inline="always")
def accept_data(world: Any, flow: Any, seq: int, now_ns: int) -> None:
    """Delivers a packet and what it makes deliverable, or holds it until its turn comes."""
    if seq == flow.rcv_nxt:
        flow.rcv_nxt += 1
        deliver_held_packets(world, flow)
        credit_delivery(world, flow, seq, now_ns)
    elif seq > flow.rcv_nxt:
        index = seq & flow.window_mask
        if not test_bit(world.received, flow.bitmap_offset, index):
            set_bit(world.received, flow.bitmap_offset, index)
            flow.held_out_of_order += 1


@njit
def receive_data(world: Any, slot: int, now_ns: int, extras: Any) -> None:
    """Takes a data packet in and sends it back as an ACK, the CE mark echoed.

    With one ACK a packet this is the exact feedback that the receiver of RFC 8257, 3.2, aims at.
    """
    packet = packet_at(world.packets, slot)
    flow = flow_at(world.flows, packet.flow)
    accept_data(world, flow, packet.seq, now_ns)
    ce = packet.flags & PACKET_CE
    packet.ack = flow.rcv_nxt
    packet.flags = PACKET_IS_ACK | ce
    packet.size_bytes = world.ack_bytes
    packet.hop = 0
    if extras is not None and ce and notification_is_due(world, flow, now_ns):
        packet.flags |= PACKET_CNP
    enqueue(world, route_link(world, packet.flow, 1, 0), slot, now_ns, extras)


@njit(inline="always")
def notification_is_due(world: Any, flow: Any, now_ns: int) -> bool:
    """DCQCN: at most one notification an interval (Zhu et al., SIGCOMM 2015, 3.1)."""
    if world.cnp_interval_ns == 0 or now_ns < flow.last_cnp_ns + world.cnp_interval_ns:
        return False
    flow.last_cnp_ns = now_ns
    return True


@njit(inline="always")
def credit_delivery(world: Any, flow: Any, first_seq: int, now_ns: int) -> None:
    """Counts the payload of the packets from ``first_seq`` that have just become deliverable in order."""
    payload_bytes = (flow.rcv_nxt - first_seq) * world.payload_bytes
    if flow.rcv_nxt == flow.n_packets:
        payload_bytes += flow.last_packet_bytes - world.payload_bytes
        flow.finish_ns = now_ns
    host_at(world.hosts, flow.src).delivered_bytes += payload_bytes
    host_at(world.hosts, flow.dst).received_bytes += payload_bytes
