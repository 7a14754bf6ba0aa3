"""Invariants of the tournament of events."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysgym.emulator.packets.engine.event_queue.tournament import ROOT
from sysgym.emulator.packets.engine.events import NO_EVENT, SOURCE_MASK
from sysgym.emulator.packets.memory.records import NOBODY


def check_tournament(world: Any, nodes: Any, leaf_of: Any, free_leaves: Any) -> None:
    """Check that every node has the least of its children, and that every leaf is one event's or free."""
    first, n_leaves, n_events = (int(world[name][0]) for name in ("first_leaf", "n_leaves", "n_events"))
    children = np.arange(ROOT, first)[:, None] * 4 - 8 + np.arange(4)
    assert np.array_equal(nodes[ROOT:first], nodes[children].min(axis=1)), "a node is not the least"
    leaves = nodes[first : first + n_leaves]
    used = np.flatnonzero(leaves != NO_EVENT)
    assert len(used) == n_events
    assert np.array_equal(leaf_of[leaves[used] & SOURCE_MASK], used), "an event is not its source's"
    assert np.count_nonzero(leaf_of != NOBODY) == n_events
    every_leaf = np.concatenate([used, free_leaves[n_events:]])
    assert np.array_equal(np.sort(every_leaf), np.arange(len(free_leaves))), "a leaf is lost"
