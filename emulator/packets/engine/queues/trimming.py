"""Packet trimming: a data packet that finds no room is cut to its header (Handley et al., NDP, SIGCOMM 2017).

The header continues in the highest class, so the receiver soon learns which packet to request again. Headers
that find no room there are dropped. Part of the extended event loop.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.discipline import random_below
from sysgym.emulator.packets.engine.queues.class_queue import (
    append,
    count_bytes,
    drop,
    has_room,
    mark,
    queue_of,
)
from sysgym.emulator.packets.memory.records import (
    NOBODY,
    PACKET_IS_ACK,
    PACKET_TRIMMED,
    note_at,
    packet_at,
    port_at,
    segment_at,
)


@njit(forceinline=True)
def can_be_trimmed(world: Any, slot: int) -> bool:
    """Return whether a packet is data that has not been trimmed yet, in a network that trims."""
    flags = packet_at(world.packets, slot).flags
    return bool(
        world.trims
        and not flags & (PACKET_IS_ACK | PACKET_TRIMMED)
        and segment_at(world.segments, slot).seq >= 0  # neither a SYN nor a request for credit
    )


@njit
def trim(world: Any, link: Any, link_id: int, number: int, slot: int, marks: bool, now_ns: int) -> None:
    """Trim a packet that finds no room, or instead the last packet of its class, with equal probability.

    The random choice prevents that packets of the same flow are always trimmed (section 3.1). A packet that
    keeps its data is marked according to the queue that it found.
    """
    queue = queue_of(world, link_id, number)
    if random_below(world, 2) and may_take_place(world, link, link_id, number, slot, now_ns):
        if marks:
            mark(link, queue, packet_at(world.packets, slot))
        slot = take_place_of_last(world, link, link_id, number, slot)
    packet = packet_at(world.packets, slot)
    queue.trimmed_packets += 1
    queue.trimmed_bytes += packet.size_bytes - world.header_bytes
    packet.size_bytes = world.header_bytes
    packet.flags |= PACKET_TRIMMED
    highest = world.n_classes - 1
    note_at(world.notes, slot).priority = highest
    if has_room(world, link, link_id, highest, packet.size_bytes, now_ns):
        append(world, link, link_id, highest, slot, now_ns)
    else:
        drop(world, link, link_id, highest, slot)


@njit(forceinline=True)
def may_take_place(world: Any, link: Any, link_id: int, number: int, slot: int, now_ns: int) -> bool:
    """Return whether the last packet of a class can be trimmed, and the new packet fits in its place."""
    queue = queue_of(world, link_id, number)
    if queue.head == NOBODY:
        return False
    last = packet_at(world.packets, queue.tail)
    grows_bytes = packet_at(world.packets, slot).size_bytes - last.size_bytes
    fits = grows_bytes <= 0 or has_room(world, link, link_id, number, grows_bytes, now_ns)
    return bool(can_be_trimmed(world, queue.tail) and fits)


@njit
def take_place_of_last(world: Any, link: Any, link_id: int, number: int, slot: int) -> int:
    """Put a packet in the place of the last packet of its class, and return the slot of the latter."""
    queue = queue_of(world, link_id, number)
    former = int(queue.tail)
    packet = packet_at(world.packets, slot)
    grows_bytes = packet.size_bytes - packet_at(world.packets, former).size_bytes
    packet.next = NOBODY
    if queue.head == former:
        queue.head = slot
    else:
        packet_at(world.packets, queue.before_tail).next = slot
    queue.tail = slot
    queue.waiting_bytes += grows_bytes
    queue.accepted_bytes += grows_bytes
    link.sent_bytes += grows_bytes
    count_bytes(world, port_at(world.ports, link_id), grows_bytes)
    return former
