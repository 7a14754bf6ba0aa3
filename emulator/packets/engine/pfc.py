"""Priority flow control (IEEE 802.1Qbb): a switch pauses the far end of a link before its buffer overflows.

A switch counts the bytes that it holds by the link over which they came. Above a threshold it sends a pause
frame back over that link's cable, below another threshold a frame that ends the pause. So nothing is dropped,
but a paused port delays everything in its queue, including traffic that does not cause the congestion.

The drain time of a queue that may be paused is not known in advance, so the queue is a list of packets with
an event for the end of each transmission. A frame takes the delay of the cable plus the rest of the packet
being sent; it uses no capacity. Data, ACKs and notifications are of one class. Part of the extended event
loop.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.discipline import (
    NOT_MARKED,
    capture,
    red_verdict,
)
from sysgym.emulator.packets.engine.events import event_key, port_source, push
from sysgym.emulator.packets.engine.wire import (
    integrate_backlog,
    jittered_arrival_ns,
    put_on_wire,
    refuse,
    serialisation_ns,
)
from sysgym.emulator.packets.memory.records import (
    NOBODY,
    PACKET_CE,
    PACKET_ECN_CAPABLE,
    PACKET_PAUSE,
    PACKET_RESUME,
    link_at,
    note_at,
    packet_at,
    port_at,
)

FRAME_BYTES = 64
FRAMES_A_LINK = 16
"""Packet slots reserved for the control frames of each link; without a slot a frame arrives at once."""


@njit(forceinline=True)
def waiting_ns(link: Any, port: Any) -> int:
    """Return the drain time of the packets that wait behind the one being sent."""
    return serialisation_ns(port.queued_bytes - port.sending_bytes, link.ns_per_byte_q20)


@njit
def integrate_queue(link: Any, port: Any, now_ns: int) -> None:
    """Bring the queue's time integral up to now: waiting packets stay, the packet being sent shrinks."""
    elapsed_ns = now_ns - link.integrated_until_ns
    link.backlog_integral_ns2 += float(elapsed_ns) * waiting_ns(link, port)
    integrate_backlog(link, now_ns)


@njit
def join_queue(world: Any, link: Any, link_id: int, packet: Any, slot: int, now_ns: int) -> None:
    """Put a packet into a queue that may be paused."""
    port = port_at(world.ports, link_id)
    came_by = note_at(world.notes, slot).came_by
    size_bytes = packet.size_bytes
    integrate_queue(link, port, now_ns)
    backlog_ns = max(link.busy_until_ns - now_ns, 0) + waiting_ns(link, port)
    verdict = red_verdict(world, link, link_id, packet, backlog_ns, now_ns) if world.red else NOT_MARKED
    if came_by != NOBODY:
        if port_at(world.ports, came_by).held_bytes + size_bytes > world.ingress_bytes:
            refuse(world, link, slot)  # does not happen: build.py checks that there is enough room
            return
        hold(world, came_by, size_bytes, now_ns)
    if (verdict != NOT_MARKED or backlog_ns > link.mark_above_ns) and packet.flags & PACKET_ECN_CAPABLE:
        packet.flags |= PACKET_CE
        link.marked_packets += 1
    link.sent_bytes += size_bytes
    link.sent_packets += 1
    after_ns = backlog_ns + serialisation_ns(size_bytes, link.ns_per_byte_q20)
    link.max_backlog_ns = max(link.max_backlog_ns, after_ns)
    port.queued_bytes += size_bytes
    packet.next = NOBODY
    if port.waiting_head == NOBODY:
        port.waiting_head = slot
    else:
        packet_at(world.packets, port.waiting_tail).next = slot
    port.waiting_tail = slot
    if port.sending_bytes == 0 and port.paused == 0:
        begin_transmission(world, link_id, now_ns)


@njit
def begin_transmission(world: Any, link_id: int, now_ns: int) -> None:
    """Start sending the first waiting packet."""
    link = link_at(world.links, link_id)
    port = port_at(world.ports, link_id)
    slot = port.waiting_head
    packet = packet_at(world.packets, slot)
    port.waiting_head = packet.next
    integrate_queue(link, port, now_ns)
    port.sending_bytes = packet.size_bytes
    port.sending_from = note_at(world.notes, slot).came_by
    if world.capture_size:
        capture(world, link_id, slot, False, now_ns)
    link.busy_until_ns = now_ns + serialisation_ns(packet.size_bytes, link.ns_per_byte_q20)
    push(world, event_key(link.busy_until_ns, port_source(world, link_id)))
    transmit_frame(world, link_id, slot, link.busy_until_ns + link.delay_ns)


@njit
def transmit_frame(world: Any, link_id: int, slot: int, arrival_ns: int) -> None:
    """Put a packet or control frame on the wire, behind everything that is on it."""
    link = link_at(world.links, link_id)
    if link.jitter_ns > 0:
        arrival_ns = jittered_arrival_ns(world, link, arrival_ns)
    arrival_ns = max(arrival_ns, link.last_arrival_ns)
    link.last_arrival_ns = arrival_ns
    put_on_wire(world, link, link_id, packet_at(world.packets, slot), slot, arrival_ns)


@njit
def end_transmission(world: Any, link_id: int, now_ns: int) -> int:
    """Take a packet that has been sent out of its port.

    Return the host that waited for room in the port and may send again, or NOBODY.
    """
    link = link_at(world.links, link_id)
    port = port_at(world.ports, link_id)
    integrate_queue(link, port, now_ns)
    size_bytes = port.sending_bytes
    port.queued_bytes -= size_bytes
    port.sending_bytes = 0
    if port.sending_from != NOBODY:
        let_go(world, port.sending_from, size_bytes, now_ns)
    if port.waiting_head != NOBODY and port.paused == 0:
        begin_transmission(world, link_id, now_ns)
    return int(port.sends_for_host) if port.wakes_host else NOBODY


@njit
def hold(world: Any, came_by: int, size_bytes: int, now_ns: int) -> None:
    """Count bytes that a switch received over a link; above the threshold it asks for a pause."""
    port = port_at(world.ports, came_by)
    port.held_bytes += size_bytes
    if port.held_bytes > world.pause_bytes and port.pause_sent == 0:
        port.pause_sent = 1
        send_control_frame(world, came_by ^ 1, PACKET_PAUSE, now_ns)


@njit
def let_go(world: Any, came_by: int, size_bytes: int, now_ns: int) -> None:
    """Count bytes that a switch no longer holds of a link; below the threshold the pause ends."""
    port = port_at(world.ports, came_by)
    port.held_bytes -= size_bytes
    if port.held_bytes <= world.resume_bytes and port.pause_sent:
        port.pause_sent = 0
        send_control_frame(world, came_by ^ 1, PACKET_RESUME, now_ns)


@njit
def send_control_frame(world: Any, link_id: int, flag: int, now_ns: int) -> None:
    """Send a frame to the other end of a cable, ahead of all waiting packets."""
    slot = world.first_free_packet
    if world.free_packets == 0:
        take_control_frame(world, link_id, flag, now_ns)
        return
    packet = packet_at(world.packets, slot)
    world.first_free_packet = packet.next
    world.free_packets -= 1
    packet.flags = flag
    packet.size_bytes = FRAME_BYTES
    packet.flow = NOBODY
    link = link_at(world.links, link_id)
    begins_ns = max(link.busy_until_ns, now_ns)
    frame_ns = serialisation_ns(FRAME_BYTES, link.ns_per_byte_q20)
    transmit_frame(world, link_id, slot, begins_ns + frame_ns + link.delay_ns)


@njit
def take_control_frame(world: Any, link_id: int, flag: int, now_ns: int) -> None:
    """Pause or resume the port at this end of a cable, as a frame that came over the link demands."""
    paused_id = link_id ^ 1
    port = port_at(world.ports, paused_id)
    if flag & PACKET_PAUSE and port.paused == 0:
        port.paused = 1
        port.paused_since_ns = now_ns
        port.pauses += 1
    elif flag & PACKET_RESUME and port.paused:
        port.paused = 0
        port.paused_ns += now_ns - port.paused_since_ns
        if port.sending_bytes == 0 and port.waiting_head != NOBODY:
            begin_transmission(world, paused_id, now_ns)
