"""Agents of the pipelines family: searches against balanced plans, budgets, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.agents import agent_info, list_agents, make_agent, play_episode
from sysgym.agents.learned.training.train import train
from sysgym.emulator.training.synthetic import synthetic_trace
from sysgym.scenarios import list_scenarios
from sysgym.scenarios.errors import SysgymError
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


@pytest.mark.parametrize("scenario", SHIPPED)
@pytest.mark.parametrize("name", RULES)
def test_no_agent_is_slower_than_the_beginning_or_uses_more_than_its_budget(name: str, scenario: str) -> None:
    for seed in (10_000, 10_003):
        world, metrics = played(made(name), scenario, seed)
        assert metrics["speedup"] >= 1.0
        assert metrics["valid"] == 1.0
        assert metrics["tried"] <= world.scenario.control.episode_steps


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


@pytest.mark.parametrize("name", ["random_search", "annealing", "local_search"])
def test_searches_have_the_same_budget(name: str) -> None:
    """No more plans by the profile than the budget, and as many measurements as the episode has."""
    for seed in (10_000, 10_002):
        world, metrics = played(made(name), "pipeline-gpt", seed)
        assert metrics["predicted"] <= 1000
        assert metrics["tried"] == world.scenario.control.episode_steps
        _, few = played(made(name, evaluations=60, measurements=5), "pipeline-gpt", seed)
        assert few["predicted"] <= 60
        assert few["tried"] <= 5


@pytest.mark.parametrize("name", RULES)
def test_agents_refuse_other_environments(name: str) -> None:
    other = gym.make("sysgym/CollectiveSynthesis-v0")
    other.reset(seed=0)
    with pytest.raises(SysgymError, match="plays PipelineTuning, not CollectiveSynthesis"):
        made(name).begin(other)


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
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
        train("maskable_ppo_set", "pipeline-gpt", total_steps=128, out=tmp_path / run, n_envs=2, seed=1,
              hyper_parameters=tiny)
        for run in ("one", "two")
    ]  # fmt: skip
    one, other = (played(made("maskable_ppo_set", checkpoint=path), "pipeline-gpt")[1] for path in paths)
    assert one == other


@pytest.mark.parametrize("name", ["balanced", "critical_path", "annealing", "local_search", "oracle"])
def test_recorded_steps(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    write_csv(path, rows_of(synthetic_trace(1, n_stages=2, n_data_ranks=3, n_microbatches=4, n_steps=5)))
    for seed in range(10_000, 10_005):
        _, metrics = played(made(name), "pipeline-gpt", seed, {"job.trace": str(path)})
        assert metrics["speedup"] >= 1.0
