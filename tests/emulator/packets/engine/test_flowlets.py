"""Flowlet switching: between per-packet and per-flow paths, order, and networks with unequal paths."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.errors import ScenarioError

MakeNetwork = Callable[..., PacketNetwork]

FAT_TREE = {"kind": "fat_tree", "k": 4, "link_rate_bps": 10e9, "link_delay_s": 1e-6}
LEAF_SPINE = {
    "kind": "leaf_spine", "leaves": 2, "spines": 4, "hosts_per_leaf": 4,
    "link_rate_bps": 10e9, "link_delay_s": 1e-6,
}  # fmt: skip


def flowlets(gap_s: float, **keys: Any) -> dict[str, Any]:
    return {"ecmp": "flowlet", "flowlet_gap_s": gap_s, **keys}


def packets_up(network: PacketNetwork) -> NDArray[np.int64]:
    """Packets that the first leaf has sent to each spine."""
    return network.ports().accepted_packets[network.topology.links_named("leaf0->spine*")]


@pytest.mark.parametrize("transport", ["dctcp", "cubic"])
def test_a_gap_of_zero_is_packet_spraying(make_network: MakeNetwork, transport: str) -> None:
    networks = [
        make_network(
            transport, topology=FAT_TREE, workload__pairs="stride", workload__stride=8, routing=routing
        )
        for routing in ({"ecmp": "packet"}, flowlets(0.0, reordering_packets=64))
    ]
    for network in networks:
        network.advance(5e-3)
    assert np.array_equal(networks[0]._state.links, networks[1]._state.links)
    assert networks[0].ports().accepted_packets.sum() > 10_000


def test_a_long_gap_keeps_every_flow_on_one_path(make_network: MakeNetwork) -> None:
    network = make_network("cubic", topology=LEAF_SPINE, routing=flowlets(1.0))
    rng = np.random.default_rng(0)
    for seed in range(5):
        network.reset(seed, make_schedule(rng, [0], [4], size_bytes=-1, start_ns=0))
        network.advance(5e-3)
        assert np.count_nonzero(packets_up(network)) == 1
    network.reset(9, make_schedule(rng, np.arange(4), np.arange(4, 8), size_bytes=-1, start_ns=0))
    network.advance(1e-3)
    used = {link for link in range(4) if packets_up(network)[link]}
    network.advance(5e-3)
    assert {link for link in range(4) if packets_up(network)[link]} == used


def test_flows_draw_all_paths_equally_often(make_network: MakeNetwork) -> None:
    """Flows of one packet, one draw each: four binomial counts of mean 500 and deviation 19.4."""
    network = make_network("dctcp", topology=LEAF_SPINE, routing=flowlets(1.0))
    n_flows = 2000
    start_ns = 20_000 * np.arange(n_flows)
    rng = np.random.default_rng(0)
    network.reset(1, make_schedule(rng, [0] * n_flows, [4] * n_flows, size_bytes=1000, start_ns=start_ns))
    network.advance(50e-3)
    assert packets_up(network).sum() == n_flows
    assert packets_up(network) == pytest.approx(np.full(4, 500), abs=4 * 19.4)


@pytest.mark.parametrize(
    ("gap_s", "difference_s", "moves", "reorders"),
    [
        (100e-6, 50e-6, True, False),
        (100e-6, 110e-6, True, False),
        (100e-6, 300e-6, True, True),
        (150e-6, 300e-6, False, False),
    ],
)
def test_packets_overtake_only_if_the_paths_differ_by_more_than_the_gap(
    make_network: MakeNetwork, gap_s: float, difference_s: float, moves: bool, reorders: bool
) -> None:
    """A packet every 120 us. One overtaking packet is enough for a retransmission."""
    slow = [{"link": "leaf*->spine3", "delay_s": 1e-6 + difference_s}]
    network = make_network(
        "paced", topology={**LEAF_SPINE, "overrides": slow}, transport__host_jitter_s=0.0,
        routing=flowlets(gap_s, reordering_packets=1),
    )  # fmt: skip
    network.reset(3, make_schedule(np.random.default_rng(0), [0], [4], size_bytes=-1, start_ns=0))
    network.set_host_rate_caps(np.full(8, 1500 * 8 / 120e-6))
    network.advance(50e-3)
    assert np.count_nonzero(packets_up(network)) == (4 if moves else 1)
    assert (network.hosts().retransmitted_packets.sum() > 0) == reorders


def test_flows_leave_a_slow_path(make_network: MakeNetwork) -> None:
    """One of four spines has a tenth of the rate, and a leaf's four hosts send to the other leaf.

    Hashing leaves a flow on the slow spine for good; with flowlets it leaves with its next pause.
    """
    slow = [{"link": "leaf*<->spine3", "rate_bps": 1e9}]
    slowest_bytes = {}
    for name, routing in (("flow", {"ecmp": "flow"}), ("flowlet", flowlets(50e-6))):
        network = make_network("dctcp", topology={**LEAF_SPINE, "overrides": slow}, routing=routing)
        slowest = []
        for seed in range(4):
            rng = np.random.default_rng(seed)
            sizes = make_schedule(rng, np.arange(4), np.arange(4, 8), size_bytes=-1, start_ns=0)
            network.reset(seed, sizes)
            network.advance(30e-3)
            slowest.append(network.flows().delivered_bytes.min())
        slowest_bytes[name] = np.mean(slowest)
    assert slowest_bytes["flowlet"] > 1.5 * slowest_bytes["flow"]


def test_a_failed_link_is_left_and_used_again(make_network: MakeNetwork) -> None:
    faults = {"links": [{"link": "leaf0<->spine0", "down_s": 5e-3, "up_s": 15e-3}], "reroute_s": 1e-3}
    network = make_network(
        "paced", topology=LEAF_SPINE, routing=flowlets(2e-6), faults=faults, transport__min_rto_s=1e-3
    )
    start = make_schedule(np.random.default_rng(0), [0, 1], [4, 5], size_bytes=-1, start_ns=0)
    network.reset(1, start)
    network.set_host_rate_caps(np.full(8, 1e9))
    sent = []
    for _ in range(4):
        network.advance(6.5e-3)
        sent.append(packets_up(network)[0])
    assert 0 < sent[0] == sent[1] < sent[2] < sent[3]


def test_the_same_seed_gives_the_same_and_a_copy_goes_on_alike(make_network: MakeNetwork) -> None:
    first, second, other = (
        make_network("dctcp", seed=seed, topology=LEAF_SPINE, routing=flowlets(5e-6)) for seed in (1, 1, 2)
    )
    for network in (first, second, other):
        network.advance(3e-3)
    third = copy.deepcopy(first)
    for network in (first, second, third, other):
        network.advance(3e-3)
    assert np.array_equal(first._state.links, second._state.links)
    assert np.array_equal(first._state.links, third._state.links)
    assert np.array_equal(first._state.flowlets, third._state.flowlets)
    assert not np.array_equal(first._state.links, other._state.links)


@pytest.mark.parametrize(
    ("routing", "message"),
    [
        ({"ecmp": "flowlet"}, "flowlet_gap_s"),
        ({"flowlet_gap_s": 1e-4}, 'no such key with ecmp = "flow"'),
        ({"ecmp": "packet", "flowlet_gap_s": 1e-4}, 'no such key with ecmp = "packet"'),
        (flowlets(-1e-6), "flowlet_gap_s"),
    ],
)
def test_what_makes_no_sense_is_refused(
    make_network: MakeNetwork, routing: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        make_network(routing=routing)
