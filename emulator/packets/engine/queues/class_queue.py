"""Class queues of a port: lists of packets, their lengths and their counters.

A port has one queue for each class; of two classes, the one with the higher number has the higher priority,
as in IEEE 802.1Q. As packets do not depart in the order of arrival, the time at which a queue will be empty
does not describe its state. A class queue is therefore a list of packets, with an event for the end of each
transmission. Part of the extended event loop.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.shared_buffer import allows, bytes_of
from sysgym.emulator.packets.engine.wire import integrate_backlog, refuse, serialisation_ns
from sysgym.emulator.packets.memory.records import (
    NOBODY,
    PACKET_CE,
    PACKET_ECN_CAPABLE,
    class_queue_at,
    memory_at,
    packet_at,
    port_at,
)


@njit(forceinline=True)
def queue_of(world: Any, link_id: int, number: int) -> Any:
    """Return the record of a port's class queue."""
    return class_queue_at(world.class_queues, link_id * world.n_classes + number)


@njit(forceinline=True)
def existing_class(world: Any, wanted: int) -> int:
    """Return the class itself, or the nearest one that the ports have."""
    return min(max(wanted, 0), world.n_classes - 1)


@njit(forceinline=True)
def waiting_ns(link: Any, port: Any) -> int:
    """Return the drain time of the packets that wait behind the one being sent, of all classes."""
    return serialisation_ns(port.queued_bytes - port.sending_bytes, link.ns_per_byte_q20)


@njit(forceinline=True)
def class_backlog_ns(link: Any, port: Any, queue: Any, number: int, now_ns: int) -> int:
    """Return the drain time of one class's packets, including the rest of the packet being sent."""
    backlog_ns = serialisation_ns(queue.waiting_bytes, link.ns_per_byte_q20)
    if port.sending_class == number:
        backlog_ns += max(link.busy_until_ns - now_ns, 0)
    return backlog_ns


@njit
def integrate_queue(link: Any, port: Any, now_ns: int) -> None:
    """Update the queue's time integral: waiting packets are constant, the packet being sent shrinks."""
    elapsed_ns = now_ns - link.integrated_until_ns
    link.backlog_integral_ns2 += float(elapsed_ns) * waiting_ns(link, port)
    integrate_backlog(link, now_ns)


@njit
def has_room(world: Any, link: Any, link_id: int, number: int, size_bytes: int, now_ns: int) -> bool:
    """Return whether a class has room for more bytes, by its own limit and by its switch's memory."""
    port = port_at(world.ports, link_id)
    queue = queue_of(world, link_id, number)
    backlog_ns = class_backlog_ns(link, port, queue, number, now_ns)
    if backlog_ns + serialisation_ns(size_bytes, link.ns_per_byte_q20) > queue.buffer_ns:
        return False
    if world.shared_buffer_bytes == 0 or port.memory == NOBODY:
        return True
    held_bytes = memory_at(world.memories, port.memory).bound_bytes
    return bool(allows(world, bytes_of(backlog_ns, link), size_bytes, held_bytes))


@njit(forceinline=True)
def count_bytes(world: Any, port: Any, change_bytes: int) -> None:
    """Count bytes that a port has accepted (positive) or sent (negative)."""
    port.queued_bytes += change_bytes
    if world.shared_buffer_bytes and port.memory != NOBODY:
        memory_at(world.memories, port.memory).bound_bytes += change_bytes


@njit(forceinline=True)
def mark(link: Any, queue: Any, packet: Any) -> None:
    """Set a packet's CE mark if the packet is ECN-capable."""
    if packet.flags & PACKET_ECN_CAPABLE:
        packet.flags |= PACKET_CE
        link.marked_packets += 1
        queue.marked_packets += 1


@njit
def append(world: Any, link: Any, link_id: int, number: int, slot: int, now_ns: int) -> None:
    """Put a packet at the end of a class queue that has room for it."""
    port = port_at(world.ports, link_id)
    queue = queue_of(world, link_id, number)
    packet = packet_at(world.packets, slot)
    size_bytes = packet.size_bytes
    link.sent_bytes += size_bytes
    link.sent_packets += 1
    queue.accepted_bytes += size_bytes
    queue.accepted_packets += 1
    count_bytes(world, port, size_bytes)
    queue.waiting_bytes += size_bytes
    packet.next = NOBODY
    if queue.head == NOBODY:
        queue.head = slot
    else:
        packet_at(world.packets, queue.tail).next = slot
        queue.before_tail = queue.tail
    queue.tail = slot
    after_ns = max(link.busy_until_ns - now_ns, 0) + waiting_ns(link, port)
    link.max_backlog_ns = max(link.max_backlog_ns, after_ns)


@njit(forceinline=True)
def take_first(world: Any, queue: Any) -> int:
    """Take the first packet out of a class queue, and return its slot; the port still counts it."""
    slot = int(queue.head)
    packet = packet_at(world.packets, slot)
    queue.head = packet.next
    queue.waiting_bytes -= packet.size_bytes
    queue.deficit_bytes -= packet.size_bytes
    if queue.head == NOBODY:
        queue.deficit_bytes = 0
    return slot


@njit
def drop(world: Any, link: Any, link_id: int, number: int, slot: int) -> None:
    """Drop a packet that finds no room in its class."""
    queue = queue_of(world, link_id, number)
    queue.dropped_packets += 1
    queue.dropped_bytes += packet_at(world.packets, slot).size_bytes
    refuse(world, link, slot)
