from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.topology.max_min_fairness import max_min_rates
from sysgym.emulator.packets.topology.routing import ecmp_routes
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.congestion import DumbbellTopology, FatTreeTopology

INF = float("inf")
TOLERANCE = 1e-9
"""Relative; rounding adds up over the flows of a link."""


def padded(routes: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    longest = max((len(route) for route in routes), default=0)
    return np.array([[*route, *[-1] * (longest - len(route))] for route in routes], dtype=np.int32).reshape(
        len(routes), longest
    )


def rates(
    routes: Sequence[Sequence[int]], capacity_bps: Sequence[float], demand_bps: Sequence[float] | None = None
) -> list[float]:
    demand = None if demand_bps is None else np.array(demand_bps)
    found = max_min_rates(padded(routes), np.array(capacity_bps, dtype=np.float64), demand)
    assert found.dtype == np.float64
    return list(found)


# Solved by hand.


def test_one_link_is_shared_equally() -> None:
    assert rates([[0]] * 4, [10.0]) == [2.5] * 4


def test_parking_lot() -> None:
    # One flow over three equal links, one flow on each: the long flow gets as much as the short ones.
    assert rates([[0, 1, 2], [0], [1], [2]], [1.0, 1.0, 1.0]) == [0.5] * 4


def test_what_a_bottleneck_leaves_goes_to_the_others() -> None:
    # Link 0 of 10 gives A and B 5 each; link 1 of 20 has 15 left for C.
    assert rates([[0, 1], [0], [1]], [10.0, 20.0]) == [5.0, 5.0, 15.0]


def test_three_levels() -> None:
    # Link 0: 3 flows at 2. Link 1: of 12 two are spent, 2 flows at 5. Link 2: of 30 a 2 and a 5 are spent.
    routes = [[0], [0, 1], [0, 2], [1], [1, 2], [2]]
    assert rates(routes, [6.0, 12.0, 30.0]) == [2.0, 2.0, 2.0, 5.0, 5.0, 23.0]


def test_demands_of_one_link() -> None:
    # The usual textbook instance: 2 and 2.6 are met, the others share the remaining 5.4.
    np.testing.assert_allclose(
        rates([[0]] * 4, [10.0], [2.0, 2.6, 4.0, 5.0]), [2.0, 2.6, 2.7, 2.7], rtol=1e-15
    )


def test_demands_free_capacity_elsewhere() -> None:
    # A wants 1, so B gets 9 of link 0, and C 19 of link 1.
    assert rates([[0, 1], [0], [1]], [10.0, 20.0], [1.0, INF, INF]) == [1.0, 9.0, 19.0]


def test_order_of_the_flows_does_not_matter_to_demands() -> None:
    assert rates([[0], [0], [0]], [12.0], [INF, 1.0, 7.0]) == [5.5, 1.0, 5.5]


def test_demands_above_the_share_change_nothing() -> None:
    assert rates([[0]] * 2, [10.0], [5.0, 1e12]) == [5.0, 5.0]


def test_a_flow_that_wants_nothing_gets_nothing() -> None:
    assert rates([[0], [0]], [10.0], [0.0, INF]) == [0.0, 10.0]


def test_a_dead_link_stops_its_flows_only() -> None:
    assert rates([[0, 1], [1], [1]], [0.0, 10.0]) == [0.0, 5.0, 5.0]


def test_flows_that_nothing_limits_are_infinitely_fast() -> None:
    assert rates([[0], [0, 1], [], []], [INF, 8.0], [INF, INF, INF, 3.0]) == [INF, 8.0, INF, 3.0]


def test_no_flows() -> None:
    assert max_min_rates(np.empty((0, 0), dtype=np.int32), np.ones(3)).shape == (0,)
    assert max_min_rates(np.empty((0, 4), dtype=np.int32), np.ones(3), np.empty(0)).shape == (0,)


def test_the_core_of_a_dumbbell_is_shared() -> None:
    topology = build_topology(
        DumbbellTopology(kind="dumbbell", hosts_per_side=4, link_rate_bps=1e9, link_delay_s=0.0)
    )
    routes = ecmp_routes(topology, [0, 1, 2, 3, 0], [4, 5, 6, 7, 1], [1, 2, 3, 4, 5], [9] * 5)
    # Four flows share the core of 1 Gb/s; the fifth stays west and has what is left of host 0's uplink.
    np.testing.assert_allclose(
        max_min_rates(routes, topology.link_rate_bps), [0.25e9] * 4 + [0.75e9], rtol=1e-15
    )


def test_incast_shares_the_receivers_link() -> None:
    topology = build_topology(FatTreeTopology(kind="fat_tree", k=4, link_rate_bps=1e10, link_delay_s=0.0))
    senders = np.arange(1, 16)
    routes = ecmp_routes(topology, senders, np.zeros(15, dtype=np.int64), senders, senders)
    found = max_min_rates(routes, topology.link_rate_bps)
    assert found.sum() == pytest.approx(1e10)
    # ECMP may put many flows on one link inside, but all of them share the receiver's link, too.
    np.testing.assert_allclose(found, 1e10 / 15)


# The definition, on anything.


def check_max_min(
    routes: NDArray[np.int32], capacity_bps: NDArray[np.float64], demand_bps: NDArray[np.float64]
) -> None:
    """No link is overloaded, every flow is at its demand or has a bottleneck: only one allocation is so."""
    found = max_min_rates(routes, capacity_bps, demand_bps)
    load_bps, fastest_bps = np.zeros(len(capacity_bps)), np.zeros(len(capacity_bps))
    for route, rate in zip(routes, found, strict=True):
        np.add.at(load_bps, route[route >= 0], rate)
        np.maximum.at(fastest_bps, route[route >= 0], rate)
    slack = 1.0 + TOLERANCE
    assert np.all(found >= 0.0)
    assert np.all(load_bps <= capacity_bps * slack)
    assert np.all(found <= demand_bps * slack)
    full = load_bps * slack >= capacity_bps
    for route, rate, demand in zip(routes, found, demand_bps, strict=True):
        links = route[route >= 0]
        has_bottleneck = np.any(full[links] & (rate * slack >= fastest_bps[links]))
        assert has_bottleneck or rate * slack >= demand


@st.composite
def instances(
    draw: st.DrawFn, capacity: st.SearchStrategy[float]
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    n_links = draw(st.integers(1, 8))
    route = st.lists(st.integers(0, n_links - 1), min_size=1, max_size=4, unique=True)
    routes = draw(st.lists(route, max_size=25))
    capacity_bps = draw(st.lists(capacity, min_size=n_links, max_size=n_links))
    demand = st.one_of(st.just(INF), st.just(0.0), capacity)
    demand_bps = draw(st.lists(demand, min_size=len(routes), max_size=len(routes)))
    return padded(routes), np.array(capacity_bps), np.array(demand_bps)


WHOLE = st.integers(0, 12).map(float)
"""Many ties, and dead links."""
RATES = st.floats(1e3, 1.6e12)


@given(instance=st.one_of(instances(WHOLE), instances(RATES)))
@settings(max_examples=300, deadline=None)
def test_every_flow_meets_its_demand_or_has_a_bottleneck(
    instance: tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]],
) -> None:
    routes, capacity_bps, demand_bps = instance
    check_max_min(routes, capacity_bps, demand_bps)
    check_max_min(routes, capacity_bps, np.full(len(routes), INF))


@given(instance=instances(RATES), data=st.data())
@settings(max_examples=100, deadline=None)
def test_names_of_flows_and_links_do_not_matter(
    instance: tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]], data: st.DataObject
) -> None:
    routes, capacity_bps, demand_bps = instance
    found = max_min_rates(routes, capacity_bps, demand_bps)
    order = np.array(data.draw(st.permutations(range(len(routes)))), dtype=np.int64)
    name = np.array(data.draw(st.permutations(range(len(capacity_bps)))), dtype=np.int32)
    renamed = np.where(routes >= 0, name[routes], -1).astype(np.int32)
    again = max_min_rates(renamed[order], capacity_bps[np.argsort(name)], demand_bps[order])
    np.testing.assert_allclose(again, found[order], rtol=TOLERANCE)


@pytest.mark.parametrize("k", [4, 8])
def test_random_traffic_on_a_fat_tree(k: int) -> None:
    topology = build_topology(FatTreeTopology(kind="fat_tree", k=k, link_rate_bps=1e10, link_delay_s=0.0))
    rng = np.random.default_rng(k)
    src = rng.integers(0, topology.n_hosts, 500)
    dst = (src + rng.integers(1, topology.n_hosts, 500)) % topology.n_hosts
    routes = ecmp_routes(topology, src, dst, rng.integers(0, 2**16, 500), np.full(500, 5001))
    check_max_min(routes, topology.link_rate_bps, np.full(500, INF))
    check_max_min(routes, topology.link_rate_bps, rng.exponential(2e9, 500))


def test_the_arguments_are_left_alone() -> None:
    routes, capacity_bps, demand_bps = padded([[0, 1], [0]]), np.array([3.0, 1.0]), np.array([9.0, 9.0])
    max_min_rates(routes, capacity_bps, demand_bps)
    assert routes.tolist() == [[0, 1], [0, -1]]
    assert capacity_bps.tolist() == [3.0, 1.0]
    assert demand_bps.tolist() == [9.0, 9.0]


@pytest.mark.parametrize(
    ("routes", "capacity_bps", "demand_bps", "reason"),
    [
        ([[2]], [1.0, 1.0], None, "links from 2 to 2"),
        ([[-2]], [1.0, 1.0], None, "links from -2"),
        ([[0]], [-1.0], None, "negative"),
        ([[0]], [float("nan")], None, "not a number"),
        ([[0]], [1.0], [-1.0], "negative"),
        ([[0]], [1.0], [float("nan")], "not a number"),
        ([[0]], [1.0], [1.0, 2.0], "demands"),
        ([0], [1.0], None, "shape"),
    ],
)
def test_impossible_instances_are_refused(
    routes: list[list[int]], capacity_bps: list[float], demand_bps: list[float] | None, reason: str
) -> None:
    demand = None if demand_bps is None else np.array(demand_bps)
    with pytest.raises(SysgymError, match=reason):
        max_min_rates(np.array(routes, dtype=np.int32), np.array(capacity_bps), demand)
