"""The receiving end of a flow: in-order delivery, a bitmap of what came out of order.

One ACK for each packet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sysgym.emulator.packets.layout import PACKET_CE, PACKET_IS_ACK, flow_at, host_at, packet_at, word_at
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


@njit
def receive_data(world: Any, slot: int, now_ns: int) -> None:
    """Takes a data packet in and sends it back as an ACK, the CE mark echoed.

    With one ACK a packet this is the exact feedback that the receiver of RFC 8257, 3.2, aims at.
    """
    packet = packet_at(world.packets, slot)
    flow = flow_at(world.flows, packet.flow)
    seq = packet.seq
    if seq == flow.rcv_nxt:
        flow.rcv_nxt += 1
        deliver_held_packets(world, flow)
        credit_delivery(world, flow, seq, now_ns)
    elif seq > flow.rcv_nxt:
        index = seq & flow.window_mask
        if not test_bit(world.received, flow.bitmap_offset, index):
            set_bit(world.received, flow.bitmap_offset, index)
            flow.held_out_of_order += 1
    packet.ack = flow.rcv_nxt
    packet.flags = PACKET_IS_ACK | (packet.flags & PACKET_CE)
    packet.size_bytes = world.ack_bytes
    packet.hop = 0
    enqueue(world, route_link(world, packet.flow, 1, 0), slot, now_ns)


@njit(inline="always")
def credit_delivery(world: Any, flow: Any, first_seq: int, now_ns: int) -> None:
    """Counts the payload of the packets from ``first_seq`` that have just become deliverable in order."""
    payload_bytes = (flow.rcv_nxt - first_seq) * world.payload_bytes
    if flow.rcv_nxt == flow.n_packets:
        payload_bytes += flow.last_packet_bytes - world.payload_bytes
        flow.finish_ns = now_ns
    host_at(world.hosts, flow.src).delivered_bytes += payload_bytes
    host_at(world.hosts, flow.dst).received_bytes += payload_bytes
