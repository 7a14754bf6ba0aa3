"""Event queue of the packet simulator: a tournament tree of pending events.

Every event has a leaf with its key; unused leaves hold NO_EVENT. Every inner node holds the least key of its
four children, so the root holds the next event. Removal of an event takes one comparison of four keys per
level, whatever the keys are. Processors predict this well, unlike the depth to which a key sinks in a heap.
The four children lie in one cache line.

The leaf freed last is used first, so the leaves in use stay few and close together in a large network with
little traffic. The tree gains a level when all leaves are in use, and loses levels when few leaves are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sysgym.emulator.packets.engine.events import NO_EVENT, SOURCE_MASK
from sysgym.emulator.packets.memory.records import NOBODY, entry_at, index_at
from sysgym.emulator.packets.memory.state import State

Records = NDArray[np.void]

ROOT = 3
"""Index of the root; the children of node ``n`` are the four from ``4 * (n - 2)`` on, an aligned group."""
SPARSE = 8
"""Number of leaves for every event at which the tree loses a level."""


class TournamentArrays(NamedTuple):
    """Arrays of a world's tournament."""

    tournament: NDArray[np.int64]  # inner nodes, then the leaves
    leaf_of: NDArray[np.int32]  # (n_sources,) leaf with the source's event, NOBODY if it has none
    free_leaves: NDArray[np.int32]  # (most leaves,) stack of the free leaves, from n_events on


def new_tournament(world: Records, keys: NDArray[np.int64], n_sources: int) -> TournamentArrays:
    """Return the tournament of some events, and write its sizes into the world's record.

    Args:
        world: The record of the world, shape (1,).
        keys: The events, at most one of each source.
        n_sources: Number of sources.
    """
    first, n_leaves = 4, 4
    while n_leaves < len(keys):
        first, n_leaves = first + n_leaves, 4 * n_leaves
    most = n_leaves
    while most < n_sources:
        most *= 4
    nodes = np.full(4 + (4 * most - 4) // 3, NO_EVENT)
    nodes[first : first + len(keys)] = keys
    world["first_leaf"], world["n_leaves"], world["n_events"] = first, n_leaves, len(keys)
    while first > ROOT + 1:
        parents, n_parents = first - n_leaves // 4, n_leaves // 4
        nodes[parents:first] = nodes[first : first + n_leaves].reshape(-1, 4).min(axis=1)
        first, n_leaves = parents, n_parents
    nodes[ROOT] = nodes[4:8].min()
    leaf_of = np.full(n_sources, NOBODY, np.int32)
    leaf_of[keys & SOURCE_MASK] = np.arange(len(keys))
    return TournamentArrays(nodes, leaf_of, np.arange(most, dtype=np.int32))


def events_in(state: State) -> NDArray[np.int64]:
    """Return the keys of all events, in the order of their sources."""
    first, n_leaves = int(state.world["first_leaf"][0]), int(state.world["n_leaves"][0])
    keys = state.tournament[first : first + n_leaves]
    keys = keys[keys != NO_EVENT]
    return keys[np.argsort(keys & SOURCE_MASK)]


@njit(forceinline=True)
def least(world: Any) -> int:
    """Return the key of the next event, NO_EVENT if there is none."""
    return int(entry_at(world.tournament, ROOT).key)


@njit(forceinline=True)
def take(world: Any, source: int) -> None:
    """Remove the event of a source, which must have one."""
    leaf = index_at(world.leaf_of, source).index
    index_at(world.leaf_of, source).index = NOBODY
    n_events = world.n_events - 1
    world.n_events = n_events
    index_at(world.free_leaves, n_events).index = leaf
    nodes = world.tournament
    node = world.first_leaf + leaf
    key = NO_EVENT
    entry_at(nodes, node).key = key
    while node > ROOT:
        # The node's own key is in a register; loading the value just stored would take longer.
        others = min(entry_at(nodes, node ^ 2).key, entry_at(nodes, node ^ 3).key)
        key = min(key, min(entry_at(nodes, node ^ 1).key, others))
        node = (node >> 2) + 2
        entry_at(nodes, node).key = key


@njit(forceinline=True)
def replace(world: Any, source: int, key: int) -> None:
    """Set the next event of the source whose event was taken last; NO_EVENT: none.

    The code has no branch, because the presence of an event is hard to predict.
    """
    n_events = world.n_events
    leaf = index_at(world.free_leaves, n_events).index
    world.n_events = n_events + int(key != NO_EVENT)
    index_at(world.leaf_of, source).index = leaf if key != NO_EVENT else NOBODY
    lower(world, leaf, key)


@njit(forceinline=True)
def add(world: Any, source: int, key: int) -> None:
    """Add an event of a source, which must have none."""
    n_events = world.n_events
    world.n_events = n_events + 1
    leaf = index_at(world.free_leaves, n_events).index
    if leaf >= world.n_leaves:
        grow(world)
    index_at(world.leaf_of, source).index = leaf
    lower(world, leaf, key)


@njit(forceinline=True)
def lower(world: Any, leaf: int, key: int) -> None:
    """Write the key of an empty leaf, and lower the nodes above it.

    The root has a branch, which processors predict well, because a new event is seldom the next one. They can
    thus begin with the next event before the key of this one is computed.
    """
    nodes = world.tournament
    node = world.first_leaf + leaf
    entry_at(nodes, node).key = key
    node = (node >> 2) + 2
    while node > ROOT:
        entry_at(nodes, node).key = min(entry_at(nodes, node).key, key)
        node = (node >> 2) + 2
    if key < entry_at(nodes, ROOT).key:
        entry_at(nodes, ROOT).key = key


@njit(forceinline=True)
def has_event(world: Any, source: int) -> bool:
    """Return whether a source has an event."""
    return bool(index_at(world.leaf_of, source).index != NOBODY)


@njit
def remove(world: Any, source: int) -> None:
    """Remove the event of a source, if it has one."""
    if has_event(world, source):
        take(world, source)


@njit
def grow(world: Any) -> None:
    """Add a level: the leaves become nodes, and four times as many leaves follow them."""
    nodes, n_leaves, first = world.tournament, world.n_leaves, world.first_leaf
    world.first_leaf, world.n_leaves = first + n_leaves, 4 * n_leaves
    for leaf in range(n_leaves):
        entry_at(nodes, world.first_leaf + leaf).key = entry_at(nodes, first + leaf).key
    compute_nodes(world)


@njit
def shrink(world: Any) -> None:
    """Remove levels if few leaves are in use; the events move to the first leaves."""
    n_leaves = world.n_leaves
    while n_leaves > 4 and world.n_events * SPARSE <= n_leaves:
        n_leaves >>= 2
    if n_leaves < world.n_leaves:
        move_to_first_leaves(world)
        lower_leaves(world, n_leaves)
        compute_nodes(world)


@njit
def move_to_first_leaves(world: Any) -> None:
    """Move all events to the first leaves."""
    leaves = world.tournament + 8 * world.first_leaf
    n_moved = 0
    for leaf in range(world.n_leaves):
        key = entry_at(leaves, leaf).key
        if key != NO_EVENT:
            entry_at(leaves, leaf).key = NO_EVENT
            entry_at(leaves, n_moved).key = key
            index_at(world.leaf_of, key & SOURCE_MASK).index = n_moved
            n_moved += 1
    for leaf in range(n_moved, world.n_leaves):
        index_at(world.free_leaves, leaf).index = leaf


@njit
def lower_leaves(world: Any, n_leaves: int) -> None:
    """Make a higher level the level of the leaves; all events must be in the first leaves."""
    nodes, old_first, old_end = world.tournament, world.first_leaf, world.first_leaf + world.n_leaves
    while world.n_leaves > n_leaves:
        world.n_leaves >>= 2
        world.first_leaf -= world.n_leaves
    for leaf in range(n_leaves):
        entry_at(nodes, world.first_leaf + leaf).key = entry_at(nodes, old_first + leaf).key
    for node in range(world.first_leaf + n_leaves, old_end):
        entry_at(nodes, node).key = NO_EVENT


@njit
def compute_nodes(world: Any) -> None:
    """Compute all nodes from the leaves."""
    nodes = world.tournament
    for node in range(world.first_leaf - 1, ROOT - 1, -1):
        child = 4 * (node - 2)
        pair = min(entry_at(nodes, child).key, entry_at(nodes, child + 1).key)
        other_pair = min(entry_at(nodes, child + 2).key, entry_at(nodes, child + 3).key)
        entry_at(nodes, node).key = min(pair, other_pair)
