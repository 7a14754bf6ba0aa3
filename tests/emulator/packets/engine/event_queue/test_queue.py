"""The event queue, with and without a wheel, against a dictionary of each source's next event."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from sysgym.emulator.packets.engine.event_queue import wheel
from sysgym.emulator.packets.engine.event_queue.queue import next_key, push, replace, take
from sysgym.emulator.packets.engine.event_queue.tournament import has_event, new_tournament, remove
from sysgym.emulator.packets.engine.event_queue.wheel import new_wheel
from sysgym.emulator.packets.engine.events import NO_EVENT, SOURCE_BITS, SOURCE_MASK, event_key
from sysgym.emulator.packets.memory.flow_record import FLOW
from sysgym.emulator.packets.memory.records import LINK, NOBODY, PACKET, SEGMENT, WORLD, world_at
from tests.emulator.packets.engine.event_queue.tournament_check import check_tournament

N_SOURCES = 70
SLOTS = 64


@njit
def _handle(address: Any, follower: Any, pushed: Any) -> Any:
    """Handle the next event; its source has the event ``follower`` next, other sources those ``pushed``."""
    world = world_at(address, 0)
    key = next_key(world)
    if key == NO_EVENT:
        return key
    source = key & SOURCE_MASK
    take(world, source)
    next_of_source: Any = NO_EVENT if follower == NO_EVENT else key + (follower << SOURCE_BITS)
    replace(world, source, next_of_source)
    for index in range(len(pushed)):
        push(world, pushed[index])
    return key


@njit
def _start(address: Any) -> None:
    wheel.start(world_at(address, 0))


@njit
def _stop(address: Any) -> None:
    wheel.stop(world_at(address, 0))


@njit
def _cancel(address: Any, source: Any) -> Any:
    world = world_at(address, 0)
    there = has_event(world, source)
    remove(world, source)
    return there


class Queue:
    """A queue of some events, in a world without packets."""

    def __init__(self, first: int, shift: int | None) -> None:
        self.world = np.zeros(1, WORLD)
        size = 0 if shift is None else SLOTS
        self.tournament = new_tournament(self.world, np.array([first], np.int64), N_SOURCES)
        links, packets = np.zeros(1, LINK), np.zeros(1, PACKET)
        links["head"] = packets["next"] = NOBODY
        arrays = {
            **self.tournament._asdict(),
            **new_wheel(size, N_SOURCES)._asdict(),
            "links": links,
            "packets": packets,
            "routes": np.full(2, NOBODY, np.int32),
            "segments": np.zeros(1, SEGMENT),
            "flows": np.zeros(1, FLOW),
        }
        for name, array in arrays.items():
            self.world[name] = array.ctypes.data
        self._arrays = arrays
        values = {"n_links": 1, "wheel_size": size, "wheel_shift": SOURCE_BITS + (shift or 0)}
        for name, value in values.items():
            self.world[name] = value
        self.address = self.world.ctypes.data
        self.has_wheel = size > 0

    def start(self) -> None:
        if self.has_wheel:
            _start(self.address)

    def stop(self) -> None:
        if self.has_wheel:
            _stop(self.address)

    def check(self, model: dict[int, int]) -> None:
        """Check that its events are those of a dictionary, in ns by source, while it is stopped."""
        check_tournament(self.world, *self.tournament)
        nodes = self.tournament.tournament[int(self.world["first_leaf"][0]) :]
        keys = sorted(event_key(time_ns, source) for source, time_ns in model.items())
        assert np.sort(nodes[nodes != NO_EVENT]).tolist() == keys


after_ns = st.one_of(st.integers(0, 20), st.integers(0, 3_000), st.integers(0, 10**7))
sources = st.integers(0, N_SOURCES - 1)
step = st.tuples(
    st.one_of(st.none(), after_ns),  # until the next event of the source that is handled
    st.lists(st.tuples(after_ns, sources), max_size=4),
    st.one_of(st.none(), sources),  # the loop stops, and this source's event is taken away
)


@pytest.mark.parametrize("shift", [None, 0, 3, 9], ids=["tournament", "1 ns", "8 ns", "512 ns"])
@settings(deadline=None)
@given(first=sources, steps=st.lists(step, max_size=60))
def test_events_come_in_order(shift: int | None, first: int, steps: list[Any]) -> None:
    queue = Queue(event_key(0, first), shift)
    model = {first: 0}  # source: time in ns
    queue.start()
    for follower_ns, pushed, cancelled in steps:
        now_ns, source = min(((time_ns, source) for source, time_ns in model.items()), default=(-1, -1))
        model.pop(source, None)
        if source >= 0 and follower_ns is not None:
            model[source] = now_ns + follower_ns
        new = {other: now_ns + after for after, other in pushed if other not in model} if source >= 0 else {}
        model |= new
        keys = np.array([event_key(time_ns, other) for other, time_ns in new.items()], np.int64)
        handled = _handle(queue.address, NO_EVENT if follower_ns is None else follower_ns, keys)
        assert handled == (event_key(now_ns, source) if source >= 0 else NO_EVENT)
        if cancelled is not None:
            queue.stop()
            assert _cancel(queue.address, cancelled) == (model.pop(cancelled, None) is not None)
            queue.check(model)
            queue.start()
    queue.stop()
    queue.check(model)
