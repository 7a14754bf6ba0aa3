"""Estimates of an episode's size, compared with the real size; oversized worlds are refused at once."""

from __future__ import annotations

import time
import tracemalloc
import warnings

import gymnasium as gym
import pytest

import sysgym  # noqa: F401, registers the environments
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.sizing import estimate as sizing
from sysgym.emulator.packets.sizing.estimate import LongEpisode, check_size, duration, estimate
from sysgym.emulator.packets.sizing.topology_size import topology_size
from sysgym.emulator.packets.topology import build_topology
from sysgym.scenarios import CongestionScenario, list_scenarios, load_scenario
from sysgym.scenarios.errors import ScenarioError

FACTOR = 3.0
MOST_HOPS = 2e6
"""Longer episodes are played in part: their work grows in proportion."""

SCENARIOS = [info.name for info in list_scenarios("congestion")]


def _drawn(name: str) -> CongestionScenario:
    return load_scenario(name, expect=CongestionScenario).draw("test", 20_000)


@pytest.mark.parametrize("name", SCENARIOS)
def test_flows_and_memory_are_estimated_within_a_factor(name: str) -> None:
    scenario = _drawn(name)
    PacketNetwork(scenario)  # compiles, which allocates
    tracemalloc.start()
    try:
        network = PacketNetwork(scenario)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    expected = estimate(scenario)
    n_flows = len(network.schedule.src)
    assert n_flows / FACTOR <= expected.flows <= n_flows * FACTOR
    assert peak_bytes / FACTOR <= expected.memory_bytes <= peak_bytes * FACTOR


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "dumbbell-10g",
        "incast-32",
        "fattree-k4-websearch",
        "leafspine-2to1-websearch",
        "parking-lot-4",
        "onoff-dumbbell",
        "allreduce-ring-16",
        "iroko-dumbbell-10m",
        "aurora-links",
    ],
)
def test_work_is_estimated_within_a_factor(name: str) -> None:
    scenario = _drawn(name)
    expected = estimate(scenario)
    share = min(MOST_HOPS / expected.packet_hops, 1.0)
    network = PacketNetwork(scenario, transport="dctcp")
    network.reset(20_000)
    network.advance(scenario.horizon_s * share)
    hops = network.packet_hops / share
    assert hops / FACTOR <= expected.packet_hops <= hops * FACTOR


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_size_of_a_topology_is_that_of_the_network(name: str) -> None:
    table = _drawn(name).topology
    size, built = topology_size(table), build_topology(table)
    assert (size.n_hosts, size.n_links) == (built.n_hosts, built.n_links)
    assert size.n_nodes == len(built.node_names)
    assert size.n_edges == len(set(built.host_edge.tolist()))


ABSURD = {
    "a long incast": ("incast-64", {"control.episode_steps": 5_000_000}),
    "all to all": ("fattree-k4-rpc", {"topology.k": 32, "control.episode_steps": 1_000_000}),
    "on and off": (
        "onoff-dumbbell",
        {"topology.hosts_per_side": 4096, "workload.pairs": "all_to_all", "workload.rate_bps": 1e3},
    ),
    "a ring of thousands": (
        "allreduce-ring-16",
        {"topology.leaves": 64, "topology.hosts_per_leaf": 128, "workload.job_hosts": 8192},
    ),
}


@pytest.mark.parametrize("what", ABSURD)
def test_a_world_beyond_the_memory_is_refused_before_it_is_built(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizing, "machine_memory_bytes", lambda: 8e9)
    name, overrides = ABSURD[what]
    began_s = time.process_time()
    with pytest.raises(ScenarioError, match="of memory for an episode") as caught:
        gym.make("sysgym/DatacenterCC-v0", scenario=name, overrides=overrides)
    assert time.process_time() - began_s < 5.0
    assert "of this machine's" in str(caught.value)
    assert "episode_steps" in str(caught.value)


def test_a_long_episode_is_warned_of_and_a_short_one_not(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = load_scenario("dumbbell-10g", expect=CongestionScenario)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_size(scenario)
    monkeypatch.setattr(sizing, "LONG_EPISODE_S", 0.0)
    with pytest.warns(LongEpisode, match="dumbbell-10g: an episode takes about"):
        check_size(scenario)


def test_an_estimate_costs_next_to_nothing() -> None:
    scenario = load_scenario("fattree-k4-websearch", expect=CongestionScenario)
    estimate(scenario)
    began_s = time.process_time()
    for _ in range(20):
        estimate(scenario)
    assert (time.process_time() - began_s) / 20 < 5e-3


def test_times_in_words() -> None:
    assert [duration(time_s) for time_s in (40, 119, 120, 7200, 172800)] == [
        "40 s",
        "119 s",
        "2 min",
        "2 h",
        "2 days",
    ]
