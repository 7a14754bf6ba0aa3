from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from sysgym.emulator.packets.topology import Cable, Topology, build_topology, routing
from sysgym.emulator.packets.topology.routing import ecmp_routes
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.congestion import (
    DumbbellTopology,
    FatTreeTopology,
    LeafSpineTopology,
    ParkingLotTopology,
)

LEAST_P_VALUE = 1e-3
"""A uniform hash fails for one choice of flows in a thousand; the flows here are fixed: no test is flaky."""


def fat_tree(k: int) -> Topology:
    return build_topology(FatTreeTopology(kind="fat_tree", k=k, link_rate_bps=1e10, link_delay_s=1e-6))


def random_flows(topology: Topology, n_flows: int, seed: int = 0) -> tuple[NDArray[np.int64], ...]:
    rng = np.random.default_rng(seed)
    src = rng.integers(0, topology.n_hosts, n_flows)
    dst = (src + rng.integers(1, topology.n_hosts, n_flows)) % topology.n_hosts
    return src, dst, rng.integers(0, 2**16, n_flows), rng.integers(0, 2**16, n_flows)


def shortest_hops(topology: Topology) -> NDArray[np.float64]:
    """Links between all pairs of nodes (Floyd and Warshall); hosts pass nothing on."""
    hops = np.full((topology.n_nodes, topology.n_nodes), np.inf)
    np.fill_diagonal(hops, 0)
    hops[topology.link_source, topology.link_target] = 1
    for via in range(topology.n_hosts, topology.n_nodes):
        hops = np.minimum(hops, hops[:, [via]] + hops[[via], :])
    return hops


def check_routes(
    topology: Topology, src: NDArray[np.int64], dst: NDArray[np.int64], routes: NDArray[np.int32]
) -> None:
    """Every route leads from its source to its destination by as few links as there can be."""
    hops = shortest_hops(topology)
    assert routes.dtype == np.int32
    assert routes.shape == (len(src), int(hops[src, dst].max()))
    for flow, route in enumerate(routes):
        links = route[route >= 0]
        assert len(links) == hops[src[flow], dst[flow]]
        assert np.all(route[len(links) :] == -1)
        assert topology.link_source[links[0]] == src[flow]
        assert topology.link_target[links[-1]] == dst[flow]
        np.testing.assert_array_equal(topology.link_target[links[:-1]], topology.link_source[links[1:]])


@st.composite
def networks(draw: st.DrawFn) -> Topology:
    """Any connected graph of switches, parallel cables included, with hosts anywhere on it."""
    n_hosts, n_switches = draw(st.integers(2, 8)), draw(st.integers(1, 9))
    switch = st.integers(n_hosts, n_hosts + n_switches - 1)
    tree = [
        (n_hosts + i, n_hosts + draw(st.integers(0, i - 1), label=f"parent of switch {i}"))
        for i in range(1, n_switches)
    ]
    more = draw(st.lists(st.tuples(switch, switch).filter(lambda ends: ends[0] != ends[1]), max_size=12))
    hosts = [(host, draw(switch)) for host in range(n_hosts)]
    return Topology.from_cables(
        "drawn",
        host_names=[f"h{i}" for i in range(n_hosts)],
        switch_names=[f"s{i}" for i in range(n_switches)],
        cables=[Cable(end, other, 1e9, 0.0) for end, other in draw(st.permutations([*tree, *more, *hosts]))],
        host_pod=[0] * n_hosts,
    )


@given(topology=networks(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_routes_are_shortest_paths_on_any_network(topology: Topology, seed: int) -> None:
    src, dst, src_port, dst_port = random_flows(topology, 30, seed)
    routes = ecmp_routes(topology, src, dst, src_port, dst_port)
    check_routes(topology, src, dst, routes)
    back = ecmp_routes(topology, dst, src, dst_port, src_port)
    check_routes(topology, dst, src, back)
    np.testing.assert_array_equal((routes >= 0).sum(axis=1), (back >= 0).sum(axis=1))


@pytest.mark.parametrize("k", [2, 4, 8])
def test_fat_tree_routes_have_two_four_or_six_links(k: int) -> None:
    topology = fat_tree(k)
    src, dst, src_port, dst_port = random_flows(topology, 300)
    routes = ecmp_routes(topology, src, dst, src_port, dst_port)
    check_routes(topology, src, dst, routes)
    same_edge = topology.host_edge[src] == topology.host_edge[dst]
    same_pod = topology.host_pod[src] == topology.host_pod[dst]
    np.testing.assert_array_equal((routes >= 0).sum(axis=1), np.where(same_edge, 2, np.where(same_pod, 4, 6)))


def test_the_dumbbell_has_one_way() -> None:
    topology = build_topology(
        DumbbellTopology(kind="dumbbell", hosts_per_side=2, link_rate_bps=1e9, link_delay_s=0.0)
    )
    routes = ecmp_routes(topology, [0, 2, 0], [2, 0, 1], [1, 2, 3], [4, 5, 6])
    names = [[topology.link_names[link] for link in route if link >= 0] for route in routes]
    assert names == [
        ["h0->west", "west->east", "east->h2"],
        ["h2->east", "east->west", "west->h0"],
        ["h0->west", "west->h1"],
    ]


def stage_choices(
    k: int, flows: tuple[NDArray[np.int64], ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which aggregation switch, and which of its core switches, each flow between pods goes up through."""
    topology = fat_tree(k)
    routes = ecmp_routes(topology, *flows)
    assert routes.shape[1] == 6
    half = k // 2
    aggregation = topology.link_target[routes[:, 1]] - topology.n_hosts - k * half
    core = topology.link_target[routes[:, 2]] - topology.n_hosts - 2 * k * half
    return (aggregation % half).astype(np.int64), (core % half).astype(np.int64)


def flows_that_differ_in(what: str, k: int, n_flows: int) -> tuple[NDArray[np.int64], ...]:
    """Flows from the first pod to the last, alike but for one part of the 5-tuple, which counts up."""
    in_pod, n_hosts, count = k * k // 4, k**3 // 4, np.arange(n_flows)
    same = np.zeros(n_flows, dtype=np.int64)
    return {
        "source ports": (same, same + n_hosts - 1, 30000 + count, same + 5001),
        "destination ports": (same, same + n_hosts - 1, same + 40000, 1 + count),
        "hosts": (count % in_pod, n_hosts - 1 - count // in_pod % in_pod, same + 40000, same + 5001),
    }[what]


@pytest.mark.parametrize(
    ("what", "k", "n_flows"),
    [("source ports", 8, 32000), ("destination ports", 8, 32000), ("hosts", 16, 4096)],
)
def test_flows_spread_evenly_and_stages_choose_independently(what: str, k: int, n_flows: int) -> None:
    aggregation, core = stage_choices(k, flows_that_differ_in(what, k, n_flows))
    half = k // 2
    table = np.zeros((half, half))
    np.add.at(table, (aggregation, core), 1)
    assert table.sum() == n_flows
    # All (k/2)**2 paths are equally likely only if each stage is uniform and the stages are independent.
    assert stats.chisquare(table.ravel()).pvalue > LEAST_P_VALUE
    # And not suspiciously even: a hash that counts would deal the flows out like cards.
    assert stats.chisquare(table.ravel()).pvalue < 1.0 - LEAST_P_VALUE
    assert stats.chi2_contingency(table).pvalue > LEAST_P_VALUE


def test_the_protocol_is_part_of_the_flow() -> None:
    topology = fat_tree(8)
    flows = random_flows(topology, 500)
    assert np.any(ecmp_routes(topology, *flows) != ecmp_routes(topology, *flows, protocol=17))


def test_a_route_depends_on_its_own_flow_only() -> None:
    topology = fat_tree(4)
    flows = random_flows(topology, 200)
    routes = ecmp_routes(topology, *flows)
    order = np.random.default_rng(1).permutation(200)
    np.testing.assert_array_equal(ecmp_routes(topology, *(part[order] for part in flows)), routes[order])
    alone = [ecmp_routes(topology, *(part[[flow]] for part in flows))[0] for flow in range(200)]
    for route, one in zip(routes, alone, strict=True):
        np.testing.assert_array_equal(route[: len(one)], one)


def test_the_hash_is_splitmix64() -> None:
    # First outputs for the seeds 0 and 1234567, as printed by Vigna's public-domain splitmix64.c.
    assert int(routing._mix(np.uint64(0))) == 0xE220A8397B1DCDAF
    assert int(routing._mix(np.uint64(1234567))) == 6457827717110365317


DIGEST = """
import hashlib, numpy as np
from sysgym.emulator.packets.topology.routing import ecmp_routes
from sysgym.emulator.packets.topology import build_topology
from sysgym.scenarios.schema.congestion import FatTreeTopology
topology = build_topology(FatTreeTopology(kind="fat_tree", k=8, link_rate_bps=1e10, link_delay_s=1e-6))
flow = np.arange(2000)
routes = ecmp_routes(topology, flow % 128, (flow % 128 + 1 + flow % 127) % 128, flow, flow + 1)
print(hashlib.sha256(routes.tobytes()).hexdigest())
"""


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_other_processes_choose_the_same_routes(hash_seed: str) -> None:
    flow = np.arange(2000)
    routes = ecmp_routes(fat_tree(8), flow % 128, (flow % 128 + 1 + flow % 127) % 128, flow, flow + 1)
    printed = subprocess.run(
        [sys.executable, "-c", DIGEST],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.strip() == hashlib.sha256(routes.tobytes()).hexdigest()


def test_routes_stay_what_they_are_from_version_to_version() -> None:
    # Recorded results are replayed: another choice of routes would change them all.
    topology = fat_tree(4)
    src_port, dst_port = [49152, 49153, 49154, 5001], [5001, 5001, 5001, 49152]
    routes = ecmp_routes(topology, [0, 0, 0, 15], [15, 15, 15, 0], src_port, dst_port)
    assert [topology.link_names[route[2]] for route in routes] == [
        "agg0_1->core2",
        "agg0_1->core3",
        "agg0_0->core0",
        "agg3_1->core3",
    ]


def test_no_flows_have_no_routes() -> None:
    assert ecmp_routes(fat_tree(4), [], [], [], []).shape == (0, 0)


@pytest.mark.parametrize(
    ("flows", "reason"),
    [
        (([0], [0], [1], [1]), "same host"),
        (([0], [16], [1], [1]), "dst"),
        (([-1], [1], [1], [1]), "src"),
        (([0], [1], [65536], [1]), "src_port"),
        (([0], [1], [1], [-1]), "dst_port"),
        (([0, 1], [1], [1], [1]), "shape"),
    ],
)
def test_impossible_flows_are_refused(flows: tuple[list[int], ...], reason: str) -> None:
    with pytest.raises(SysgymError, match=reason):
        ecmp_routes(fat_tree(4), *flows)


def test_impossible_protocols_are_refused() -> None:
    with pytest.raises(SysgymError, match="protocol"):
        ecmp_routes(fat_tree(4), [0], [1], [1], [1], protocol=256)


def leaf_spine(spines: int) -> Topology:
    return build_topology(
        LeafSpineTopology(
            kind="leaf_spine",
            leaves=3,
            spines=spines,
            hosts_per_leaf=2,
            link_rate_bps=1e10,
            link_delay_s=1e-6,
        )
    )


def paths(
    topology: Topology, src: int, dst: int, n_flows: int = 2000, down: Sequence[int] = ()
) -> Counter[tuple[int, ...]]:
    ports = np.arange(n_flows)
    ends = np.full(n_flows, src), np.full(n_flows, dst)
    routes = ecmp_routes(topology, *ends, ports, np.full(n_flows, 5001), down=down)
    return Counter(tuple(int(link) for link in route if link >= 0) for route in routes)


@pytest.mark.parametrize(
    ("topology", "src", "dst", "n_paths"),
    [
        (fat_tree(4), 0, 15, 4),
        (fat_tree(8), 0, 127, 16),
        (fat_tree(8), 0, 4, 4),
        (fat_tree(8), 0, 1, 1),
        (leaf_spine(1), 0, 5, 1),
        (leaf_spine(5), 0, 5, 5),
        (leaf_spine(5), 0, 1, 1),
    ],
)
def test_there_are_as_many_paths_as_the_form_has(
    topology: Topology, src: int, dst: int, n_paths: int
) -> None:
    taken = paths(topology, src, dst)
    assert len(taken) == n_paths
    if n_paths > 1:
        assert stats.chisquare(list(taken.values())).pvalue > LEAST_P_VALUE


@pytest.mark.parametrize("n", [1, 4])
def test_the_long_path_of_a_parking_lot_takes_all_bottlenecks(n: int) -> None:
    topology = build_topology(
        ParkingLotTopology(kind="parking_lot", bottlenecks=n, link_rate_bps=1e9, link_delay_s=0.0)
    )
    senders = np.arange(n + 1)
    routes = ecmp_routes(topology, senders, senders + n + 1, senders, senders)
    hops = [[topology.link_names[link] for link in route if link >= 0][1:-1] for route in routes]
    row = [f"switch{i}->switch{i + 1}" for i in range(n)]
    assert hops == [row, *([name] for name in row)]


def both_ways(links: Iterable[int]) -> list[int]:
    return [way for link in links for way in (link, link ^ 1)]


def test_routes_avoid_links_that_are_down_and_share_out_over_the_rest() -> None:
    topology = leaf_spine(4)
    broken = both_ways(topology.links_named("leaf0->spine2"))
    taken = paths(topology, 0, 5, down=broken)
    assert len(taken) == 3
    assert not {link for path in taken for link in path} & set(broken)
    assert stats.chisquare(list(taken.values())).pvalue > LEAST_P_VALUE
    # The far end of a broken link counts too: spine 1 does not lead to leaf 2, though its uplinks are there.
    broken = topology.links_named("spine1->leaf2").tolist()
    assert {
        topology.node_names[topology.link_target[path[1]]] for path in paths(topology, 0, 5, down=broken)
    } == {
        "spine0",
        "spine2",
        "spine3",
    }
    # One direction alone: the way back still uses the cable.
    assert len(paths(topology, 5, 0, down=broken)) == 4


def test_flows_away_from_a_failure_keep_their_routes() -> None:
    topology = leaf_spine(4)
    src, dst, src_port, dst_port = random_flows(topology, 400)
    broken = both_ways(topology.links_named("leaf0->spine2"))
    before = ecmp_routes(topology, src, dst, src_port, dst_port)
    after = ecmp_routes(topology, src, dst, src_port, dst_port, down=broken)
    away = (topology.host_pod[src] != 0) & (topology.host_pod[dst] != 0)
    np.testing.assert_array_equal(before[away], after[away])
    np.testing.assert_array_equal(before, ecmp_routes(topology, src, dst, src_port, dst_port, down=[]))


def test_a_longer_way_round_is_taken_when_it_is_the_only_one() -> None:
    topology = leaf_spine(2)
    broken = both_ways([*topology.links_named("leaf0->spine0"), *topology.links_named("leaf2->spine1")])
    (path,) = paths(topology, 0, 5, down=broken)
    nodes = [topology.node_names[topology.link_target[link]] for link in path]
    assert nodes == ["leaf0", "spine1", "leaf1", "spine0", "leaf2", "h5"]


@pytest.mark.parametrize("pattern", ["h0->*", "*->h5", "leaf0->*", "spine*->leaf2"])
def test_hosts_without_a_way_are_named(pattern: str) -> None:
    topology = leaf_spine(2)
    broken = topology.links_named(pattern)
    with pytest.raises(SysgymError, match="no way from h0 to h5 with"):
        ecmp_routes(topology, [2, 0], [3, 5], [1, 1], [1, 1], down=broken)
    routes = ecmp_routes(topology, [2, 0], [3, 5], [1, 1], [1, 1], down=broken, unreachable="empty")
    assert (routes >= 0).sum(axis=1).tolist() == [2, 0]


@given(topology=networks(), seed=st.integers(0, 2**32 - 1), data=st.data())
@settings(max_examples=40, deadline=None)
def test_routes_with_links_down_are_those_of_the_network_without_them(
    topology: Topology, seed: int, data: st.DataObject
) -> None:
    between = [link for link in range(topology.n_links) if not (topology.from_host | topology.to_host)[link]]
    down = data.draw(st.lists(st.sampled_from(between), unique=True) if between else st.just([]))
    src, dst, src_port, dst_port = random_flows(topology, 20, seed)
    routes = ecmp_routes(topology, src, dst, src_port, dst_port, down=down, unreachable="empty")
    hops = np.full((topology.n_nodes, topology.n_nodes), np.inf)
    np.fill_diagonal(hops, 0)
    up = np.setdiff1d(np.arange(topology.n_links), down)
    hops[topology.link_source[up], topology.link_target[up]] = 1
    for via in range(topology.n_hosts, topology.n_nodes):
        hops = np.minimum(hops, hops[:, [via]] + hops[[via], :])
    for flow, route in enumerate(routes):
        links = route[route >= 0]
        if np.isinf(hops[src[flow], dst[flow]]):
            assert len(links) == 0
            continue
        assert len(links) == hops[src[flow], dst[flow]]
        assert not set(links.tolist()) & set(down)
        assert (topology.link_source[links[0]], topology.link_target[links[-1]]) == (src[flow], dst[flow])
        np.testing.assert_array_equal(topology.link_target[links[:-1]], topology.link_source[links[1:]])


def test_links_that_are_not_there_cannot_be_down() -> None:
    with pytest.raises(SysgymError, match="expected 0 to"):
        ecmp_routes(leaf_spine(1), [0], [5], [1], [1], down=[99])
