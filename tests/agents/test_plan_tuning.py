"""Agents that tune plans, in both families: never slower than the first plan, budgets hold, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import sysgym
from sysgym.agents import agent_info, list_agents, make_agent, play_episode
from sysgym.agents.learned.training.train import train
from sysgym.agents.plan_tuning import EVALUATIONS
from sysgym.scenarios import list_scenarios
from sysgym.scenarios.errors import SysgymError

REGISTERED = sysgym.__version__
ENVIRONMENTS = {"tuning": "sysgym/TrainingTuning-v0", "pipelines": "sysgym/PipelineTuning-v0"}
SCENARIOS = {"tuning": "tuning-buckets", "pipelines": "pipeline-gpt"}
RULES = [
    (family, name)
    for family in ENVIRONMENTS
    for name in list_agents(family)
    if agent_info(name, family).family == family and not agent_info(name, family).learned
]
SEARCHES = ["random_search", "annealing", "local_search"]


def played(
    family: str, name: str, seed: int, scenario: str = "", **parameters: Any
) -> tuple[Any, dict[str, float]]:
    env = gym.make(ENVIRONMENTS[family], scenario=scenario or SCENARIOS[family], split="validation")
    agent = make_agent(name, family=family, **parameters)
    _, info = play_episode(env, agent, options={"episode_seed": seed})
    return env.unwrapped, info["episode_metrics"]


@pytest.mark.parametrize(("family", "name"), RULES)
def test_no_agent_is_slower_than_the_beginning_or_uses_more_than_its_budget(family: str, name: str) -> None:
    for scenario in (info.name for info in list_scenarios(family)):
        for seed in (10_000, 10_003):
            world, metrics = played(family, name, seed, scenario)
            assert metrics["speedup"] >= 1.0
            assert metrics["valid"] == 1.0
            assert metrics["tried"] <= world.most_measurements
            assert metrics["time_s"] == world.best_s == world.true_time_s(world.best_plan)


@pytest.mark.parametrize("family", ENVIRONMENTS)
@pytest.mark.parametrize("name", SEARCHES)
def test_searches_have_the_same_budget(name: str, family: str) -> None:
    """No more plans by the profile than the budget, and as many measurements as the episode has."""
    for seed in (10_000, 10_002):
        world, metrics = played(family, name, seed)
        assert metrics["predicted"] <= EVALUATIONS
        assert metrics["tried"] == world.most_measurements
        _, few = played(family, name, seed, evaluations=60, measurements=5)
        assert few["predicted"] <= 60
        assert few["tried"] == 5


@pytest.mark.parametrize("family", ENVIRONMENTS)
def test_random_neighbours_are_neighbours_and_all_of_them_are_drawn(family: str) -> None:
    world: Any = gym.make(ENVIRONMENTS[family], scenario=SCENARIOS[family]).unwrapped
    world.reset(options={"episode_seed": 10_001})
    world.adopt(world.starts()[0])
    near = set(world.neighbours(world.plan))
    drawn = {world.random_neighbour(world.plan, world.np_random) for _ in range(20 * len(near))}
    assert drawn == near
    after = {world._after(int(action)) for action in world.action_masks().nonzero()[0][1:]}
    assert after == near


@pytest.mark.parametrize(("family", "name"), RULES)
def test_agents_refuse_other_environments(family: str, name: str) -> None:
    other = gym.make("sysgym/CollectiveSynthesis-v0")
    other.reset(seed=0)
    refusal = f'"{name.split("/")[-1]}" plays (PipelineTuning|TrainingTuning).*, not CollectiveSynthesis'
    with pytest.raises(SysgymError, match=refusal):
        make_agent(name, family=family).begin(other)


def test_rules_of_one_family_refuse_the_other() -> None:
    env = gym.make(ENVIRONMENTS["pipelines"])
    env.reset(seed=0)
    with pytest.raises(SysgymError, match='"fusion" plays TrainingTuning, not PipelineTuning'):
        make_agent("fusion", family="tuning").begin(env)


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("annealing", {"evaluations": 0}, "evaluations: expected at least 1"),
        ("annealing", {"warmth": 0.0}, "warmth: expected above 0"),
        ("random_search", {"measurements": 0}, "measurements: expected at least 1"),
        ("random_search", {"evaluations": 1.5}, "a whole number"),
        ("annealing", {"evaluations": "many"}, "a whole number, got 'many'"),
        ("annealing", {"warmth": "hot"}, "warmth: expected a finite number"),
    ],
)
def test_parameters_out_of_range_are_refused(name: str, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(SysgymError, match=words):
        make_agent(name, family="tuning", **parameters)


@pytest.mark.slow
@pytest.mark.parametrize("family", ENVIRONMENTS)
def test_a_policy_learns_a_little_plays_and_is_the_same_every_time(family: str, tmp_path: Path) -> None:
    tiny = {"n_steps": 32, "batch_size": 32}
    paths = [
        train("maskable_ppo_set", SCENARIOS[family], total_steps=128, out=tmp_path / run, n_envs=2, seed=1,
              hyper_parameters=tiny)
        for run in ("one", "two")
    ]  # fmt: skip
    one, other = (played(family, "maskable_ppo_set", 10_000, checkpoint=path)[1] for path in paths)
    assert one == other
