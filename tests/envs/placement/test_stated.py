"""Systems other than the stated one: agents are told the one, and the other decides."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

SEED = 20_003
IDS = {"sysgym/CollectivePlacement-v0": "placement-unseen", "sysgym/ReductionProgram-v0": "program-unseen"}


def make(env_id: str, log_sd: float) -> Any:
    scenario = IDS[env_id]
    return gym.make(env_id, scenario=scenario, split="test", overrides={"system.stated_log_sd": log_sd})


def begun(env_id: str, log_sd: float) -> tuple[Any, Any]:
    env = make(env_id, log_sd)
    observation, _ = env.reset(options={"episode_seed": SEED})
    return env.unwrapped, observation


@pytest.mark.parametrize("env_id", IDS)
def test_without_errors_the_stated_system_is_the_true_one(env_id: str) -> None:
    world, _ = begun(env_id, 0.0)
    assert world.truth is world.task


@pytest.mark.parametrize("env_id", IDS)
def test_the_problem_is_the_same_but_for_bandwidths_and_latencies(env_id: str) -> None:
    (plain, told), (world, wrong) = begun(env_id, 0.0), begun(env_id, 1.0)
    assert world.truth.problem == plain.problem
    stated, true = world.problem, world.truth.problem
    assert (stated.axes, stated.reductions) == (true.axes, true.reductions)
    for one, other in zip(stated.hierarchy.levels, true.hierarchy.levels, strict=True):
        assert one.bandwidth_bytes_per_s != other.bandwidth_bytes_per_s
        assert one.latency_s != other.latency_s
        assert (one.name, one.cardinality, one.uplinks) == (other.name, other.cardinality, other.uplinks)
    different = {key for key in told if not np.array_equal(told[key], wrong[key])}
    assert different
    assert "action_mask" not in different


def test_the_true_system_decides() -> None:
    world, _ = begun("sysgym/CollectivePlacement-v0", 1.0)
    plain, _ = begun("sysgym/CollectivePlacement-v0", 0.0)
    over = False
    infos: list[dict[str, float]] = []
    while not over:
        action = int(np.flatnonzero(world.action_masks())[0])
        *_, over, _, info = world.step(action)
        *_, _, _, other = plain.step(action)
        infos = [info["episode_metrics"], other["episode_metrics"]] if over else infos
    assert infos[0] == infos[1]


def test_errors_have_the_stated_spread() -> None:
    env = make("sysgym/CollectivePlacement-v0", 0.5)
    logs = []
    for seed in range(20_000, 20_200):
        env.reset(options={"episode_seed": seed})
        world = env.unwrapped
        levels = zip(world.problem.hierarchy.levels, world.truth.problem.hierarchy.levels, strict=True)
        logs += [np.log(one.bandwidth_bytes_per_s / other.bandwidth_bytes_per_s) for one, other in levels]
    assert np.std(logs) == pytest.approx(0.5, rel=0.15)
    assert np.mean(logs) == pytest.approx(0.0, abs=0.08)
