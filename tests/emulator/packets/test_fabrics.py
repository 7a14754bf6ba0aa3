"""Topologies and workloads in the simulator: closed forms of rates and times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.topology.max_min_fairness import max_min_rates
from sysgym.emulator.packets.topology.routing import ecmp_routes
from sysgym.scenarios import CongestionScenario, load_scenario

PAYLOAD_FRACTION = 1460 / 1500


def network(name: str, transport: str = "dctcp", seed: int = 1, **overrides: Any) -> PacketNetwork:
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    found = PacketNetwork(
        load_scenario(name, overrides=dotted, expect=CongestionScenario), transport=transport
    )
    found.reset(seed)
    return found


def test_max_min_fairness_halves_every_link_of_a_parking_lot() -> None:
    for n in (1, 4):
        scenario = load_scenario(
            "parking-lot-4", overrides={"topology.bottlenecks": n}, expect=CongestionScenario
        )
        topology = build_topology(scenario.topology)
        senders = np.arange(n + 1)
        routes = ecmp_routes(topology, senders, senders + n + 1, senders, senders)
        np.testing.assert_allclose(max_min_rates(routes, topology.link_rate_bps), 5e9)


def test_the_long_path_of_a_parking_lot_gets_less_from_dctcp_and_half_from_the_oracle() -> None:
    found = network("parking-lot-4")
    found.advance(0.1)
    rates_bps = (found.flows().delivered_bytes * 8 / 0.1)[np.argsort(found.flows().src)]
    assert rates_bps[0] < 0.8 * rates_bps[1:].min()
    # Each bottleneck carries the long flow and one other, and is full.
    np.testing.assert_allclose(rates_bps[0] + rates_bps[1:], 1e10 * PAYLOAD_FRACTION, rtol=0.05)
    fair = network("parking-lot-4", transport="paced")
    fair.advance(2e-3)
    fair.set_host_rate_caps(np.maximum(fair.oracle_rates_bps(), 1e6))
    before = fair.flows().delivered_bytes
    fair.advance(0.02)
    fair_bps = (fair.flows().delivered_bytes - before) * 8 / 0.02
    np.testing.assert_allclose(fair_bps, 5e9 * PAYLOAD_FRACTION, rtol=0.05)


def test_uplinks_of_an_oversubscribed_leaf_bound_what_leaves_it() -> None:
    found = network(
        "leafspine-2to1-websearch",
        workload={"kind": "long_lived", "pairs": "stride", "stride": 8},
        topology__spines=1,
        topology__uplink_rate_bps=40e9,
    )
    found.advance(0.01)
    before = found.flows().delivered_bytes
    found.advance(0.02)
    by_leaf = ((found.flows().delivered_bytes - before) * 8 / 0.02).reshape(4, 8).sum(axis=1)
    # ACKs of what comes the other way take their share: 60 bytes for every 1500.
    np.testing.assert_allclose(by_leaf, 40e9 * PAYLOAD_FRACTION / 1.04, rtol=0.05)


def test_an_override_of_a_rate_is_what_a_flow_gets() -> None:
    found = network("dumbbell-10g", topology__overrides=[{"link": "east->h4", "rate_bps": 2e9}])
    found.advance(0.02)
    before = found.flows().delivered_bytes
    found.advance(0.02)
    rates_bps = (found.flows().delivered_bytes - before) * 8 / 0.02
    assert rates_bps[found.flows().dst == 4] == pytest.approx(2e9 * PAYLOAD_FRACTION, rel=0.03)


@pytest.mark.parametrize(("key", "value"), [("buffer_bytes", 30_000), ("ecn_threshold_bytes", 15_000)])
def test_an_override_of_a_queue_holds_where_it_is(key: str, value: int) -> None:
    found = network(
        "dumbbell-10g",
        transport="dctcp" if key == "ecn_threshold_bytes" else "reno",
        workload__flows_per_pair=2,
        topology__overrides=[{"link": "west->east", key: value}],
    )
    found.advance(0.02)
    core = int(found.topology.links_named("west->east")[0])
    if key == "buffer_bytes":
        assert found.ports().dropped_packets[core] > 0
        assert found.ports().queue_max_bytes[core] <= value
    else:
        # DCTCP keeps the queue about the threshold: here a sixth of the other ports'.
        mean_bytes = found.ports().queue_byte_s[core] / found.now_s
        assert 0.2 * value < mean_bytes < 3 * value


def ends(found: PacketNetwork) -> Iterator[tuple[float, int]]:
    """How long each iteration that is through took, and how many flows it had."""
    flows = found.flows()
    for group in np.unique(flows.group):
        of_group = flows.group == group
        if flows.started[of_group].all() and not np.isnan(flows.finish_s[of_group]).any():
            took_s = flows.finish_s[of_group].max() - flows.start_s[of_group].min()
            yield float(took_s), int(of_group.sum())


@pytest.mark.parametrize(
    ("collective", "n_messages", "wire_bytes"),
    [
        # 600 packets of data for each of 4 hosts, one after the other at 10 Gb/s on one switch.
        ("ring_all_reduce", 2 * 4 * 3, 2 * 3 * 150 * 1500),
        ("tree_all_reduce", 2 * 3, 4 * 600 * 1500),
        ("all_to_all", 4 * 3, 3 * 150 * 1500),
    ],
)
def test_a_collective_on_one_switch_takes_as_long_as_its_longest_chain(
    collective: str, n_messages: int, wire_bytes: int
) -> None:
    found = network(
        "incast-32",
        topology__hosts=4,
        topology__link_delay_s=1e-6,
        transport__initial_window_packets=200,
        queue__ecn_threshold_bytes=None,
        workload={
            "kind": "training",
            "collective": collective,
            "job_hosts": 4,
            "size_bytes": 4 * 150 * 1460,
            "compute_s": 1e-3,
        },
    )
    found.advance(0.02)
    done = list(ends(found))
    assert len(done) >= 4
    assert {n for _, n in done} == {n_messages}
    steps = wire_bytes / 1500 / (600 if collective == "tree_all_reduce" else 150)
    # A step ends with the ACK of its last packet: at most 10 us after the last bit has left.
    least_s = wire_bytes * 8 / 1e10
    for took_s, _ in done:
        assert least_s <= took_s <= 1.03 * least_s + steps * 15e-6
    flows = found.flows()
    begins_s = [flows.start_s[flows.group == group].min() for group in range(len(done))]
    periods_s = np.diff(begins_s)
    assert np.all(periods_s >= 1e-3 + 0.7 * least_s)
    assert np.all(periods_s <= 1e-3 + 1.05 * least_s + steps * 15e-6)


def test_no_message_starts_before_those_it_waits_for_have_ended() -> None:
    found = network("allreduce-tree-hadoop-mix", seed=3)
    found.advance(0.02)
    flows, schedule = found.flows(), found._schedule
    waited = 0
    for flow in np.flatnonzero(flows.started & (schedule.needs > 0)):
        awaited = schedule.after[flow]
        last_s = flows.finish_s[awaited[awaited >= 0]].max()
        assert flows.start_s[flow] == pytest.approx(last_s + schedule.after_delay_ns[flow] * 1e-9, abs=2e-9)
        waited += 1
    assert waited > 30


@pytest.mark.parametrize(
    "name", ["leafspine-hadoop", "fattree-k4-rpc", "incast-websearch-mix", "onoff-dumbbell"]
)
def test_open_loop_traffic_is_carried_as_offered(name: str) -> None:
    found = network(name)
    horizon_s = found.scenario.horizon_s / 2
    found.advance(horizon_s)
    flows = found.flows()
    offered = flows.size_bytes[flows.started].sum()
    assert flows.delivered_bytes.sum() > 0.6 * offered
    assert np.mean(np.isfinite(flows.finish_s[flows.started])) > 0.9
