"""The yardstick: conservation of packets, and one event per hop; its speed is not tested."""

from __future__ import annotations

import numpy as np
import pytest

from sysgym.perf import yardstick
from sysgym.perf.yardstick import LINKS_OF_ROUTE, RING_PACKETS, Dumbbell, advance, dumbbell

MILLISECOND_NS = 1e6


def _after(n_flows: int, until_ns: float, slices: int = 1) -> Dumbbell:
    world = dumbbell(n_flows)
    for done in range(1, slices + 1):
        advance(world, until_ns * done / slices)
    return world


def _held(world: Dumbbell) -> list[tuple[int, int]]:
    """Link and place of every packet on the way."""
    return [
        (link, (world.first[link] + ahead) % RING_PACKETS)
        for link in range(len(world.held))
        for ahead in range(world.held[link])
    ]


@pytest.mark.parametrize("n_flows", [1, 4, 16, 64])
@pytest.mark.parametrize("until_ns", [0.2 * MILLISECOND_NS, 5 * MILLISECOND_NS])
def test_every_packet_is_somewhere_and_hops_are_packets_times_their_paths(
    n_flows: int, until_ns: float
) -> None:
    world = _after(n_flows, until_ns)
    on_the_way = np.zeros((2 * n_flows,), np.int64)
    hops = LINKS_OF_ROUTE * int(world.expected.sum() + world.acked.sum())
    for link, place in _held(world):
        stream, leg = world.streams[link, place], world.legs[link, place]
        assert world.route[stream, leg] == link
        on_the_way[stream] += 1
        hops += int(leg)
    assert world.drops.sum() == 0
    assert (world.sent == world.expected + on_the_way[:n_flows]).all()
    assert (world.expected == world.acked + on_the_way[n_flows:]).all()
    assert world.clock[0] == hops
    assert world.acked.min() > 0


@pytest.mark.parametrize("n_flows", [4, 64])
def test_the_heap_holds_each_link_with_packets_once_in_order(n_flows: int) -> None:
    world = _after(n_flows, 3 * MILLISECOND_NS)
    size = int(world.clock[1])
    links = world.heap_link[:size]
    assert sorted(links) == list(np.flatnonzero(world.held))
    assert (world.heap_key[:size] == world.arrivals[links, world.first[links]]).all()
    assert (world.heap_place[links] == np.arange(size)).all()
    children = np.arange(1, size)
    assert (world.heap_key[(children - 1) // 2] <= world.heap_key[children]).all()


def test_slices_do_what_one_call_does() -> None:
    whole, sliced = _after(16, 4 * MILLISECOND_NS), _after(16, 4 * MILLISECOND_NS, slices=7)
    for name, array, other in zip(Dumbbell._fields, whole, sliced, strict=True):
        assert np.array_equal(array, other), name


@pytest.mark.parametrize("n_flows", [4, 16])
def test_the_bottleneck_is_full_and_marks(n_flows: int) -> None:
    """10 Gb/s are 833 packets a millisecond; only queues before a link that is full can mark."""
    early, late = _after(n_flows, 5 * MILLISECOND_NS), _after(n_flows, 10 * MILLISECOND_NS)
    delivered = int((late.expected - early.expected).sum())
    assert delivered == pytest.approx(5 * MILLISECOND_NS * 1.25 / 1500.0, abs=1)
    assert np.flatnonzero(late.marks - early.marks).tolist() == [n_flows]
    assert ((late.fraction > 0.0) & (late.fraction < 1.0)).all()


def test_a_link_without_room_drops() -> None:
    world = dumbbell(2)
    world.room[:] = 8 * yardstick.DATA_BYTES
    advance(world, 0.05 * MILLISECOND_NS)
    in_rings = sum(1 for link, place in _held(world) if world.streams[link, place] < 2)
    assert world.drops[:2].tolist() == [2, 2]
    assert world.sent.sum() == world.expected.sum() + in_rings + world.drops.sum()
