"""Arrival of a packet at a class queue, where it is accepted, marked, trimmed or dropped, and its departure.

Part of the extended event loop.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.discipline import MARKED, NOT_MARKED, REFUSED, red_verdict
from sysgym.emulator.packets.engine.queues.class_queue import (
    append,
    class_backlog_ns,
    count_bytes,
    drop,
    existing_class,
    has_room,
    integrate_queue,
    mark,
    queue_of,
)
from sysgym.emulator.packets.engine.queues.host_port import wakes_host
from sysgym.emulator.packets.engine.queues.pfc import hold, is_lossless, let_go
from sysgym.emulator.packets.engine.queues.scheduler import begin_transmission
from sysgym.emulator.packets.engine.queues.trimming import can_be_trimmed, trim
from sysgym.emulator.packets.memory.records import NOBODY, link_at, note_at, packet_at, port_at


@njit
def join_queue(world: Any, link: Any, link_id: int, slot: int, now_ns: int) -> None:
    """Put a packet into the queue of its class, or trim or drop it."""
    port = port_at(world.ports, link_id)
    packet = packet_at(world.packets, slot)
    note = note_at(world.notes, slot)
    number = existing_class(world, note.priority)
    integrate_queue(link, port, now_ns)
    if world.links_fail and port.down:
        port.lost_packets += 1
        drop(world, link, link_id, number, slot)
        return
    queue = queue_of(world, link_id, number)
    backlog_ns = class_backlog_ns(link, port, queue, number, now_ns)
    verdict = NOT_MARKED
    if world.red:
        verdict = red_verdict(world, link, port, queue, queue.busy_until_ns, packet, backlog_ns, now_ns)
    if is_lossless(world, number):
        accepted = note.came_by == NOBODY or hold(world, note.came_by, number, packet.size_bytes, now_ns)
    else:
        accepted = verdict != REFUSED and has_room(world, link, link_id, number, packet.size_bytes, now_ns)
    marks = verdict == MARKED or backlog_ns > queue.mark_above_ns
    if accepted:
        if marks:
            mark(link, queue, packet)
        append(world, link, link_id, number, slot, now_ns)
    elif can_be_trimmed(world, slot):
        trim(world, link, link_id, number, slot, marks, now_ns)
    else:
        drop(world, link, link_id, number, slot)
    begin_transmission(world, link_id, now_ns)


@njit
def end_transmission(world: Any, link_id: int, now_ns: int) -> int:
    """Remove a packet that has been sent from its port.

    Return the host that waited for room in its class and may send again, or NOBODY.
    """
    link = link_at(world.links, link_id)
    port = port_at(world.ports, link_id)
    integrate_queue(link, port, now_ns)
    number = port.sending_class
    size_bytes = port.sending_bytes
    count_bytes(world, port, -size_bytes)
    port.sending_bytes = 0
    if port.sending_from != NOBODY and is_lossless(world, number):
        let_go(world, port.sending_from, number, size_bytes, now_ns)
    begin_transmission(world, link_id, now_ns)
    return int(port.sends_for_host) if wakes_host(world, link_id, number) else NOBODY
