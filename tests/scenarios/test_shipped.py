"""Every included scenario and suite loads and agrees with its sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.topology.round_trips import longest_round_trip_s
from sysgym.scenarios import (
    CongestionScenario,
    list_scenarios,
    list_suites,
    load_scenario,
    load_suite,
    scenario_from_resolved,
)
from sysgym.scenarios.schema.splits import SPLIT_NAMES

NAMES = [info.name for info in list_scenarios()]

CONGESTION = {
    "allreduce-ring-16",
    "allreduce-tree-hadoop-mix",
    "allreduce-two-jobs-leafspine",
    "alltoall-fattree-k4",
    "alltoall-leafspine-2to1",
    "dumbbell-100g-early-marks",
    "dumbbell-100m-hadoop",
    "dumbbell-10g",
    "dumbbell-1g-10ms-websearch",
    "dumbbell-20m-hadoop",
    "dumbbell-40g-websearch",
    "fattree-k4-hadoop-unmarked",
    "fattree-k4-rpc",
    "fattree-k4-websearch",
    "fattree-k4-websearch-drained",
    "fattree-k4-websearch-lossless",
    "fattree-k4-websearch-shared",
    "fattree-k4-websearch-trimming",
    "fattree-k6-storage-shallow",
    "fattree-k8-permutation",
    "fattree-k8-permutation-drained",
    "incast-24-storage-mix",
    "incast-256",
    "incast-32",
    "incast-32-lossless",
    "incast-32-shared",
    "incast-32-trimming",
    "incast-64",
    "incast-websearch-mix",
    "incast-websearch-mix-drained",
    "iroko-dumbbell-10m",
    "iroko-dumbbell-1g",
    "iroko-fattree-10m",
    "iroko-fattree-10m-step",
    "iroko-fattree-1g",
    "jellyfish-20",
    "leafspine-2to1-websearch",
    "leafspine-2to1-websearch-drained",
    "leafspine-3to1-hadoop",
    "leafspine-400g-websearch",
    "leafspine-hadoop",
    "leafspine-link-failure",
    "leafspine-slow-spine",
    "leafspine-storage",
    "leafspine-storage-lossy",
    "leafspine-websearch-two-failures",
    "linux-dumbbell-100m",
    "linux-dumbbell-1g",
    "linux-fattree-incast",
    "linux-fattree-incast-shallow",
    "linux-fattree-stride",
    "onoff-dumbbell",
    "parking-lot-3-websearch",
    "parking-lot-4",
    "three-tier-32",
    "torus-16-websearch",
    "wan-abilene",
}


FLOWS = {"aurora-links", "flow-1g-1ms", "flow-datacenter", "flow-incast", "genet-links", "linux-flow-100m"}


def test_the_congestion_family_is_complete() -> None:
    assert {info.name for info in list_scenarios("congestion")} == CONGESTION | FLOWS
    flows = {info.name for info in list_scenarios("congestion") if info.env_id == "sysgym/FlowCC-v0"}
    assert flows == FLOWS


@pytest.mark.parametrize("name", NAMES)
def test_scenario_loads_and_round_trips(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario_from_resolved(scenario.resolved()) == scenario
    assert scenario.description.strip()
    assert scenario.references


@pytest.mark.parametrize("name", NAMES)
def test_every_split_draws(name: str) -> None:
    scenario = load_scenario(name)
    for split in SPLIT_NAMES:
        for seed in (scenario.splits[split].seeds[0], scenario.splits[split].seeds[1]):
            assert scenario.draw(split, seed).draw(split, seed) == scenario.draw(split, seed)


@pytest.mark.parametrize("name", sorted(CONGESTION))
def test_decisions_last_a_round_trip_or_more(name: str) -> None:
    """A shorter interval would show the agent nothing of its last action."""
    scenario = load_scenario(name, expect=CongestionScenario)
    topology, mtu_bytes = scenario.topology, scenario.transport.mtu_bytes
    if topology.kind == "graph":
        empty_s = longest_round_trip_s(build_topology(topology), mtu_bytes, scenario.transport.header_bytes)
    else:
        hops = {"single_switch": 2, "dumbbell": 3, "fat_tree": 6, "leaf_spine": 4, "parking_lot": 6}
        way_s = topology.link_delay_s + topology.link_jitter_s
        empty_s = hops[topology.kind] * (2 * way_s + 8 * mtu_bytes / topology.link_rate_bps)
    empty_s += 2 * (scenario.transport.host_jitter_s or 0.0)
    assert scenario.queue.ecn_threshold_bytes is not None
    marked_s = empty_s + 8 * scenario.queue.ecn_threshold_bytes / topology.link_rate_bps
    assert marked_s <= scenario.control.decision_interval_s <= 60 * empty_s


@pytest.mark.parametrize("name", sorted(CONGESTION | FLOWS))
def test_numbers_have_comments(name: str) -> None:
    path = next(info.path for info in list_scenarios() if info.name == name)
    text = Path(path).read_text()
    for key in ("buffer_bytes", "min_rto_s", "decision_interval_s", "episode_steps"):
        line = next(line for line in text.splitlines() if line.startswith(key))
        assert "#" in line, line


@pytest.mark.parametrize(
    ("name", "rate_bps", "buffer_bytes"),
    [("10m", 10e6, 400_000), ("1g", 1e9, 4_000_000)],
)
def test_iroko_has_iroko_s_buffers(name: str, rate_bps: float, buffer_bytes: int) -> None:
    for form in ("dumbbell", "fattree"):
        scenario = load_scenario(f"iroko-{form}-{name}", expect=CongestionScenario)
        assert scenario.topology.link_rate_bps == rate_bps
        assert scenario.queue.buffer_bytes == buffer_bytes
        assert scenario.topology.n_hosts == {"dumbbell": 4, "fattree": 16}[form]
        assert scenario.transport.min_rto_s == 0.2


def test_iroko_s_episode_lasts_a_minute() -> None:
    assert load_scenario("iroko-dumbbell-10m", expect=CongestionScenario).horizon_s == pytest.approx(60.0)


def test_dumbbell_10g_marks_at_65_packets() -> None:
    scenario = load_scenario("dumbbell-10g", expect=CongestionScenario)
    assert scenario.queue.ecn_threshold_bytes == 65 * scenario.transport.mtu_bytes
    assert scenario.topology.n_hosts == 8


def test_incast_overflows_the_buffer_at_the_load_it_states() -> None:
    scenario = load_scenario("incast-32", expect=CongestionScenario)
    workload = scenario.workload
    assert workload.kind == "incast"
    packets = -(-workload.request_bytes // scenario.transport.payload_bytes)
    burst = workload.senders * (workload.request_bytes + packets * scenario.transport.header_bytes)
    assert burst > 4 * scenario.queue.buffer_bytes
    load = burst * 8 / workload.period_s / scenario.topology.link_rate_bps
    assert load == pytest.approx(0.80, abs=0.005)
    assert workload.senders == scenario.topology.n_hosts - 1


@pytest.mark.parametrize(
    "name", sorted(name for name in CONGESTION if not name.startswith(("iroko", "linux")))
)
def test_tests_hold_what_training_has_not_seen(name: str) -> None:
    splits = load_scenario(name).splits
    assert splits.test.vary
    for key, values in splits.test.vary.items():
        assert set(values) - set(splits.train.vary[key])


def test_a_part_of_a_mix_varies() -> None:
    scenario = load_scenario("incast-websearch-mix", expect=CongestionScenario)
    drawn = [scenario.draw("test", seed).workload for seed in range(20_000, 20_030)]
    loads = {
        part.load
        for workload in drawn
        if workload.kind == "mix"
        for part in workload.parts.values()
        if part.kind == "poisson"
    }
    assert loads == {0.3, 0.5}


@pytest.mark.parametrize("name", [info.name for info in list_suites()])
def test_suite_loads(name: str) -> None:
    suite = load_suite(name)
    for task in suite.tasks:
        assert len(task.seed_values) >= 10
        assert task.split == "test"
        trained = {training.agent for training in suite.training if training.scenario == task.scenario}
        assert ("ppo" in task.contender_names) == ("ppo" in trained)


def test_quick_holds_the_main_contest() -> None:
    suite = load_suite("quick")
    assert [task.scenario for task in suite.tasks] == [
        "iroko-dumbbell-10m",
        "incast-32",
        "fattree-k4-websearch",
    ]
    for task in suite.tasks:
        assert {"reno", "cubic", "dctcp", "newvegas", "oracle"} <= set(task.contender_names)
        assert task.seed_values == tuple(range(20_000, 20_010))
    # Three training seeds each: a single run of a learner says little.
    assert {(t.agent, t.scenario, t.seed) for t in suite.training} == {
        ("ppo", scenario, seed) for scenario in ("iroko-dumbbell-10m", "incast-32") for seed in (1, 2, 3)
    }
