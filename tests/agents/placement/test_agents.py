"""Placement agents in their environments, compared with results computed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.agents import agent_info, list_agents, make_agent, play_episode
from sysgym.agents.protocol import Agent, is_privileged
from sysgym.bench.contenders import parse_contender
from sysgym.bench.run.episodes import make_contender
from sysgym.bench.run.episodes import play as play_contender
from sysgym.emulator.accelerators.programs import format_program
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.errors import SysgymError, UnknownName

Play = Callable[..., tuple[Any, float, dict[str, float]]]
MakeEnv = Callable[..., Any]

AGENTS = [
    "default",
    "random",
    "greedy",
    "blueconnect",
    "packed",
    "spread",
    "annealing",
    "exhaustive",
    "topk",
    "ucb",
    "bayes",
    "oracle",
]
PLAYS = {
    "CollectivePlacement": {"default", "random", "greedy", "blueconnect", "annealing", "exhaustive", "topk"},
    "ReductionProgram": {"default", "random", "greedy", "blueconnect", "annealing", "exhaustive", "topk"},
    "JointPlacement": {"default", "random", "greedy", "topk", "ucb", "bayes", "oracle"},
    "MultiJobPlacement": {"default", "random", "greedy", "packed", "spread", "annealing", "exhaustive"},
}
SCENARIOS = [info.name for info in list_scenarios() if info.family == "placement"]
KINDS = {name: load_scenario(name).env_id.removeprefix("sysgym/").removesuffix("-v0") for name in SCENARIOS}
SEARCHED = [name for name, kind in KINDS.items() if kind in ("CollectivePlacement", "ReductionProgram")]
TOO_LARGE = ("exhaustive", "multi-job-unseen")
"""Agent and scenario in which it says that there is too much to search: see test_jobs.py."""

A100 = {"system.preset": "p2-a100", "system.nodes": 4, "problem.axes": [4, 16]}
ONE = [{"axes": [0], "size_bytes": 1e9}]


def plays(agent: str, scenario: str) -> bool:
    return agent in PLAYS[KINDS[scenario]]


def on_a100(**overrides: Any) -> dict[str, Any]:
    """Arguments of an environment whose every episode is this problem."""
    return {
        "split": "validation",
        "overrides": A100
        | {"problem.reductions": ONE}
        | overrides
        | {f"splits.{split}.vary": {} for split in ("train", "validation", "test")},
    }


def test_the_family_lists_them() -> None:
    listed = list_agents("placement")
    assert [name for name in listed if name in AGENTS] == AGENTS
    assert not {"max", "spark", "fixed_fair"} & set(listed)
    assert agent_info("random", "placement").name == "placement/random"
    assert agent_info("random").family == "congestion", "the first of the name keeps it"
    for name in AGENTS:
        agent = make_agent(name, family="placement")
        assert isinstance(agent, Agent)
        assert agent.name == name
        assert is_privileged(agent) == agent_info(name, "placement").privileged == (name == "oracle")


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_agent_plays_every_scenario_that_it_says(make_env: MakeEnv, name: str, scenario: str) -> None:
    env, agent = make_env(scenario), make_agent(name, family="placement")
    if (name, scenario) == TOO_LARGE:
        return
    if not plays(name, scenario):
        env.reset(options={"episode_seed": 20_000})
        with pytest.raises(SysgymError, match=f'"{name}" plays .*, not {type(env.unwrapped).__name__}'):
            agent.begin(env)
        return
    for seed in (20_000,) if name == "topk" else (20_002, 20_001, 20_000):  # which simulates: seconds each
        env.reset(options={"episode_seed": seed})
        total, info = play_episode(env, agent, options={"episode_seed": seed})
        assert info["episode_metrics"]["valid"] == 1.0
        assert info["episode_metrics"].get("regret", 0.0) >= 0.0
    again, repeated = play_episode(env, agent, options={"episode_seed": seed})
    assert again == total, "a run repeats"
    assert repeated["episode_metrics"] == info["episode_metrics"]


@pytest.mark.parametrize("name", AGENTS)
def test_other_families_are_refused(name: str) -> None:
    import gymnasium as gym

    env = gym.make("sysgym/StragglerPrediction-v0")
    env.reset(seed=0)
    with pytest.raises(SysgymError, match=r"plays .*, not StragglerPrediction"):
        make_agent(name, family="placement").begin(env)


@pytest.mark.parametrize("scenario", SEARCHED)
def test_exhaustive_is_exact(play: Play, scenario: str) -> None:
    agent: Any = make_agent("exhaustive", family="placement")
    for seed in range(20_000, 20_030):
        world, total, metrics = play(agent, scenario, seed)
        assert metrics["regret"] == 0.0
        assert metrics["optimal"] == 1.0
        assert total == pytest.approx(math.log(metrics["best_speedup"]), abs=1e-9)
        n_edges = 0 if "n_placements" in metrics else world.task.space.n_edges
        assert agent.evaluations == metrics.get("n_placements", n_edges)


@pytest.mark.parametrize("scenario", SEARCHED)
def test_the_default_is_what_others_are_compared_with(play: Play, scenario: str) -> None:
    for seed in range(20_000, 20_010):
        _, total, metrics = play("default", scenario, seed)
        assert total == 0.0
        assert metrics["speedup"] == 1.0


def test_greedy_places_inside_what_is_reduced(play: Play) -> None:
    world, total, metrics = play("greedy", "p2-systems", **on_a100())
    assert world.matrix == ((1, 4), (4, 4))
    # In a node 2 * 3/4 of 1 GB at 235 GB/s, and six hops; by default 16 rings of four nodes share each NIC.
    assert metrics["time_s"] == pytest.approx(1.5 / 235 + 6 * 3e-6)
    assert metrics["default_time_s"] == pytest.approx(16 * 1.5 / 8.4 + 6 * 14e-6)
    assert total == pytest.approx(math.log(metrics["default_time_s"] / metrics["time_s"]))
    assert metrics["optimal"] == 1.0


def test_programs_by_hand(play: Play) -> None:
    # The whole of four nodes of sixteen: BlueConnect's program is the best one, and greedy finds it.
    arguments = on_a100(**{"problem.axes": [64]})
    for name in ("blueconnect", "greedy", "exhaustive", "topk", "annealing"):
        world, _, metrics = play(name, "program-p2", **arguments)
        assert metrics["time_s"] == pytest.approx(186.724e-3, abs=5e-6), name
        if name != "annealing":
            assert format_program(world.program, 2) == "inside:RS across:AR inside:AG"
    world, _, metrics = play("default", "program-p2", **arguments)
    assert format_program(world.program, 2) == "all:AR"
    # A NIC sends 126 pieces of 1/64 GB at 8.4 GB/s without a pause, and the last is on its way for 14 us.
    assert metrics["time_s"] == pytest.approx(126 / 64 / 8.4 + 14e-6, abs=5e-9)


def test_three_steps_are_too_many_for_two(play: Play) -> None:
    arguments = on_a100(**{"problem.axes": [64], "problem.program_steps": 2})
    for name in ("blueconnect", "greedy", "annealing", "exhaustive", "topk"):
        world, _, metrics = play(name, "program-p2", **arguments)
        assert metrics["valid"] == 1.0
        assert len(world.program) <= 2


@pytest.mark.parametrize("scenario", SEARCHED)
def test_annealing_finds_small_optima_within_its_budget(play: Play, scenario: str) -> None:
    agent: Any = make_agent("annealing", family="placement")
    regrets = []
    for seed in range(20_000, 20_015):
        _, _, metrics = play(agent, scenario, seed)
        assert 1 <= agent.evaluations <= 64
        regrets.append(metrics["regret"])
    assert np.mean(np.array(regrets) == 0.0) > 0.9
    poor: Any = make_agent("annealing", family="placement", evaluations=1)
    _, total, _ = play(poor, scenario)
    assert (poor.evaluations, total) == (1, 0.0), "one evaluation is that of the default"


def test_topk_simulates_no_more_than_k(play: Play) -> None:
    agent: Any = make_agent("topk", family="placement", k=4)
    for seed in range(20_000, 20_010):
        world, _, metrics = play(agent, "p2-systems", seed)
        tried = min(4, int(metrics["n_placements"]))
        assert agent.simulations == (tried * len(world.problem.reductions) if tried > 1 else 0)
        assert agent.evaluations == metrics["n_placements"]
        world, _, metrics = play(agent, "program-p2", seed)
        assert agent.simulations == 4


def test_topk_with_one_is_exhaustive(play: Play) -> None:
    for scenario in ("placement-unseen", "program-unseen"):
        for seed in range(20_000, 20_010):
            _, _, metrics = play(make_agent("topk", family="placement", k=1), scenario, seed)
            assert metrics["regret"] == 0.0


@pytest.mark.filterwarnings("ignore::sysgym.emulator.accelerators.cost.validity.ClosedFormWarning")
def test_every_algorithm_can_be_simulated(play: Play) -> None:
    for algorithm in ("ring", "tree", "halving_doubling", "auto"):
        for scenario in ("p2-systems", "program-p2"):
            overrides = {"problem.algorithm": algorithm}
            metrics = play("topk", scenario, overrides=overrides)[2]
            assert metrics["valid"] == 1.0
            assert play("exhaustive", scenario, overrides=overrides)[2]["regret"] == 0.0


def test_programs_decide_where_placements_are_judged_with_them(play: Play) -> None:
    overrides = {"problem.programs": "synthesized"}
    for name in ("annealing", "exhaustive", "topk"):
        for seed in range(20_000, 20_006):
            assert play(name, "p2-systems", seed, overrides=overrides)[2]["valid"] == 1.0
    assert play("exhaustive", "p2-systems", overrides=overrides)[2]["regret"] == 0.0


def test_a_single_device_and_a_single_axis_leave_nothing_to_place(play: Play) -> None:
    single = {"system.preset": "single", "system.nodes": 1, "problem.axes": [1], "problem.reductions": ONE}
    whole = A100 | {"problem.axes": [64], "problem.reductions": ONE}
    for overrides in (single, whole):
        fixed = overrides | {f"splits.{split}.vary": {} for split in ("train", "validation", "test")}
        for name in sorted(PLAYS["CollectivePlacement"]):
            metrics = play(name, "p2-systems", overrides=fixed)[2]
            assert (metrics["valid"], metrics["regret"], metrics["speedup"]) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize("name", ["random", "oracle", "bayes"])
def test_the_benchmark_finds_them_by_their_names_in_the_family(name: str) -> None:
    contender = parse_contender(name, family="placement")
    assert contender.privileged == (name == "oracle")
    env, agent = make_contender(load_scenario("joint-unseen").resolved(), "test", contender)
    played = play_contender(env, agent, 20_000)
    assert played.steps == played.info["metrics"]["steps"]
    assert played.info["episode_metrics"]["valid"] == 1.0
    with pytest.raises(UnknownName, match="contender of the family placement"):
        parse_contender("spark", family="placement")
