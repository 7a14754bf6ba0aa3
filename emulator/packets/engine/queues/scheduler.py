"""Choice of the next packet of a port by strict priority or deficit round robin, and its transmission.

Part of the extended event loop.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.discipline import capture
from sysgym.emulator.packets.engine.event_queue.queue import push
from sysgym.emulator.packets.engine.events import event_key, port_source
from sysgym.emulator.packets.engine.queues.class_queue import integrate_queue, queue_of, take_first
from sysgym.emulator.packets.engine.wire import jittered_arrival_ns, put_on_wire, serialisation_ns
from sysgym.emulator.packets.memory.records import NOBODY, link_at, note_at, packet_at, port_at


@njit(forceinline=True)
def may_send(queue: Any) -> bool:
    """Return whether a class has a packet and is not paused."""
    return queue.head != NOBODY and queue.paused == 0


@njit
def next_by_priority(world: Any, link_id: int) -> int:
    """Return the highest class that may send, or NOBODY."""
    for number in range(world.n_classes - 1, -1, -1):
        if may_send(queue_of(world, link_id, number)):
            return number
    return NOBODY


@njit
def next_in_round(world: Any, link_id: int) -> int:
    """Return the class whose turn it is by deficit round robin, or NOBODY (Shreedhar and Varghese, 1996).

    At the beginning of its turn a class may send its quantum plus the remainder of its previous turn. It
    keeps the turn while its first packet fits. A class without packets loses its remainder.
    """
    if next_by_priority(world, link_id) == NOBODY:
        return NOBODY
    port = port_at(world.ports, link_id)
    while True:
        queue = queue_of(world, link_id, port.turn)
        if may_send(queue):
            if port.turn_begins:
                queue.deficit_bytes += queue.quantum_bytes
                port.turn_begins = 0
            if packet_at(world.packets, queue.head).size_bytes <= queue.deficit_bytes:
                return int(port.turn)
        port.turn = (port.turn + 1) % world.n_classes
        port.turn_begins = 1


@njit
def begin_transmission(world: Any, link_id: int, now_ns: int) -> None:
    """Start sending the next packet, if the port is free and a class may send."""
    port = port_at(world.ports, link_id)
    if port.sending_bytes > 0:
        return
    number = next_in_round(world, link_id) if world.weighted else next_by_priority(world, link_id)
    if number == NOBODY:
        return
    link = link_at(world.links, link_id)
    integrate_queue(link, port, now_ns)
    queue = queue_of(world, link_id, number)
    slot = take_first(world, queue)
    packet = packet_at(world.packets, slot)
    port.sending_bytes = packet.size_bytes
    port.sending_from = note_at(world.notes, slot).came_by
    port.sending_class = number
    if world.capture_size:
        capture(world, link_id, slot, False, now_ns)
    link.busy_until_ns = now_ns + serialisation_ns(packet.size_bytes, link.ns_per_byte_q20)
    queue.busy_until_ns = link.busy_until_ns
    push(world, event_key(link.busy_until_ns, port_source(world, link_id)))
    transmit_frame(world, link_id, slot, link.busy_until_ns + link.delay_ns)


@njit
def transmit_frame(world: Any, link_id: int, slot: int, arrival_ns: int) -> None:
    """Put a packet or control frame on the wire, after all packets that are on it."""
    link = link_at(world.links, link_id)
    if link.jitter_ns > 0:
        arrival_ns = jittered_arrival_ns(world, link, arrival_ns)
    arrival_ns = max(arrival_ns, link.last_arrival_ns)
    link.last_arrival_ns = arrival_ns
    put_on_wire(world, link, link_id, packet_at(world.packets, slot), slot, arrival_ns)
