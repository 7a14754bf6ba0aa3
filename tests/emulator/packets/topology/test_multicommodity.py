"""What networks can carry: closed forms, a second formulation over all paths, the simulator."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from sysgym.emulator.packets.topology import Cable, Topology, build_topology
from sysgym.emulator.packets.topology.multicommodity import (
    concurrent_flow_bound,
    equal_cost_limit,
    uniform_demands,
)
from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.congestion import CongestionScenario


def network(n_switches: int, pairs: list[tuple[int, int]], rates_bps: list[float] | None = None) -> Topology:
    """A host on every switch; its own link is never the limit."""
    rates_bps = rates_bps or [1.0] * len(pairs)
    access = [Cable(host, n_switches + host, 1e6, 0.0) for host in range(n_switches)]
    cables = [
        Cable(n_switches + one, n_switches + other, rate_bps, 0.0)
        for (one, other), rate_bps in zip(pairs, rates_bps, strict=True)
    ]
    return Topology.from_cables(
        "graph",
        host_names=[f"h{host}" for host in range(n_switches)],
        switch_names=[f"s{switch}" for switch in range(n_switches)],
        cables=access + cables,
        host_pod=range(n_switches),
    )


def over_all_paths(topology: Topology, demands: NDArray[np.float64]) -> float:
    """The same bound with a variable for each simple path."""
    n, n_links = topology.n_hosts, topology.n_links
    graph = networkx.DiGraph()
    for link in range(2 * n, n_links):
        graph.add_edge(topology.link_source[link] - n, topology.link_target[link] - n, link=link)
    pairs = [pair for pair in itertools.permutations(range(n), 2) if demands[pair] > 0.0]
    paths = [
        (index, [graph.edges[step]["link"] for step in itertools.pairwise(path)])
        for index, pair in enumerate(pairs)
        for path in networkx.all_simple_paths(graph, *pair)
    ]
    capacity = np.zeros((n_links, len(paths) + 1))
    served = np.zeros((len(pairs), len(paths) + 1))
    for column, (index, links) in enumerate(paths):
        capacity[links, column] = 1.0
        served[index, column] = 1.0
    served[:, -1] = [-demands[pair] for pair in pairs]
    target = np.append(np.zeros(len(paths)), -1.0)
    found = linprog(
        target, A_ub=capacity, b_ub=topology.link_rate_bps, A_eq=served, b_eq=np.zeros(len(pairs))
    )
    return float(found.x[-1])


def test_a_ring_whose_ends_face_each_other() -> None:
    """Four switches, two demands of one across: half goes each way, and every link has one of each."""
    ring = network(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    demands = np.zeros((4, 4))
    demands[0, 2] = demands[1, 3] = 1.0
    assert concurrent_flow_bound(ring, demands) == pytest.approx(1.0)
    assert equal_cost_limit(ring, demands) == pytest.approx(1.0)


def test_paths_that_are_longer_help_only_the_bound() -> None:
    triangle = network(3, [(0, 1), (1, 2), (2, 0)])
    demands = np.zeros((3, 3))
    demands[0, 1] = 1.0
    assert concurrent_flow_bound(triangle, demands) == pytest.approx(2.0)
    assert equal_cost_limit(triangle, demands) == pytest.approx(1.0)


@st.composite
def networks(draw: st.DrawFn) -> tuple[Topology, NDArray[np.float64]]:
    n = draw(st.integers(2, 5))
    tree = [(draw(st.integers(0, switch - 1)), switch) for switch in range(1, n)]
    others = [pair for pair in itertools.combinations(range(n), 2) if pair not in tree]
    pairs = tree + [pair for pair in others if draw(st.booleans())]
    rates_bps = draw(st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=len(pairs), max_size=len(pairs)))
    amounts = draw(st.lists(st.sampled_from([0.0, 1.0, 3.0]), min_size=n * n, max_size=n * n))
    demands = np.array(amounts).reshape(n, n)
    np.fill_diagonal(demands, 0.0)
    return network(n, pairs, rates_bps), demands


@given(networks())
def test_the_bound_is_that_over_all_paths(case: tuple[Topology, NDArray[np.float64]]) -> None:
    topology, demands = case
    bound, limit = concurrent_flow_bound(topology, demands), equal_cost_limit(topology, demands)
    if not demands.any():
        assert bound == limit == np.inf
        return
    assert bound == pytest.approx(over_all_paths(topology, demands), rel=1e-6)
    assert limit <= bound * (1.0 + 1e-9)


@pytest.mark.parametrize(
    ("name", "expected"),
    # A fat tree's core has room for all. 24 of 31 demands leave a leaf, over half of the hosts' rate.
    [("fattree-k4-websearch", 1.0), ("leafspine-2to1-websearch", 0.5 * 31 / 24)],
)
def test_of_networks_with_tiers(name: str, expected: float) -> None:
    topology = build_topology(load_scenario(name, expect=CongestionScenario).topology)
    demands_bps = uniform_demands(topology)
    assert demands_bps.sum(axis=1) == pytest.approx(topology.link_rate_bps[topology.host_uplink])
    assert concurrent_flow_bound(topology, demands_bps) == pytest.approx(expected)
    assert equal_cost_limit(topology, demands_bps) == pytest.approx(expected)


@pytest.mark.parametrize("demands", [np.ones((2, 3)), -np.ones((3, 3)), np.full((3, 3), np.nan)])
def test_demands_that_are_none(demands: NDArray[np.float64]) -> None:
    with pytest.raises(SysgymError, match="demands: "):
        concurrent_flow_bound(network(3, [(0, 1), (1, 2)]), demands)
