"""Agents of the failslow family: what each does when something is slow, their order, parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.agents import agent_info, list_agents, make_agent, play_episode
from sysgym.agents.failslow.base import PLACE
from sysgym.agents.learned.training.train import train
from sysgym.emulator.failslow.faults import Kind
from sysgym.emulator.failslow.run import Action
from sysgym.scenarios.errors import SysgymError
from tests.emulator.failslow.given import Fault, give

REGISTERED = sysgym.__version__
RULES = [name for name in list_agents("failslow") if agent_info(name, "failslow").family == "failslow"]
QUIET = {f"faults.{kind}_per_hour": 0.0 for kind in ("worker", "stage", "link")}


def made(name: str, **parameters: Any) -> Any:
    return make_agent(name, family="failslow", **parameters)


def metrics_of(agent: Any, seed: int, **overrides: Any) -> dict[str, float]:
    env = gym.make("sysgym/FailSlow-v0", scenario="failslow-hybrid", split="validation", overrides=overrides)
    _, info = play_episode(env, agent, options={"episode_seed": seed})
    metrics: dict[str, float] = info["episode_metrics"]
    return metrics


def actions_on(agent: Any, faults: list[Fault], n: int = 100) -> dict[int, Action]:
    """Return the actions by window in a job with the given faults."""
    env: Any = gym.make("sysgym/FailSlow-v0", scenario="failslow-hybrid", overrides=QUIET).unwrapped
    observation, _ = env.reset(options={"episode_seed": 1})
    give(env.run, faults)
    agent.begin(env)
    taken = {}
    for window in range(n):
        action = agent.act(observation)
        if action != Action.NONE:
            taken[window] = Action(action)
        observation, *_ = env.step(int(action))
    return taken


@pytest.mark.parametrize("name", [name for name in RULES if not name.endswith("random")])
def test_nothing_is_done_while_nothing_is_slow(name: str) -> None:
    metrics = metrics_of(made(name), 10_000, **QUIET)
    assert metrics["actions"] == 0.0
    assert metrics["delay"] == pytest.approx(0.0, abs=1e-12)


def test_they_are_ordered_as_expected() -> None:
    mean = {
        name: np.mean([metrics_of(made(name), seed)["delay"] for seed in range(10_000, 10_002)])
        for name in ("never", "always_restart", "ski_rental", "clairvoyant", "random")
    }
    assert mean["clairvoyant"] < mean["ski_rental"] < mean["never"] < mean["random"]
    assert mean["always_restart"] > mean["never"]


def test_a_long_fault_of_a_worker() -> None:
    fault = [(600.0, 30_000.0, Kind.WORKER, 5, 3.0)]
    assert list(actions_on(made("always_restart"), fault).values())[:1] == [Action.RESTART]
    replaced = actions_on(made("threshold"), fault)
    assert list(replaced.values()) == [Action.REPLACE]
    assert 10 <= min(replaced) <= 13
    escalated = list(actions_on(made("ski_rental", multiple=0.5), fault, n=200).values())
    assert escalated[:2] == [Action.REBALANCE, Action.REPLACE]
    # Microbatches are moved back after the replacement.
    assert escalated[2] == Action.REBALANCE
    changed = list(actions_on(made("cusum"), fault).values())
    assert changed[:2] == [Action.REBALANCE, Action.REPLACE]
    assert list(actions_on(made("clairvoyant"), fault).values()) == [Action.REPLACE]


def test_a_long_fault_of_a_link() -> None:
    fault = [(600.0, 9000.0, Kind.LINK, 0, 4.0)]
    for name in ("threshold", "cusum", "ski_rental", "payback"):
        assert next(iter(actions_on(made(name), fault).values())) == Action.REROUTE, name
    # Who knows that it lasts for hours restarts, without a loss of work.
    assert list(actions_on(made("clairvoyant"), fault).values()) == [Action.CHECKPOINT, Action.RESTART]


def test_a_long_fault_of_a_stage() -> None:
    """Layers move away from it, and back when it is over."""
    fault = [(600.0, 3600.0, Kind.STAGE, 2, 2.0)]
    for name in ("threshold", "cusum", "ski_rental", "payback", "clairvoyant"):
        assert list(actions_on(made(name), fault).values()) == [Action.MOVE_LAYERS] * 2, name


def test_a_checkpoint_comes_before_a_restart() -> None:
    """Where layers cannot move far, the next step is a restart, without a loss of work."""
    fault = [(600.0, 1e6, Kind.STAGE, 2, 9.0)]
    taken = list(actions_on(made("ski_rental", multiple=0.2), fault).values())
    assert taken[:3] == [Action.MOVE_LAYERS, Action.CHECKPOINT, Action.RESTART]


def test_a_short_fault_is_waited_for() -> None:
    fault = [(600.0, 700.0, Kind.WORKER, 5, 1.6)]
    for name in ("threshold", "ski_rental", "payback", "clairvoyant"):
        taken = actions_on(made(name), fault).values()
        assert not {Action.REPLACE, Action.RESTART} & set(taken), name


def test_payback_moves_what_pays_and_moves_it_back() -> None:
    worker = [(600.0, 3000.0, Kind.WORKER, 5, 3.0)]
    taken = actions_on(made("payback", base_h=0.2), worker)
    assert set(taken.values()) == {Action.REBALANCE}
    assert min(taken) < 15
    assert 50 <= max(taken) < 55
    # Even microbatches are not moved for a fault that is expected to be over at once.
    assert actions_on(made("payback", base_h=0.0), worker) == {}
    # Traffic is moved once, although the exchange stays slow, and again for a new slow link.
    links = [(600.0, 30_000.0, Kind.LINK, 0, 4.0), (3000.0, 30_000.0, Kind.LINK, 0, 8.0)]
    taken = actions_on(made("payback"), links)
    assert list(taken.values()) == [Action.REROUTE] * 2
    assert min(taken) < 20 < 50 <= max(taken) < 60


def test_escalation_waits_for_a_multiple_of_the_cost() -> None:
    fault = [(600.0, 30_000.0, Kind.WORKER, 5, 3.0)]
    first = {
        multiple: min(
            window
            for window, action in actions_on(made("ski_rental", multiple=multiple), fault, n=200).items()
            if action == Action.REPLACE
        )
        for multiple in (0.2, 0.6)
    }
    # After moving microbatches a window loses some seconds; the replacement costs five minutes.
    assert 10 + 10 <= first[0.2] < first[0.6]


def test_the_random_agent_is_seeded_by_the_episode() -> None:
    assert metrics_of(made("random"), 10_001) == metrics_of(made("random"), 10_001)
    assert metrics_of(made("random"), 10_001) != metrics_of(made("random"), 10_002)


def test_names_of_the_observation() -> None:
    env: Any = gym.make("sysgym/FailSlow-v0")
    assert list(PLACE) == list(env.unwrapped.observation_index)


@pytest.mark.parametrize("name", RULES)
def test_agents_refuse_other_environments(name: str) -> None:
    other = gym.make("sysgym/CollectiveSynthesis-v0")
    other.reset(seed=0)
    with pytest.raises(SysgymError, match="plays FailSlow, not CollectiveSynthesis"):
        made(name).begin(other)


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("always_restart", {"limit": 1.0}, "limit: expected above 1"),
        ("threshold", {"wait_h": -1.0}, "wait_h: expected at least 0"),
        ("cusum", {"drift": 0.0}, "drift: expected above 0"),
        ("ski_rental", {"multiple": -0.1}, "multiple: expected at least 0"),
        ("ski_rental", {"worker": 1.0}, "worker: expected above 1"),
        ("payback", {"base_h": -0.1}, "base_h: expected at least 0"),
    ],
)
def test_parameters_out_of_range_are_refused(name: str, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(SysgymError, match=words):
        made(name, **parameters)


@pytest.mark.slow
def test_a_policy_learns_a_little_plays_and_is_the_same_every_time(tmp_path: Path) -> None:
    tiny = {"n_steps": 32, "batch_size": 32}
    paths = [
        train("ppo", "failslow-hybrid", total_steps=128, out=tmp_path / run, n_envs=2, seed=1,
              hyper_parameters=tiny)
        for run in ("one", "two")
    ]  # fmt: skip
    one, other = (metrics_of(made("ppo", checkpoint=path), 10_000) for path in paths)
    assert one == other
