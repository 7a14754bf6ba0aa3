"""Forwarding tables, packet spraying, failing links, and dependent flows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.engine.forwarding import forwarding_table, host_places
from sysgym.emulator.packets.memory.records import NOBODY
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.errors import ScenarioError
from sysgym.scenarios.schema.congestion import FatTreeTopology

MakeNetwork = Callable[..., PacketNetwork]

FAT_TREE = {"kind": "fat_tree", "k": 4, "link_rate_bps": 10e9, "link_delay_s": 1e-6}


def fat_tree(make_network: MakeNetwork, transport: str = "dctcp", **overrides: Any) -> PacketNetwork:
    overrides = {"workload__pairs": "stride", "workload__stride": 8, **overrides}
    return make_network(transport, topology=FAT_TREE, **overrides)


def test_table_has_every_shortest_path() -> None:
    topology = build_topology(FatTreeTopology(**FAT_TREE))  # type: ignore[arg-type]
    rows, links = forwarding_table(topology)
    places, n_columns = host_places(topology)
    assert n_columns == 8
    sizes = np.diff(rows).reshape(topology.n_nodes, n_columns)
    edges = range(16, 24)
    for edge in edges:
        for host in range(16):
            same = places["edge"][host] == edge
            assert sizes[edge, places["column"][host]] == (0 if same else 2)
    for core in range(32, 36):
        assert np.all(sizes[core] == 1)
    assert not np.any(topology.to_host[links])


def test_a_lookup_at_every_switch_takes_the_paths_of_ecmp(make_network: MakeNetwork) -> None:
    """A failure far in the future makes the switches look up; until then nothing changes."""
    faults = {"links": [{"link": "core0->agg0_0", "down_s": 0.09}], "reroute_s": 0.0}
    fixed, looked_up = fat_tree(make_network), fat_tree(make_network, faults=faults)
    for network in (fixed, looked_up):
        network.advance(5e-3)
    assert looked_up._state.world["by_table"][0] == 1
    assert np.array_equal(fixed.ports().accepted_packets, looked_up.ports().accepted_packets)
    assert np.array_equal(fixed.flows().delivered_bytes, looked_up.flows().delivered_bytes)


def test_sprayed_packets_share_all_paths_evenly(make_network: MakeNetwork) -> None:
    network = fat_tree(make_network, "paced", routing={"ecmp": "packet"})
    network.set_host_rate_caps(np.full(16, 5e9))
    network.advance(20e-3)
    topology = network.topology
    names = np.array(topology.link_names)
    to_core = np.array([name.startswith("agg") and "->core" in name for name in names])
    packets = network.ports().accepted_packets[to_core]
    assert packets.min() > 0.9 * packets.max()
    flows = network.flows()
    goodput_bps = 8 * flows.delivered_bytes / (20e-3 - flows.start_s)
    assert goodput_bps == pytest.approx(np.full(16, 5e9 * 1460 / 1500), rel=0.02)
    assert np.all(network.hosts().retransmitted_packets <= 1), "after one DSACK, reordering is not loss"


def test_sprayed_packets_are_not_taken_for_lost(make_network: MakeNetwork) -> None:
    network = fat_tree(make_network, "paced", routing={"ecmp": "packet"}, transport__loss_detection="dupack")
    network.set_host_rate_caps(np.full(16, 5e9))
    network.advance(20e-3)
    assert network.hosts().retransmitted_packets.sum() == 0


def test_spraying_uses_what_hashing_leaves_idle(make_network: MakeNetwork) -> None:
    goodputs = []
    for ecmp in ("flow", "packet"):
        network = fat_tree(make_network, "dctcp", seed=3, routing={"ecmp": ecmp})
        network.advance(30e-3)
        goodputs.append(network.flows().delivered_bytes.sum())
    assert goodputs[1] > 1.2 * goodputs[0]


def test_a_low_threshold_takes_reordering_for_loss(make_network: MakeNetwork) -> None:
    network = fat_tree(make_network, "dctcp", routing={"ecmp": "packet", "reordering_packets": 3})
    network.advance(20e-3)
    assert network.hosts().retransmitted_packets.sum() > 0
    flows = network._state.flows
    assert np.all(flows["rcv_nxt"] <= flows["high"])


def test_a_failed_link_loses_until_the_switches_route_around_it(make_network: MakeNetwork) -> None:
    faults = {"links": [{"link": "agg0_0<->core*", "down_s": 0.01, "up_s": 0.03}], "reroute_s": 2e-3}
    network = fat_tree(make_network, "paced", faults=faults, transport__min_rto_s=1e-3)
    network.set_host_rate_caps(np.full(16, 2e9))
    network.advance(10e-3)
    assert network.ports().lost_packets.sum() == 0
    network.advance(2e-3)
    lost_before_rerouting = network.ports().lost_packets.sum()
    assert lost_before_rerouting > 100
    network.advance(3e-3)
    assert network.ports().lost_packets.sum() - lost_before_rerouting < 50
    before = network.flows().delivered_bytes
    failed = network.topology.links_named("agg0_0<->core*")
    crossed = network.ports().accepted_packets[failed]
    network.advance(10e-3)
    assert np.array_equal(network.ports().accepted_packets[failed], crossed)
    goodput_bps = 8 * (network.flows().delivered_bytes - before) / 10e-3
    assert goodput_bps == pytest.approx(np.full(16, 2e9 * 1460 / 1500), rel=0.1)
    network.advance(10e-3)
    assert network.ports().accepted_packets[failed].sum() > crossed.sum(), "used again after the repair"


def test_a_host_that_is_cut_off_comes_back(make_network: MakeNetwork) -> None:
    faults = {"links": [{"link": "h0<->west", "down_s": 0.005, "up_s": 0.02}], "reroute_s": 0.0}
    network = make_network("dctcp", faults=faults, transport__min_rto_s=1e-3)
    network.advance(6e-3)
    before = network.flows().delivered_bytes[0]
    network.advance(14e-3)
    assert network.flows().delivered_bytes[0] == before
    assert network.hosts().timeouts[0] > 0
    network.advance(40e-3)
    assert network.flows().delivered_bytes[0] > before


@pytest.mark.parametrize("link", ["h0->east", "agg0_0->core0", ""])
def test_a_fault_of_a_link_that_is_not_there_is_refused(make_network: MakeNetwork, link: str) -> None:
    with pytest.raises(ScenarioError, match="link"):
        make_network(faults={"links": [{"link": link, "down_s": 0.01}]})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"faults": {"links": [{"link": "*", "down_s": 0.02, "up_s": 0.01}]}}, "later than down_s"),
        ({"faults": {"loss_probability": 1.0}}, "loss_probability"),
        ({"faults": {"loss_probability": -0.1}}, "loss_probability"),
        ({"routing": {"ecmp": "spray"}}, "ecmp"),
        ({"routing": {"reordering_packets": 0}}, "reordering_packets"),
        ({"queue__discipline": "red"}, "red_min_bytes"),
        ({"queue__red_min_bytes": 5000}, "discipline"),
        (
            {"queue": {"buffer_bytes": 9000, "discipline": "red", "red_min_bytes": 8, "red_max_bytes": 7}},
            "less than red_max_bytes",
        ),
        ({"queue__pfc_resume_bytes": 5000}, "pfc_pause_bytes"),
        ({"queue__pfc_pause_bytes": 1_000_000}, "less than buffer_bytes"),
        ({"queue__pfc_pause_bytes": 5_000, "queue__pfc_resume_bytes": 6_000}, "at most pfc_pause_bytes"),
        ({"queue__pfc_pause_bytes": 990_000}, "still brings"),
        (
            {"queue__pfc_pause_bytes": 90_000, "faults": {"links": [{"link": "*", "down_s": 0.01}]}},
            "no failing links",
        ),
        ({"transport__delayed_ack_packets": 0}, "delayed_ack_packets"),
        (
            {"transport__delayed_ack_packets": 2, "transport__delayed_ack_timeout_s": 0.02},
            "less than min_rto_s",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    make_network: MakeNetwork, overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        make_network(**overrides)


def chain(n_flows: int, delay_ns: int) -> Any:
    rng = np.random.default_rng(0)
    hosts = np.arange(n_flows)
    after = (hosts - 1)[:, np.newaxis]
    return make_schedule(
        rng,
        hosts % 8,
        (hosts + 1) % 8,
        size_bytes=14_600,
        start_ns=1_000,
        after=after,
        after_delay_ns=delay_ns,
    )


def test_a_chain_of_flows_runs_one_after_the_other(make_network: MakeNetwork) -> None:
    network = make_network("paced", transport__host_jitter_s=0.0)
    network.reset(0, chain(20, 7_000))
    network.advance(20e-3)
    flows = network.flows()
    assert np.all(np.isfinite(flows.finish_s))
    assert flows.start_s[0] == pytest.approx(1e-6)
    assert flows.start_s[1:] - flows.finish_s[:-1] == pytest.approx(np.full(19, 7e-6), abs=1e-12)
    assert flows.finish_s - flows.start_s == pytest.approx(flows.ideal_fct_s, rel=0.01)


def test_a_flow_waits_for_all_its_predecessors(make_network: MakeNetwork) -> None:
    network = make_network("paced", transport__host_jitter_s=0.0)
    rng = np.random.default_rng(0)
    schedule = make_schedule(
        rng, [0, 1, 2, 3], [4, 5, 6, 7], size_bytes=[1_460, 146_000, 14_600, 1_460],
        start_ns=[0, 50_000, 0, 0], after=[[NOBODY] * 3, [NOBODY] * 3, [NOBODY] * 3, [0, 1, 2]],
    )  # fmt: skip
    network.reset(0, schedule)
    network.advance(100e-6)
    flows = network.flows()
    assert flows.started.tolist() == [True, True, True, False]
    assert np.isnan(flows.start_s[3])
    network.advance(5e-3)
    flows = network.flows()
    assert flows.start_s[3] == flows.finish_s[:3].max()
    assert np.isfinite(flows.finish_s[3])
    assert network.hosts().active_flows.sum() == 0
