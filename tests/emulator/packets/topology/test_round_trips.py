"""The longest round trip of an empty network, compared with all pairs and paths, and with a packet."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.emulator.packets.topology.round_trips import longest_round_trip_s
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.scenarios import CongestionScenario, load_scenario

LINKS: dict[str, Any] = {"link_rate_bps": 10e9, "link_delay_s": 10e-6}
PARKING_LOT = {"kind": "parking_lot", "bottlenecks": 4, **LINKS}
LEAF_SPINE = {"kind": "leaf_spine", "leaves": 4, "spines": 3, "hosts_per_leaf": 3, **LINKS}


def topology_of(table: dict[str, Any], *overrides: dict[str, Any]) -> Topology:
    scenario = load_scenario(
        "dumbbell-10g",
        overrides={
            "topology": {**table, "overrides": list(overrides)},
            "workload": {"kind": "long_lived", "pairs": "random"},
        },
        expect=CongestionScenario,
    )
    return build_topology(scenario.topology)


def over_all_pairs_and_paths_s(topology: Topology, packet_bytes: int, ack_bytes: int) -> float:
    """By enumeration."""
    links_from = {
        node: [
            (link, int(topology.link_target[link])) for link in np.flatnonzero(topology.link_source == node)
        ]
        for node in range(topology.n_nodes)
    }

    def slowest_s(src: int, dst: int, size_bytes: int) -> float:
        hop_s = topology.hop_s(size_bytes)
        paths: list[tuple[int, float, set[int]]] = [(src, 0.0, {src})]
        while all(node != dst for node, _, _ in paths):  # all paths of one link, of two, ...
            paths = [
                (target, so_far_s + float(hop_s[link]), seen | {target})
                for node, so_far_s, seen in paths
                for link, target in links_from[node]
                if target not in seen
            ]
        return max(so_far_s for node, so_far_s, _ in paths if node == dst)

    return max(
        slowest_s(a, b, packet_bytes) + slowest_s(b, a, ack_bytes)
        for a, b in itertools.permutations(range(topology.n_hosts), 2)
    )


@pytest.mark.parametrize(
    ("table", "overrides"),
    [
        (PARKING_LOT, []),
        (PARKING_LOT, [{"link": "switch2->switch3", "delay_s": 3e-3}]),
        (PARKING_LOT, [{"link": "h*<->switch1", "delay_s": 1e-3}]),
        (LEAF_SPINE, []),
        (LEAF_SPINE, [{"link": "leaf2->spine1", "rate_bps": 1e7}]),
        (LEAF_SPINE, [{"link": "spine0->leaf3", "delay_s": 1e-3}, {"link": "h4->leaf1", "rate_bps": 2e7}]),
        (LEAF_SPINE, [{"link": "h0<->leaf0", "delay_s": 1e-3}, {"link": "h1<->leaf0", "delay_s": 1e-3}]),
        ({"kind": "single_switch", "hosts": 3, **LINKS}, [{"link": "h2<->*", "delay_s": 1e-3}]),
        ({"kind": "fat_tree", "k": 4, **LINKS}, []),
    ],
)
def test_it_is_the_longest_of_all(table: dict[str, Any], overrides: list[dict[str, Any]]) -> None:
    topology = topology_of(table, *overrides)
    found_s = longest_round_trip_s(topology, 1500, 60)
    assert found_s == pytest.approx(over_all_pairs_and_paths_s(topology, 1500, 60), rel=1e-12)


def test_a_packet_takes_so_long() -> None:
    """One slow link of a leaf-spine network, which the first host does not use."""
    slow = {"link": "leaf3->spine1", "delay_s": 1e-3}
    scenario = load_scenario(
        "dumbbell-10g",
        overrides={
            "topology": {**LEAF_SPINE, "overrides": [slow]},
            "workload": {"kind": "long_lived", "pairs": "random"},
            "transport.host_jitter_s": 0.0,
        },
        expect=CongestionScenario,
    )
    network = PacketNetwork(scenario, transport="dctcp")
    rng = np.random.default_rng(0)
    n = 40
    schedule = make_schedule(
        rng, np.full(n, 10), np.zeros(n, np.int64), size_bytes=100, start_ns=np.arange(n) * 5_000_000
    )
    network.reset(1, schedule)
    network.advance(0.3)
    rtts_s = network.flows().rtt_min_s
    packet_bytes = 140
    expected_s = longest_round_trip_s(network.topology, packet_bytes, 60)
    assert rtts_s.max() == pytest.approx(expected_s, abs=20e-9)
    assert rtts_s.min() < 0.1 * expected_s, "other paths are not slow"


def test_a_thousand_hosts_are_quick() -> None:
    topology = topology_of({"kind": "fat_tree", "k": 16, **LINKS})
    longest_round_trip_s(topology, 1500, 60)
    took_s = []
    for _ in range(3):
        began_s = time.process_time()
        found_s = longest_round_trip_s(topology, 1500, 60)
        took_s.append(time.process_time() - began_s)
    assert found_s == pytest.approx(6 * 2 * 10e-6 + 6 * 1560 * 8 / 10e9)
    assert min(took_s) < 0.3
