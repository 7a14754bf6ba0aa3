"""The event loop of the packet simulator, compiled once and cached.

Transports enter as addresses of compiled callbacks, so a user's transport needs no new compilation of the
loop.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

from sysgym.emulator.packets.events import (
    FLOW_START,
    MAX_TIME_NS,
    SAMPLE_TICK,
    SOURCE_BITS,
    SOURCE_MASK,
    TIMER_TICK,
    drop_stale_root,
    event_key,
    push,
)
from sysgym.emulator.packets.hosts import check_timers, receive_ack, serve, start_flows
from sysgym.emulator.packets.layout import (
    NEVER_NS,
    NOBODY,
    PACKET_IS_ACK,
    entry_at,
    host_at,
    link_at,
    packet_at,
    world_at,
)
from sysgym.emulator.packets.ports import enqueue, integrate_backlog, route_link, sample_queues
from sysgym.emulator.packets.receiver import receive_data


@njit
def arrive(world: Any, link_id: int, now_ns: int) -> None:
    """The first packet on a link reaches its far end: on to the next link, or to the host."""
    link = link_at(world.links, link_id)
    slot = link.head
    packet = packet_at(world.packets, slot)
    link.head = packet.next
    if packet.next != NOBODY:
        push(world, event_key(packet_at(world.packets, packet.next).arrival_ns, link_id))
    is_ack = packet.flags & PACKET_IS_ACK
    packet.hop += 1
    next_link_id = route_link(world, packet.flow, is_ack, packet.hop)
    if next_link_id != NOBODY:
        enqueue(world, next_link_id, slot, now_ns)
    elif is_ack:
        receive_ack(world, slot, now_ns)
    else:
        receive_data(world, slot, now_ns)


@njit
def strike(world: Any, clock: int, now_ns: int) -> None:
    """One of the world's own clocks: flows that start, time-outs, queue samples."""
    source = world.n_links + world.n_hosts + clock
    if clock == FLOW_START:
        next_ns = start_flows(world, now_ns)
        if next_ns <= MAX_TIME_NS:
            push(world, event_key(next_ns, source))
    elif clock == TIMER_TICK:
        check_timers(world, now_ns)
        push(world, event_key(now_ns + world.timer_tick_ns, source))
    elif clock == SAMPLE_TICK:
        sample_queues(world, now_ns)
        push(world, event_key(now_ns + world.sample_tick_ns, source))


def _source_digest() -> str:
    """Digest of the compiled sources.

    numba's cache looks only at the file of the cached function; the digest, a constant of that function,
    makes the cache follow the other files too.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _compiled_entry_points(
    source_digest: str,
) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Compiles lazily, on the first call of each."""

    @njit(nogil=True, cache=True)
    def run_until(world_address: int, until_ns: int) -> bool:
        """Handles every event before ``until_ns``; False if the packet pool has to grow first."""
        source_digest  # noqa: B018  (part of the cache key)
        world = world_at(world_address, 0)
        n_links = world.n_links
        n_links_and_hosts = n_links + world.n_hosts
        hops = 0
        while world.heap_size > 0 and world.out_of_packets == 0:
            key = entry_at(world.heap, 0).key
            now_ns = key >> SOURCE_BITS
            if now_ns >= until_ns:
                break
            world.now_ns = now_ns
            world.root_is_stale = 1
            source = key & SOURCE_MASK
            if source < n_links:
                hops += 1
                arrive(world, source, now_ns)
            elif source < n_links_and_hosts:
                serve(world, source - n_links, now_ns)
            else:
                strike(world, source - n_links_and_hosts, now_ns)
            drop_stale_root(world)
        world.hops += hops
        if world.out_of_packets:
            return False
        world.now_ns = until_ns
        for link_id in range(n_links):
            integrate_backlog(link_at(world.links, link_id), until_ns)
        return True

    @njit(nogil=True, cache=True)
    def resume_senders(world_address: int) -> None:
        """Lets every host send again after the packet pool has grown."""
        source_digest  # noqa: B018
        world = world_at(world_address, 0)
        world.out_of_packets = 0
        for host_id in range(world.n_hosts):
            if host_at(world.hosts, host_id).awake == 0:
                serve(world, host_id, world.now_ns)

    @njit(nogil=True, cache=True)
    def cap_hosts(world_address: int, cap_ns_per_byte_q20: Any) -> None:
        """Sets every host's rate cap (0: none); it holds from the next packet on.

        A host whose cap stays what it was is left alone: setting the same cap again changes nothing.
        """
        source_digest  # noqa: B018
        world = world_at(world_address, 0)
        forget_changing_hosts(world, cap_ns_per_byte_q20)
        for host_id in range(world.n_hosts):
            host = host_at(world.hosts, host_id)
            if host.cap_ns_per_byte_q20 != cap_ns_per_byte_q20[host_id]:
                host.cap_ns_per_byte_q20 = cap_ns_per_byte_q20[host_id]
                serve(world, host_id, world.now_ns)

    return run_until, resume_senders, cap_hosts


@njit
def forget_changing_hosts(world: Any, cap_ns_per_byte_q20: Any) -> None:
    """Removes from the event heap the entries of hosts whose cap is about to change."""
    n_entries = world.heap_size
    world.heap_size = 0
    for entry in range(n_entries):
        key = entry_at(world.heap, entry).key
        entry_at(world.heap, entry).key = NEVER_NS
        source = key & SOURCE_MASK
        host_id = source - world.n_links
        if (
            host_id < 0
            or host_id >= world.n_hosts
            or host_at(world.hosts, host_id).cap_ns_per_byte_q20 == cap_ns_per_byte_q20[host_id]
        ):
            push(world, key)


run_until, resume_senders, cap_hosts = _compiled_entry_points(_source_digest())
