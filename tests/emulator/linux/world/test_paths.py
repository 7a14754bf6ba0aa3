"""Flows on the kernel take the simulator's paths."""

from __future__ import annotations

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork

from .conftest import MakeWorld
from .test_world import DELIVERED, rates_bps, run

pytestmark = pytest.mark.linux


def test_flows_and_their_acks_take_the_paths_of_the_simulator(make_world: MakeWorld) -> None:
    world = make_world("iroko-fattree-10m", overrides={})
    world.reset(3)
    world.advance(0.05)
    simulated = PacketNetwork(world.scenario, transport="cubic")
    simulated.reset(3)
    for acks in (False, True):
        wanted = simulated.routes(acks=acks)
        for flow in range(16):
            taken = world._routes(flow)[int(acks)]
            assert taken.tolist() == [link for link in wanted[flow] if link >= 0]
    assert not any("other paths" in warning for warning in world.warnings)


BUNDLE = {
    "topology": {
        "kind": "graph",
        "switches": ["a", "b"],
        "host_switches": ["a"] * 4 + ["b"] * 4,
        "link_rate_bps": 1e8,
        "link_delay_s": 1e-6,
        "link_model": "shaper",
        "cables": [{"ends": ["a", "b"]}, {"ends": ["a", "b"]}],
    },
    "workload": {"kind": "long_lived", "pairs": "stride", "stride": 4, "flows_per_pair": 3},
}
"""Two switches joined by two cables."""


def test_parallel_cables_have_the_flows_that_they_have_on_the_simulator(make_world: MakeWorld) -> None:
    world = make_world("linux-dumbbell-100m", "dctcp", BUNDLE)
    world.reset(3)
    world.advance(0.05)
    simulated = PacketNetwork(world.scenario, transport="dctcp")
    simulated.reset(3)
    wanted = simulated.routes()
    taken = [world._routes(flow)[0].tolist() for flow in range(len(wanted))]
    assert taken == [[link for link in route if link >= 0] for route in wanted]
    names = world.scenario.topology.kind, {simulated.topology.link_names[route[1]] for route in taken}
    assert names == ("graph", {"a->b", "a->b#2", "b->a", "b->a#2"})


def test_no_two_flows_share_a_port(make_world: MakeWorld) -> None:
    world = make_world(
        "leafspine-hadoop",
        overrides={
            "topology.link_rate_bps": 1e7,
            "control.decision_interval_s": 0.01,
            "control.episode_steps": 200,
        },
    )
    world.reset(1)
    schedule = world._schedule
    ends = {
        (int(schedule.src[flow]), int(schedule.dst[flow]), world._traffic.source_port(flow))
        for flow in range(len(schedule.src))
    }
    assert len(ends) == len(schedule.src)


def test_goodput_of_every_flow_of_the_fat_tree_is_that_of_the_simulator(make_world: MakeWorld) -> None:
    """Where flows meet decides what they get: with equal paths, equal shares."""
    world = make_world("iroko-fattree-10m", "dctcp", {"queue.ecn_threshold_bytes": 15_000})
    world.reset(3)
    run(world, 1.0, 0.1)
    measured_bps = rates_bps(world, 3.0, DELIVERED)
    simulated = PacketNetwork(world.scenario, transport="dctcp")
    simulated.reset(3)
    simulated.advance(1.0)
    before = simulated.hosts().delivered_bytes
    simulated.advance(3.0)
    simulated_bps = (simulated.hosts().delivered_bytes - before) * 8 / 3.0
    assert measured_bps.sum() == pytest.approx(simulated_bps.sum(), rel=0.05)
    assert np.corrcoef(measured_bps, simulated_bps)[0, 1] > 0.9
