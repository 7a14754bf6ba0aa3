"""Agents of the bursts family: oracles are optima, rules do what they say, bad parameters are refused."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.agents import agent_info, list_agents, make_agent, play_episode
from sysgym.agents.learned.training.train import train
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.errors import SysgymError

REGISTERED = sysgym.__version__
SHIPPED = [info.name for info in list_scenarios("bursts")]
RULES = [name for name in list_agents("bursts") if agent_info(name).family == "bursts"]
PLANNERS = ("data_parallel", "one_gpu", "fixed_gpus", "knee", "deeppool", "dynamic_program", "random")
TENANTS = ("no_background", "constant_background", "aimd_background", "model_background", "random")


def made(name: str, **parameters: Any) -> Any:
    return make_agent(name, family="bursts", **parameters)


def env_of(scenario: str, **overrides: Any) -> Any:
    env_id = load_scenario(scenario).env_id
    return gym.make(env_id, scenario=scenario, split="validation", overrides=overrides)


def metrics_of(agent: Any, scenario: str, seed: int = 10_000, **overrides: Any) -> dict[str, float]:
    _, info = play_episode(env_of(scenario, **overrides), agent, options={"episode_seed": seed})
    metrics: dict[str, float] = info["episode_metrics"]
    return metrics


@pytest.mark.parametrize("scenario", SHIPPED)
def test_the_oracle_is_the_optimum_and_nobody_is_better(scenario: str) -> None:
    short = {"control.episode_steps": 100}
    for seed in (10_000, 10_001):
        assert metrics_of(made("oracle"), scenario, seed, **short)["regret"] == pytest.approx(0.0, abs=1e-12)
        for name in PLANNERS if scenario.startswith("burst-plan") else TENANTS:
            assert metrics_of(made(name), scenario, seed, **short)["regret"] >= -1e-12


def test_the_dynamic_program_is_the_optimum_if_the_profile_is_exact() -> None:
    for seed in range(10_000, 10_006):
        assert metrics_of(made("dynamic_program"), "burst-plan", seed)["regret"] == pytest.approx(
            0.0, abs=1e-12
        )
    unseen = [
        metrics_of(made("dynamic_program"), "burst-plan-unseen", seed)["regret"]
        for seed in range(10_000, 10_010)
    ]
    assert 0.0 < np.mean(unseen) < 0.1


def test_the_same_number_of_gpus_everywhere() -> None:
    one = metrics_of(made("one_gpu"), "burst-plan")
    assert one["speedup"] == pytest.approx(1.0)
    assert one["idle_share"] == pytest.approx(7 / 8)
    assert one == metrics_of(made("fixed_gpus", gpus=1), "burst-plan")
    every = metrics_of(made("data_parallel"), "burst-plan")
    assert every["idle_share"] == pytest.approx(0.0)
    assert every["changes"] == 0.0
    assert every == metrics_of(made("fixed_gpus", gpus=64), "burst-plan")


def test_a_larger_limit_is_faster_and_leaves_less() -> None:
    plans = [
        metrics_of(made("deeppool", limit=limit), "burst-plan", 10_003) for limit in (1.25, 2.0, 3.0, 8.0)
    ]
    assert np.all(np.diff([plan["speedup"] for plan in plans]) >= 0.0)
    assert plans[0]["idle_share"] > plans[-1]["idle_share"]


def test_additive_increase_goes_back_when_the_foreground_is_slow() -> None:
    """Under strong interference it never stays above its target; without any it reaches the most."""
    steady = {"background.drift_log_sd": 0.0, "background.noise_log_sd": 0.0, "control.episode_steps": 200}
    agent = made("aimd_background", target=0.15, batch=16, every=5)
    env = env_of("burst-mux", **steady, **{"background.interference": 0.5})
    play_episode(env, agent, options={"episode_seed": 10_000})
    pieces = [window.pieces for window in env.unwrapped.episode.windows]
    assert set(pieces) == {0, 1}
    assert all(later == 0 for now, later in itertools.pairwise(pieces) if now == 1)
    env = env_of("burst-mux", **steady, **{"background.interference": 0.0, "background.piece_s": 1e-4})
    play_episode(env, agent, options={"episode_seed": 10_000})
    assert env.unwrapped.episode.windows[-1].pieces == 4


def test_the_model_finds_the_interference() -> None:
    """It begins with the scenario's, which is wrong here by a factor, and is soon at the optimum."""
    steady = {"background.drift_log_sd": 2.0, "background.drift_s": 1e4, "background.noise_log_sd": 0.0}
    agent = made("model_background", memory=0.5, margin=0.0)
    env = env_of("burst-mux", **steady, **{"control.episode_steps": 50})
    play_episode(env, agent, options={"episode_seed": 10_002})
    episode = env.unwrapped.episode
    assert not 0.5 < episode.interference[0] / 0.04 < 2.0
    worth = episode.worth.max(axis=1)[-10:] - [
        1.0 / window.slowdown + window.background for window in episode.windows[-10:]
    ]
    np.testing.assert_allclose(worth, 0.0, atol=1e-3)


@pytest.mark.parametrize("name", [name for name in RULES if name != "bursts/random"])
def test_agents_refuse_environments_that_they_cannot_play(name: str) -> None:
    other = gym.make("sysgym/CollectiveSynthesis-v0")
    other.reset(seed=0)
    with pytest.raises(SysgymError, match="not CollectiveSynthesis"):
        made(name.removeprefix("bursts/")).begin(other)


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("fixed_gpus", {"gpus": 3}, "power of two"),
        ("deeppool", {"limit": 0.5}, "limit: expected at least 1, got 0.5"),
        ("constant_background", {"batch": 3}, "batch: expected one of 0, 1, 2"),
        ("aimd_background", {"every": 0}, "every: expected at least 1"),
        ("model_background", {"memory": 1.0}, "memory: expected at least 0 and below 1"),
    ],
)
def test_parameters_out_of_range_are_refused(name: str, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(SysgymError, match=words):
        made(name, **parameters)


@pytest.mark.slow
def test_a_policy_learns_a_little_plays_and_is_the_same_every_time(tmp_path: Path) -> None:
    tiny = {"n_steps": 64, "batch_size": 32}
    paths = [
        train(
            "ppo", "burst-plan", total_steps=256, out=tmp_path / run, n_envs=2, seed=1, hyper_parameters=tiny
        )
        for run in ("one", "two")
    ]
    one, other = (metrics_of(made("ppo", checkpoint=path), "burst-plan") for path in paths)
    assert one == other
