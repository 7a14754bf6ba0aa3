"""Agents of the diagnosis family: what each asks and names, the oracle, budgets, parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.agents import agent_info, list_agents, make_agent, play_episode
from sysgym.agents.diagnosis.base import PLACE
from sysgym.agents.learned.training.train import train
from sysgym.envs.diagnosis.observation import PART_COLUMNS
from sysgym.scenarios import list_scenarios
from sysgym.scenarios.errors import SysgymError

REGISTERED = sysgym.__version__
SHIPPED = [info.name for info in list_scenarios("diagnosis")]
RULES = [
    name
    for name in list_agents("diagnosis")
    if agent_info(name, "diagnosis").family == "diagnosis" and not agent_info(name, "diagnosis").learned
]
QUIET = {"job.noise_log_sd": 0.0, "job.length_log_sd": 0.0, "job.stage_log_sd": 0.0, "faults.most": 1}


def made(name: str, **parameters: Any) -> Any:
    return make_agent(name, family="diagnosis", **parameters)


def played(
    agent: Any, scenario: str = "diagnosis-jobs", seed: int = 10_000, overrides: Any = None
) -> tuple[Any, dict[str, float]]:
    env = gym.make("sysgym/TrainingDiagnosis-v0", scenario=scenario, split="validation", overrides=overrides)
    _, info = play_episode(env, agent, options={"episode_seed": seed})
    return env.unwrapped, info["episode_metrics"]


@pytest.mark.parametrize("scenario", SHIPPED)
@pytest.mark.parametrize("name", RULES)
def test_every_agent_names_a_part_within_its_budget(name: str, scenario: str) -> None:
    for seed in (10_000, 10_001):
        for budget in (3, 20):
            world, metrics = played(made(name), scenario, seed, {"control.episode_steps": budget})
            assert metrics["valid"] == 1.0
            assert metrics["questions"] <= budget
            assert 0.0 <= metrics["score"] <= 1.0
            assert world.outcome.named is not None


def test_the_oracle_is_right_and_rules_are_better_than_chance() -> None:
    mean = {
        name: np.mean([played(made(name), seed=seed)[1]["score"] for seed in range(10_000, 10_025)])
        for name in RULES
    }
    assert mean["oracle"] == 1.0
    assert mean["random"] < 0.2
    assert all(0.3 < value < 1.0 for name, value in mean.items() if name not in ("oracle", "random"))


@pytest.mark.parametrize("name", ["latest_throughout", "largest_share", "narrowing", "contrast"])
def test_a_lone_slow_rank_is_found(name: str) -> None:
    """Where nothing else varies."""
    found = 0
    for seed in range(10_000, 10_030):
        world, metrics = played(made(name), seed=seed, overrides=QUIET)
        if world.case.culprit.what == "rank":
            found += 1
            assert metrics["correct"] == 1.0
    assert found > 3


def test_weights_decide_between_a_rank_and_its_stage() -> None:
    """A lone slow rank makes its stage late, too, by less."""
    named = [
        played(made("latest_throughout", stage_weight=weight, kind_weight=0.0), overrides=QUIET)[
            0
        ].outcome.named
        for weight in (0.0, 100.0)
    ]
    assert [one.what for one in named] == ["rank", "stage"]


def test_what_is_asked() -> None:
    env: Any = gym.make("sysgym/TrainingDiagnosis-v0").unwrapped
    for name, kinds in (
        ("largest_share", None),
        ("narrowing", {"stage", "kind", "data_rank", "rank"}),
        ("contrast", {"stage", "kind", "rank"}),
    ):
        agent = made(name)
        observation, _ = env.reset(options={"episode_seed": 3})
        agent.begin(env)
        asked = []
        while not env.outcome:
            action = agent.act(observation)
            if action < 96:
                asked.append(env.case.parts[action])
            observation, *_ = env.step(action)
        assert len(set(asked)) == len(asked)
        assert kinds is None or {part.what for part in asked} == kinds
        if kinds is None:
            assert len(asked) == 5


def test_the_random_agent_is_seeded_by_the_episode() -> None:
    assert played(made("random"))[0].outcome == played(made("random"))[0].outcome
    assert list(PLACE) == list(PART_COLUMNS)


@pytest.mark.parametrize("name", RULES)
def test_agents_refuse_other_environments(name: str) -> None:
    other = gym.make("sysgym/CollectiveSynthesis-v0")
    other.reset(seed=0)
    with pytest.raises(SysgymError, match="plays TrainingDiagnosis, not CollectiveSynthesis"):
        made(name).begin(other)


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("longest", {"sign": "share"}, "no sign is named"),
        ("longest", {"whole": 1.5}, "whole: expected 0 to 1"),
        ("largest_share", {"count": 0}, "count: expected at least 1"),
        ("narrowing", {"precise": -0.1}, "precise: expected 0 to 1"),
        ("contrast", {"sign": "worst"}, "excess"),
    ],
)
def test_parameters_out_of_range_are_refused(name: str, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(SysgymError, match=words):
        made(name, **parameters)


@pytest.mark.slow
def test_a_policy_learns_a_little_plays_and_is_the_same_every_time(tmp_path: Path) -> None:
    tiny = {"n_steps": 32, "batch_size": 32}
    paths = [
        train("maskable_ppo_set", "diagnosis-jobs", total_steps=128, out=tmp_path / run, n_envs=2, seed=1,
              hyper_parameters=tiny)
        for run in ("one", "two")
    ]  # fmt: skip
    one, other = (played(made("maskable_ppo_set", checkpoint=path))[1] for path in paths)
    assert one == other
