"""Agents of the pipelines family: searches against balanced plans, budgets, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.agents import agent_info, list_agents, make_agent, play_episode
from sysgym.emulator.training.synthetic import synthetic_trace
from sysgym.scenarios import list_scenarios
from tests.emulator.training.conftest import rows_of, write_csv

REGISTERED = sysgym.__version__
SHIPPED = [info.name for info in list_scenarios("pipelines")]
RULES = [
    name
    for name in list_agents("pipelines")
    if agent_info(name, "pipelines").family == "pipelines" and not agent_info(name, "pipelines").learned
]


def made(name: str, **parameters: Any) -> Any:
    return make_agent(name, family="pipelines", **parameters)


def played(
    agent: Any, scenario: str, seed: int = 10_000, overrides: Any = None
) -> tuple[Any, dict[str, float]]:
    env = gym.make("sysgym/PipelineTuning-v0", scenario=scenario, split="validation", overrides=overrides)
    _, info = play_episode(env, agent, options={"episode_seed": seed})
    return env.unwrapped, info["episode_metrics"]


def test_unchanged_is_the_reference() -> None:
    _, metrics = played(made("unchanged"), "pipeline-gpt")
    assert metrics["speedup"] == 1.0
    assert metrics["tried"] == 0.0
    _, balanced = played(made("balanced"), "pipeline-gpt")
    assert balanced["speedup_over_balanced"] == 1.0
    assert metrics["speedup_over_balanced"] == pytest.approx(1.0 / balanced["speedup"])


def test_by_the_profile_searches_are_ordered() -> None:
    """Where the profile is the truth, annealing is no worse than balanced plans, nor the oracle than it."""
    exact = {"truth.layer_log_sd": 0.0, "truth.worker_log_sd": 0.0, "truth.jitter_log_sd": 0.0}
    balanced = ("balanced_stages", "longest_first", "balanced")
    for seed in range(10_000, 10_004):
        of = {
            name: played(made(name), "pipeline-gpt", seed, exact)[1]
            for name in (*balanced, "annealing", "critical_path", "local_search", "oracle")
        }
        assert all(one["model_error"] == pytest.approx(0.0, abs=1e-9) for one in of.values())
        best = max(of[name]["speedup"] for name in balanced)
        assert of["annealing"]["speedup"] >= best - 1e-12
        assert of["local_search"]["speedup"] >= best - 1e-12
        assert of["oracle"]["speedup"] >= of["annealing"]["speedup"] - 1e-12


def test_balanced_microbatches_are_faster_on_average() -> None:
    means = {
        name: np.mean(
            [played(made(name), "pipeline-gpt", seed)[1]["speedup"] for seed in range(10_000, 10_008)]
        )
        for name in ("longest_first", "random", "local_search")
    }
    assert means["local_search"] >= means["longest_first"] > means["random"] > 1.0


@pytest.mark.parametrize("name", ["balanced", "critical_path", "annealing", "local_search", "oracle"])
def test_recorded_steps(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    write_csv(path, rows_of(synthetic_trace(1, n_stages=2, n_data_ranks=3, n_microbatches=4, n_steps=5)))
    for seed in range(10_000, 10_005):
        _, metrics = played(made(name), "pipeline-gpt", seed, {"job.trace": str(path)})
        assert metrics["speedup"] >= 1.0
