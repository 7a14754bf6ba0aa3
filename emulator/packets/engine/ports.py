"""Output queues of links: byte-limited FIFO, tail drop, ECN step mark, and queue statistics.

A FIFO that drains at a constant rate needs no departure events: its state is the time at which it will be
empty, and its length is the remaining time divided by the time of a byte. The integral of the queue over time
is exact, because the queue falls linearly between two arrivals.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.discipline import (
    NOT_MARKED,
    REFUSED,
    capture,
    red_verdict,
)
from sysgym.emulator.packets.engine.events import SOURCE_MASK
from sysgym.emulator.packets.engine.queues.admission import join_queue
from sysgym.emulator.packets.engine.shared_buffer import takes_memory
from sysgym.emulator.packets.engine.wire import (
    integrate_backlog,
    jittered_arrival_ns,
    put_on_wire,
    refuse,
    serialisation_ns,
)
from sysgym.emulator.packets.memory.records import (
    PACKET_CE,
    PACKET_ECN_CAPABLE,
    bucket_at,
    entry_at,
    link_at,
    packet_at,
    port_at,
    route_hop_at,
)
from sysgym.emulator.packets.topology.graph import SHAPER_BURST_S

SUB_BUCKET_BITS = 4
_SUB_BUCKETS = 1 << SUB_BUCKET_BITS
_BURST_NS = round(SHAPER_BURST_S * 1e9)
QUEUE_BUCKETS = 40 * _SUB_BUCKETS
"""Buckets of the log-linear histogram of drain times: 16 per octave, so a quantile is exact to 1/16."""


@njit(forceinline=True)
def first_link(world: Any, packet: Any, flow_id: int, direction: int) -> int:
    """Put a packet at the start of its flow's route (direction 1: the ACK route); return the first link."""
    packet.hop = 0
    packet.route = (2 * flow_id + direction) * world.route_stride
    return int(route_hop_at(world.routes, packet.route).link)


@njit(forceinline=True)
def following_link(world: Any, packet: Any) -> int:
    """Move a packet on to the next link of its route, and return that link; NOBODY after the last one."""
    packet.hop += 1
    packet.route += 1
    return int(route_hop_at(world.routes, packet.route).link)


@njit(forceinline=True)
def enqueue(world: Any, link_id: int, slot: int, now_ns: int, extras: Any) -> None:
    """Put a packet into a link's queue, or drop it; mark it if the queue is above the threshold."""
    link = link_at(world.links, link_id)
    packet = packet_at(world.packets, slot)
    if extras is not None and world.n_classes:
        join_queue(world, link, link_id, slot, now_ns)
        return
    backlog_ns = integrate_backlog(link, now_ns)
    size_bytes = packet.size_bytes
    after_ns = backlog_ns + serialisation_ns(size_bytes, link.ns_per_byte_q20)
    verdict = NOT_MARKED
    if extras is not None and world.red:  # every arrival counts in the average, also that of a full buffer
        port = port_at(world.ports, link_id)
        verdict = red_verdict(world, link, port, port, link.busy_until_ns, packet, backlog_ns, now_ns)
    if after_ns > link.buffer_ns:
        refuse(world, link, slot)
        return
    marked = backlog_ns > link.mark_above_ns
    if extras is not None:
        if verdict == REFUSED:
            refuse(world, link, slot)
            return
        if world.links_fail and port_at(world.ports, link_id).down:
            port_at(world.ports, link_id).lost_packets += 1
            refuse(world, link, slot)
            return
        if world.shared_buffer_bytes and not takes_memory(
            world, link, link_id, backlog_ns, size_bytes, now_ns
        ):
            refuse(world, link, slot)
            return
        marked = marked or verdict != NOT_MARKED
        if world.capture_size:
            capture(world, link_id, slot, marked, now_ns + backlog_ns)
    if marked and packet.flags & PACKET_ECN_CAPABLE:
        packet.flags |= PACKET_CE
        link.marked_packets += 1
    link.sent_bytes += size_bytes
    link.sent_packets += 1
    if after_ns > link.max_backlog_ns:
        link.max_backlog_ns = after_ns
    arrival_ns = now_ns + after_ns + link.delay_ns
    if extras is not None and world.shaped_links:
        arrival_ns = now_ns + backlog_ns + link.delay_ns
        link.busy_until_ns = shaped_busy_until_ns(world, link, size_bytes, now_ns)
    else:
        link.busy_until_ns = now_ns + after_ns
    if link.jitter_ns > 0:
        arrival_ns = jittered_arrival_ns(world, link, arrival_ns)
    put_on_wire(world, link, link_id, packet, slot, arrival_ns)


@njit(forceinline=True)
def shaped_busy_until_ns(world: Any, link: Any, size_bytes: int, now_ns: int) -> int:
    """Return the time until which a token bucket is busy with an accepted packet (``shaper_burst_s``)."""
    full_packet_ns = serialisation_ns(world.payload_bytes + world.header_bytes, link.ns_per_byte_q20)
    burst_ns = _BURST_NS if full_packet_ns < _BURST_NS else full_packet_ns // 10
    begins_ns = max(link.busy_until_ns, now_ns - burst_ns)
    return int(begins_ns + serialisation_ns(size_bytes, link.ns_per_byte_q20))


@njit(forceinline=True)
def queue_bucket(drain_ns: int) -> int:
    """Return the histogram bucket of a queue's drain time."""
    octave = 0
    while drain_ns >= 2 * _SUB_BUCKETS:
        drain_ns >>= 1
        octave += 1
    return octave * _SUB_BUCKETS + drain_ns


@njit
def sample_queues(world: Any, now_ns: int, extras: Any) -> None:
    """Add every non-empty queue to its link's histogram; the remaining samples are empty queues."""
    world.queue_samples += 1
    if extras is None and world.wheel_slots == 0:
        # A link with a queue has an event, and large networks have fewer events than links.
        for leaf in range(world.n_leaves):
            link_id = entry_at(world.tournament, world.first_leaf + leaf).key & SOURCE_MASK
            if link_id < world.n_links:
                note_queue(world, link_id, max(link_at(world.links, link_id).busy_until_ns - now_ns, 0))
        return
    for link_id in range(world.n_links):
        link = link_at(world.links, link_id)
        drain_ns = max(link.busy_until_ns - now_ns, 0)
        if world.n_classes:
            port = port_at(world.ports, link_id)
            drain_ns += serialisation_ns(port.queued_bytes - port.sending_bytes, link.ns_per_byte_q20)
        if world.rates_change:
            drain_ns = int(drain_ns * port_at(world.ports, link_id).drain_scale)
        note_queue(world, link_id, drain_ns)


@njit(forceinline=True)
def note_queue(world: Any, link_id: int, drain_ns: int) -> None:
    """Add a queue to its link's histogram unless it is empty."""
    if drain_ns > 0:
        bucket = min(queue_bucket(drain_ns), QUEUE_BUCKETS - 1)
        bucket_at(world.queue_histogram, link_id * QUEUE_BUCKETS + bucket).samples += 1
