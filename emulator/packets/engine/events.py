"""Event heap of the packet simulator.

An event is one int64: the time in ns in the high bits, the source (a link, host or timer) in the low 20 bits.
A link has at most one entry, for the arrival of its first packet, however many packets follow it. The heap's
size is therefore bounded by links plus hosts. Equal times are ordered by source, so a run is deterministic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from sysgym.emulator.packets.memory.records import entry_at

SOURCE_BITS = 20
SOURCE_MASK = (1 << SOURCE_BITS) - 1
MAX_SOURCES = 1 << SOURCE_BITS
MAX_TIME_NS = (1 << (63 - SOURCE_BITS)) - 1
"""Largest simulated time, about 2.4 hours."""

NO_EVENT = np.int64(2**63 - 1)
"""Key of unused heap entries, which sorts after every event; NEVER_NS would sort before the last ones."""

# Sources are numbered in this order: links, hosts, then the sources below.
FLOW_START = 0
TIMER_TICK = 1
SAMPLE_TICK = 2
TRANSPORT_TICK = 3
N_CLOCKS = 4

# In the extended loop, three sources per flow, one per link (its port) and one per host (its pulls) follow.
FLOW_SENDS = 0
RECEIVER_ACKS = 1
RECEIVER_GATHERS = 2
SOURCES_PER_FLOW = 3


@njit(forceinline=True)
def event_key(time_ns: int, source: int) -> int:
    """Return a time and its source packed into one ordered integer."""
    return (time_ns << SOURCE_BITS) | source


@njit(forceinline=True)
def flow_source(world: Any, flow_id: int, what: int) -> int:
    """Return the source of a flow's own events (extended loop)."""
    return world.n_links + world.n_hosts + N_CLOCKS + SOURCES_PER_FLOW * flow_id + what


@njit(forceinline=True)
def port_source(world: Any, link_id: int) -> int:
    """Return the source of a port's end-of-transmission events (extended loop, queues that are lists)."""
    return flow_source(world, world.n_flows, 0) + link_id


@njit(forceinline=True)
def pull_source(world: Any, host_id: int) -> int:
    """Return the source of a host's clock of pulls (extended loop, receiver-driven transports)."""
    return flow_source(world, world.n_flows, 0) + world.n_links + host_id


def extended_sources(n_links: int, n_hosts: int, n_flows: int) -> int:
    """Return the number of sources of events in the extended loop."""
    return n_links + n_hosts + N_CLOCKS + SOURCES_PER_FLOW * n_flows + n_links + n_hosts


@njit
def sift_down(world: Any, size: int, key: int) -> None:
    """Put ``key`` at the root and sift it down to its place.

    The smaller of two children is computed without a branch, because the branch would be unpredictable.
    Unused entries hold NO_EVENT, so a right child always exists.
    """
    heap = world.heap
    parent = 0
    child = 1
    while child < size:
        left_key = entry_at(heap, child).key
        right_key = entry_at(heap, child + 1).key
        child += int(right_key < left_key)
        child_key = min(left_key, right_key)
        if child_key >= key:
            break
        entry_at(heap, parent).key = child_key
        parent = child
        child = 2 * parent + 1
    entry_at(heap, parent).key = key


@njit
def push(world: Any, key: int) -> None:
    """Add an event.

    While an event is handled, its own entry at the root is stale. The first push replaces it, which saves
    the removal.
    """
    if world.root_is_stale:
        world.root_is_stale = 0
        sift_down(world, world.heap_size, key)
        return
    heap = world.heap
    child = world.heap_size
    world.heap_size = child + 1
    while child > 0:
        parent = (child - 1) >> 1
        parent_key = entry_at(heap, parent).key
        if parent_key <= key:
            break
        entry_at(heap, child).key = parent_key
        child = parent
    entry_at(heap, child).key = key


@njit
def drop_stale_root(world: Any) -> None:
    """Remove the handled event if no push has taken its place."""
    if world.root_is_stale:
        world.root_is_stale = 0
        size = world.heap_size - 1
        world.heap_size = size
        last = entry_at(world.heap, size)
        last_key = last.key
        last.key = NO_EVENT
        if size > 0:
            sift_down(world, size, last_key)
