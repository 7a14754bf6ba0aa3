"""Agents of the tuning family: searches are no worse than where they begin, budgets hold, errors are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.agents import agent_info, list_agents, make_agent, play_episode
from sysgym.agents.learned.training.train import train
from sysgym.emulator.tuning.job import as_thought
from sysgym.emulator.tuning.timing import step_of
from sysgym.scenarios import list_scenarios
from sysgym.scenarios.errors import SysgymError

REGISTERED = sysgym.__version__
SHIPPED = [info.name for info in list_scenarios("tuning")]
RULES = [
    name
    for name in list_agents("tuning")
    if agent_info(name, "tuning").family == "tuning" and not agent_info(name, "tuning").learned
]


def made(name: str, **parameters: Any) -> Any:
    return make_agent(name, family="tuning", **parameters)


def played(
    agent: Any, scenario: str, seed: int = 10_000, overrides: Any = None
) -> tuple[Any, dict[str, float]]:
    env = gym.make("sysgym/TrainingTuning-v0", scenario=scenario, split="validation", overrides=overrides)
    _, info = play_episode(env, agent, options={"episode_seed": seed})
    return env.unwrapped, info["episode_metrics"]


@pytest.mark.parametrize("scenario", SHIPPED)
@pytest.mark.parametrize("name", RULES)
def test_no_agent_is_slower_than_the_beginning_or_uses_more_than_its_budget(name: str, scenario: str) -> None:
    for seed in (10_000, 10_003):
        world, metrics = played(made(name), scenario, seed)
        assert metrics["speedup"] >= 1.0
        assert metrics["valid"] == 1.0
        assert metrics["tried"] <= world.scenario.control.episode_steps


def test_25_mb_is_the_reference() -> None:
    _, metrics = played(made("25_mb"), "tuning-buckets")
    assert metrics["speedup"] == 1.0
    _, larger = played(made("25_mb", cap_mb=1e6), "tuning-buckets", overrides={"job.start": "one_bucket"})
    assert larger["speedup_over_one_bucket"] == 1.0


def test_by_the_profile_searches_are_ordered() -> None:
    """Where the profile is the truth, annealing is no worse than fusion, nor the oracle than descent."""
    exact = {
        "truth.launch_s": 0.0, "truth.overlap_slowdown": 0.0, "truth.jitter_log_sd": 0.0,
        "truth.chunk_bytes": 1e12,
    }  # fmt: skip
    for seed in range(10_000, 10_004):
        of = {
            name: played(made(name), "tuning-buckets", seed, exact)[1]
            for name in ("25_mb", "fusion", "fusion_by_need", "annealing", "critical_path", "oracle")
        }
        assert all(one["model_error"] == pytest.approx(0.0, abs=1e-9) for one in of.values())
        assert of["annealing"]["speedup"] >= max(of["fusion"]["speedup"], of["fusion_by_need"]["speedup"])
        assert of["oracle"]["speedup"] >= of["critical_path"]["speedup"] - 1e-12


def test_local_search_measures_what_the_profile_finds_best() -> None:
    world, metrics = played(made("local_search"), "tuning-buckets", 10_001)
    assert metrics["tried"] > 3
    predicted_s = step_of(world.best_plan, world.profile, as_thought(world.profile)).time_s
    assert metrics["model_error"] == pytest.approx(abs(predicted_s / world.best_s - 1.0))
    means = {
        name: np.mean(
            [played(made(name), "tuning-buckets", seed)[1]["speedup"] for seed in range(10_000, 10_008)]
        )
        for name in ("local_search", "random")
    }
    assert means["local_search"] > means["random"]


@pytest.mark.parametrize("name", ["random_search", "annealing", "local_search"])
def test_searches_have_the_same_budget(name: str) -> None:
    """No more plans by the profile than the budget, and as many measurements as the episode has."""
    for seed in (10_000, 10_002):
        world, metrics = played(made(name), "tuning-buckets", seed)
        assert metrics["predicted"] <= 2000
        assert metrics["tried"] == world.scenario.control.episode_steps
        _, few = played(made(name, evaluations=60, measurements=5), "tuning-buckets", seed)
        assert few["predicted"] <= 60
        assert few["tried"] <= 5


@pytest.mark.parametrize("name", RULES)
def test_agents_refuse_other_environments(name: str) -> None:
    other = gym.make("sysgym/CollectiveSynthesis-v0")
    other.reset(seed=0)
    with pytest.raises(SysgymError, match="plays TrainingTuning, not CollectiveSynthesis"):
        made(name).begin(other)


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("25_mb", {"cap_mb": 0.0}, "cap_mb > 0"),
        ("annealing", {"evaluations": 0}, "evaluations >= 1"),
        ("annealing", {"warmth": 0.0}, "warmth > 0"),
        ("random_search", {"measurements": 0}, "measurements >= 1"),
    ],
)
def test_parameters_out_of_range_are_refused(name: str, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(SysgymError, match=words):
        made(name, **parameters)


@pytest.mark.slow
def test_a_policy_learns_a_little_plays_and_is_the_same_every_time(tmp_path: Path) -> None:
    tiny = {"n_steps": 32, "batch_size": 32}
    paths = [
        train("maskable_ppo_set", "tuning-buckets", total_steps=128, out=tmp_path / run, n_envs=2, seed=1,
              hyper_parameters=tiny)
        for run in ("one", "two")
    ]  # fmt: skip
    one, other = (played(made("maskable_ppo_set", checkpoint=path), "tuning-buckets")[1] for path in paths)
    assert one == other
