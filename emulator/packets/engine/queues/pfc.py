"""Priority flow control (IEEE 802.1Qbb): a switch pauses a class at the far end of a link to avoid drops.

A switch counts the bytes that it holds by class and by the link over which they arrived. Above a threshold it
sends a pause frame for the class back over the cable of that link, below another threshold a frame that ends
the pause. Thus nothing is dropped, but a paused class delays everything in its queue, including traffic that
does not cause the congestion. Other classes are not affected.

A frame waits for the packet being sent, and takes its own transmission time and the delay of the cable; it
uses no capacity. Part of the extended event loop.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.queues.class_queue import queue_of
from sysgym.emulator.packets.engine.queues.scheduler import begin_transmission, transmit_frame
from sysgym.emulator.packets.engine.wire import serialisation_ns
from sysgym.emulator.packets.memory.records import (
    NOBODY,
    PACKET_PAUSE,
    PACKET_RESUME,
    link_at,
    note_at,
    packet_at,
)

FRAME_BYTES = 64
FRAMES_A_LINK = 16
"""Packet slots reserved for the frames of each class of a link; without a slot a frame arrives at once."""


@njit(forceinline=True)
def is_lossless(world: Any, number: int) -> bool:
    """Return whether flow control protects a class."""
    return (world.lossless_classes >> number) & 1 != 0


@njit
def hold(world: Any, came_by: int, number: int, size_bytes: int, now_ns: int) -> bool:
    """Count bytes that a switch received over a link; above the threshold, send a pause frame.

    Return whether there was room, which is always the case: build.py checks that there is enough.
    """
    queue = queue_of(world, came_by, number)
    if queue.held_bytes + size_bytes > world.ingress_bytes:
        return False
    queue.held_bytes += size_bytes
    if queue.held_bytes > world.pause_bytes and queue.pause_sent == 0:
        queue.pause_sent = 1
        send_control_frame(world, came_by ^ 1, number, PACKET_PAUSE, now_ns)
    return True


@njit
def let_go(world: Any, came_by: int, number: int, size_bytes: int, now_ns: int) -> None:
    """Count bytes from a link that have left the switch; below the threshold, end the pause."""
    queue = queue_of(world, came_by, number)
    queue.held_bytes -= size_bytes
    if queue.held_bytes <= world.resume_bytes and queue.pause_sent:
        queue.pause_sent = 0
        send_control_frame(world, came_by ^ 1, number, PACKET_RESUME, now_ns)


@njit
def send_control_frame(world: Any, link_id: int, number: int, flag: int, now_ns: int) -> None:
    """Send a frame for a class to the other end of a cable, ahead of all waiting packets."""
    slot = world.first_free_packet
    if world.free_packets == 0:
        take_control_frame(world, link_id, number, flag, now_ns)
        return
    packet = packet_at(world.packets, slot)
    world.first_free_packet = packet.next
    world.free_packets -= 1
    packet.flags = flag
    packet.size_bytes = FRAME_BYTES
    packet.flow = NOBODY
    note_at(world.notes, slot).priority = number
    link = link_at(world.links, link_id)
    begins_ns = max(link.busy_until_ns, now_ns)
    frame_ns = serialisation_ns(FRAME_BYTES, link.ns_per_byte_q20)
    transmit_frame(world, link_id, slot, begins_ns + frame_ns + link.delay_ns)


@njit
def take_control_frame(world: Any, link_id: int, number: int, flag: int, now_ns: int) -> None:
    """Pause or resume a class at this end of a cable, as requested by a frame from the other end."""
    paused_id = link_id ^ 1
    queue = queue_of(world, paused_id, number)
    if flag & PACKET_PAUSE and queue.paused == 0:
        queue.paused = 1
        queue.paused_since_ns = now_ns
        queue.pauses += 1
    elif flag & PACKET_RESUME and queue.paused:
        queue.paused = 0
        queue.paused_ns += now_ns - queue.paused_since_ns
        begin_transmission(world, paused_id, now_ns)
