"""The event heap: which link, host or timer is next.

An event is one int64: time in ns above, who is concerned in the low 20 bits. A link enters the heap once,
with the arrival of its first packet, however many follow it: the heap's size is bounded by links plus hosts,
and equal times are ordered by source, which makes a run deterministic.
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
"""About 2.4 hours of simulated time."""

NO_EVENT = np.int64(2**63 - 1)
"""In the heap's unused entries: after every event. A time that never comes would lie before the last ones."""

# Sources are numbered links first, then hosts, then these.
FLOW_START = 0
TIMER_TICK = 1
SAMPLE_TICK = 2
TRANSPORT_TICK = 3
N_CLOCKS = 4

# In the extended loop sources of flows and ports follow: two a flow, then one a link.
FLOW_SENDS = 0
RECEIVER_ACKS = 1
SOURCES_PER_FLOW = 2


@njit(forceinline=True)
def event_key(time_ns: int, source: int) -> int:
    """Packs a time and its source into one ordered integer."""
    return (time_ns << SOURCE_BITS) | source


@njit(forceinline=True)
def flow_source(world: Any, flow_id: int, what: int) -> int:
    """The source of a flow's own events (extended loop)."""
    return world.n_links + world.n_hosts + N_CLOCKS + SOURCES_PER_FLOW * flow_id + what


@njit(forceinline=True)
def port_source(world: Any, link_id: int) -> int:
    """The source of a port's ends of transmission (extended loop, lossless queues)."""
    return flow_source(world, world.n_flows, 0) + link_id


@njit
def sift_down(world: Any, size: int, key: int) -> None:
    """Puts ``key`` at the root and lets it sink to its place.

    Which of two children is smaller cannot be predicted, so it is computed, not branched on. Unused entries
    hold NO_EVENT, so a right child always exists.
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
    """Adds an event.

    While an event is handled its own entry at the root is stale; the first push takes that place, which saves
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
    """Removes the handled event if no push has taken its place."""
    if world.root_is_stale:
        world.root_is_stale = 0
        size = world.heap_size - 1
        world.heap_size = size
        last = entry_at(world.heap, size)
        last_key = last.key
        last.key = NO_EVENT
        if size > 0:
            sift_down(world, size, last_key)
