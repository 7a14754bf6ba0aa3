"""Agents of the tuning family: searches are no worse than where they begin, budgets hold, errors are told."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.agents import agent_info, list_agents, make_agent, play_episode
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


def test_25_mb_is_the_reference() -> None:
    _, metrics = played(made("25_mb"), "tuning-buckets")
    assert metrics["speedup"] == 1.0
    _, larger = played(made("25_mb", cap_mib=1e6), "tuning-buckets", overrides={"job.start": "one_bucket"})
    assert larger["speedup_over_one_bucket"] == 1.0
    with pytest.raises(SysgymError, match="25_mb: cap_mib: expected above 0, got 0"):
        made("25_mb", cap_mib=0)


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
