"""The tournament of events: nodes, leaves and growth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from sysgym.emulator.packets.engine.event_queue.tournament import ROOT, add, new_tournament, remove, shrink
from sysgym.emulator.packets.engine.events import NO_EVENT, SOURCE_BITS, SOURCE_MASK
from sysgym.emulator.packets.memory.records import WORLD, world_at
from tests.emulator.packets.engine.event_queue.tournament_check import check_tournament


@njit
def _add(address: Any, key: Any) -> None:
    add(world_at(address, 0), key & SOURCE_MASK, key)


@njit
def _remove(address: Any, source: Any) -> None:
    remove(world_at(address, 0), source)


@njit
def _shrink(address: Any) -> None:
    shrink(world_at(address, 0))


@pytest.mark.parametrize("n_sources", [1, 4, 5, 16, 17, 70, 300, 5000])
def test_every_node_has_the_least_of_its_children(n_sources: int) -> None:
    rng = np.random.default_rng(n_sources)
    sources = rng.permutation(n_sources)[: max(n_sources // 2, 1)]
    keys = rng.integers(0, 10**6, len(sources)) << SOURCE_BITS | sources
    world = np.zeros(1, WORLD)
    arrays = new_tournament(world, keys, n_sources)
    assert arrays.tournament[ROOT] == keys.min()
    check_tournament(world, *arrays)


@pytest.mark.parametrize("n_sources", [1, 17])
def test_without_events_the_root_has_none(n_sources: int) -> None:
    world = np.zeros(1, WORLD)
    arrays = new_tournament(world, np.array([], np.int64), n_sources)
    assert arrays.tournament[ROOT] == NO_EVENT
    check_tournament(world, *arrays)


def test_it_grows_with_its_events_and_forgets_those_that_are_removed() -> None:
    n_sources = 300
    world = np.zeros(1, WORLD)
    arrays = new_tournament(world, np.array([], np.int64), n_sources)
    for name, array in arrays._asdict().items():
        world[name] = array.ctypes.data
    order = np.random.default_rng(0).permutation(n_sources)
    for n, source in enumerate(order, 1):
        _add(world.ctypes.data, int(source) * 7 % 101 << SOURCE_BITS | int(source))
        assert world["n_events"][0] == n
        check_tournament(world, *arrays)
    assert world["n_leaves"][0] == 1024
    for source in order:
        _remove(world.ctypes.data, int(source))
        _remove(world.ctypes.data, int(source))  # has none any more
        check_tournament(world, *arrays)
    assert arrays.tournament[ROOT] == NO_EVENT


@pytest.mark.parametrize(
    ("n_events", "n_leaves"), [(0, 4), (1, 4), (2, 4), (3, 16), (8, 16), (9, 64), (40, 256)]
)
def test_it_shrinks_to_the_events_that_are_left(n_events: int, n_leaves: int) -> None:
    n_sources = 300
    world = np.zeros(1, WORLD)
    keys = np.random.default_rng(1).permutation(n_sources) << SOURCE_BITS | np.arange(n_sources)
    arrays = new_tournament(world, keys, n_sources)
    for name, array in arrays._asdict().items():
        world[name] = array.ctypes.data
    for source in range(n_sources - n_events):
        _remove(world.ctypes.data, source)
    for _ in range(2):
        _shrink(world.ctypes.data)
        assert world["n_leaves"][0] == n_leaves
        check_tournament(world, *arrays)
    left = keys[n_sources - n_events :]
    assert arrays.tournament[ROOT] == min(left, default=NO_EVENT)
    for source in range(n_sources - n_events):
        _add(world.ctypes.data, int(keys[source]))
    check_tournament(world, *arrays)
    assert arrays.tournament[ROOT] == keys.min()
