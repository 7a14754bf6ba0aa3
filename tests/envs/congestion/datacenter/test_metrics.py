"""Metrics, compared with the counters and with known small cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.counters.statistics import FlowTable
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.datacenter.measurement import Interval
from sysgym.envs.congestion.datacenter.metrics import (
    EPISODE_METRICS,
    INTERVAL_METRICS,
    fct_slowdowns,
    flow_metrics,
    interval_metrics,
    round_completions_s,
)

MakeEnv = Callable[..., Any]
MakeInterval = Callable[..., Interval]


def play(env: Any, rate: float, seed: int = 0) -> list[dict[str, Any]]:
    """Play an episode at one rate; returns all infos."""
    env.reset(seed=seed)
    action = np.full(env.action_space.shape, rate, np.float32)
    infos, over = [], False
    while not over:
        *_, over, info = env.step(action)
        infos.append(info)
    return infos


def flow_table(**columns: Any) -> FlowTable:
    """Make a table of flows; what is not given is 0, and every flow has started."""
    n = len(next(iter(columns.values())))
    values: dict[str, Any] = {name: np.zeros(n) for name in FlowTable._fields}
    values |= {"started": np.ones(n, bool), "group": np.full(n, -1)}
    values |= {name: np.asarray(column) for name, column in columns.items()}
    return FlowTable(**values)


@pytest.mark.parametrize(
    ("scenario", "absent"),
    [
        ("dumbbell-10g", {"completed_flows", "fct_slowdown_p99", "round_completion_mean_s"}),
        ("incast-32", {"jain_index", "fct_slowdown_p99_large"}),
        ("fattree-k4-websearch", {"jain_index", "round_completion_mean_s"}),
    ],
)
def test_what_a_scenario_does_not_have_is_absent(make_env: MakeEnv, scenario: str, absent: set[str]) -> None:
    infos = play(make_env(scenario, overrides={"control.episode_steps": 40}), 0.05)
    metrics = infos[-1]["episode_metrics"]
    assert not absent & set(metrics)
    documented = set(EPISODE_METRICS)
    assert set(metrics) <= documented
    assert all(set(info["metrics"]) <= set(INTERVAL_METRICS) for info in infos)
    assert all(np.isfinite(value) for value in metrics.values())
    assert all("episode_metrics" not in info for info in infos[:-1])


def test_the_episode_is_the_mean_of_its_intervals(make_env: MakeEnv) -> None:
    infos = play(make_env("incast-32"), 0.05)
    episode = infos[-1]["episode_metrics"]
    goodput = [info["metrics"]["goodput_bps"] for info in infos]
    assert episode["goodput_bps"] == pytest.approx(np.mean(goodput))


def test_a_fair_full_link(make_env: MakeEnv) -> None:
    env = make_env(
        overrides={"control.episode_steps": 80, "control.warmup_s": 0.0, "workload.flows_per_pair": 1}
    )
    metrics = play(env, 0.25)[-1]["episode_metrics"]
    assert metrics["goodput_bps"] == pytest.approx(10e9 * 1460 / 1500, rel=0.03)
    assert metrics["utilization"] == pytest.approx(1.0, abs=0.03)
    assert metrics["jain_index"] == pytest.approx(1.0, abs=0.01)
    assert metrics["drop_fraction"] == metrics["timeouts"] == metrics["retransmitted_fraction"] == 0.0
    assert metrics["rtt_mean_s"] == pytest.approx(env.fabric.base_rtt_s, rel=0.1)
    assert metrics["queue_p99_bytes"] < 8 * 1500
    # Waiting behind a packet of each of the three other hosts at most.
    assert metrics["queue_delay_mean_s"] < 3 * 1.2e-6


def test_an_overloaded_link(make_env: MakeEnv) -> None:
    env = make_env(overrides={"control.episode_steps": 80, "workload.flows_per_pair": 1})
    metrics = play(env, 0.5)[-1]["episode_metrics"]
    assert metrics["queue_p99_bytes"] == pytest.approx(1_000_000, rel=0.05)
    assert metrics["queue_delay_p99_s"] == pytest.approx(800e-6, rel=0.05)
    # Twice what the link carries is sent: once the buffer is full, half is dropped.
    assert 0.3 < metrics["drop_fraction"] < 0.5
    assert metrics["retransmitted_fraction"] > 0.0
    assert metrics["mark_fraction"] > 0.9


def test_the_warm_up_does_not_count(make_env: MakeEnv) -> None:
    crowded = {"control.warmup_s": 20e-3, "control.episode_steps": 80, "workload.flows_per_pair": 1}
    env = make_env(overrides=crowded)
    metrics = play(env, 0.01)[-1]["episode_metrics"]
    ports = env.network.ports()
    assert ports.dropped_packets.sum() > ports.accepted_packets.max()
    assert metrics["drop_fraction"] < 0.02  # packets under way when it ends find a full queue


def test_slowdowns_of_unfinished_flows_are_lower_bounds() -> None:
    flows = flow_table(
        size_bytes=[1000, 1000, 1000, 1000, -1],
        start_s=[0.0, 0.0, 0.9, 2.0, 0.0],
        finish_s=[0.2, np.nan, np.nan, np.nan, np.nan],
        ideal_fct_s=[0.1, 0.1, 0.2, 0.1, np.nan],
        started=[True, True, True, False, True],
    )
    slowdown, size_bytes = fct_slowdowns(flows, 1.0)
    # The third is younger than it would take alone, the fourth has not begun, the fifth never ends.
    assert slowdown == pytest.approx([2.0, 10.0])
    assert size_bytes.tolist() == [1000, 1000]


def test_slowdowns_by_size() -> None:
    flows = flow_table(
        size_bytes=[50_000, 99_999, 100_000, 999_999, 1_000_000],
        start_s=np.zeros(5),
        finish_s=[1.0, 3.0, 4.0, 6.0, 9.0],
        ideal_fct_s=np.ones(5),
    )
    metrics = flow_metrics(flows, 10.0)
    assert metrics["fct_slowdown_p50"] == 4.0
    assert metrics["fct_slowdown_p50_small"] == 2.0
    assert metrics["fct_slowdown_p50_medium"] == 5.0
    assert metrics["fct_slowdown_p50_large"] == metrics["fct_slowdown_p99_large"] == 9.0
    assert metrics["completed_flows"] == metrics["offered_flows"] == 5.0
    assert metrics["offered_bps"] == pytest.approx(2_249_998 * 8 / 10)


def test_the_largest_flows_count_where_they_are_not_cut_off() -> None:
    flows = flow_table(
        size_bytes=[9_999_999, 10_000_000, 30_000_000],
        start_s=np.zeros(3),
        finish_s=[2.0, 3.0, 5.0],
        ideal_fct_s=np.ones(3),
    )
    assert "fct_slowdown_p50_huge" not in flow_metrics(flows, 10.0)
    metrics = flow_metrics(flows, 10.0, drained=True)
    assert metrics["fct_slowdown_p50_huge"] == 4.0
    assert metrics["fct_slowdown_p50_large"] == 3.0


@pytest.mark.parametrize("law", ["dctcp", "bbr"])
def test_drained_episodes_end_with_all_flows_finished(law: str) -> None:
    env = DatacenterCC("fattree-k4-websearch-drained", split="test", transport=law)
    action = np.ones(env.fabric.n_hosts, np.float32)
    env.reset(seed=0, options={"episode_seed": 20_000})
    over = False
    while not over:
        *_, over, info = env.step(action)
    metrics = info["episode_metrics"]
    assert metrics["completed_flows"] == metrics["offered_flows"] > 300
    assert metrics["fct_slowdown_p50_huge"] > 1.0
    assert env.network.flows().start_s.max() < 0.08


def test_a_round_lasts_until_its_last_byte() -> None:
    flows = flow_table(
        size_bytes=[10] * 7,
        group=[0, 0, 1, 1, 2, 2, -1],
        start_s=[0.0, 0.1, 1.0, 1.1, 1.95, 1.95, 0.0],
        finish_s=[0.5, 0.4, 1.2, np.nan, np.nan, np.nan, 0.1],
        ideal_fct_s=[0.1] * 7,
    )
    # The second is late: its age counts. The third is too young to tell.
    assert round_completions_s(flows, 2.0) == pytest.approx([0.5, 1.0])


def test_jain_is_over_shares_of_hosts_with_demand(make_interval: MakeInterval) -> None:
    ideal = [100.0, 50.0, 0.0, 0.0]
    metrics = interval_metrics(make_interval(ideal_bytes=ideal, delivered_bytes=[100.0, 50.0, 0.0, 0.0]))
    assert metrics["jain_index"] == pytest.approx(1.0)
    metrics = interval_metrics(make_interval(ideal_bytes=ideal, delivered_bytes=[100.0, 0.0, 0.0, 0.0]))
    assert metrics["jain_index"] == pytest.approx(0.5)
    alone = interval_metrics(make_interval(ideal_bytes=[1.0, 0.0, 0.0, 0.0]))
    assert "jain_index" not in alone
