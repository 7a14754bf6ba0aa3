"""Agents by name: lists, unknown names, and a user's own agents."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.agents import agent_info, list_agents, make_agent, play_episode, register_agent, registry
from sysgym.agents.learned.loading import load_agent
from sysgym.agents.learned.training.algorithms import ALGORITHMS, declared_algorithms
from sysgym.agents.protocol import Agent, environment_arguments, is_privileged
from sysgym.scenarios.errors import SysgymError, UnknownName

MakeEnv = Callable[..., Any]

HEURISTICS = ["max", "random", "fixed_fair", "fair_feedback", "aimd", "oracle"]
SENDERS = ["flow_fixed", "flow_aimd", "flow_oracle"]
LEARNED = [
    "ppo",
    "a2c",
    "reinforce",
    "sac",
    "td3",
    "ddpg",
    "tqc",
    "trpo",
    "ppo_hosts",
    "cma_paths",
    "ppo_paths",
    "maskable_ppo",
    "maskable_ppo_set",
]


def test_the_list_is_complete() -> None:
    listed = list_agents()
    assert list_agents("congestion")[: len(HEURISTICS) + len(SENDERS)] == HEURISTICS + SENDERS
    assert len(set(listed)) == len(listed)
    learned = [info for info in map(agent_info, listed) if info.learned]
    assert {info.short_name for info in learned if info.factory() is load_agent} == set(LEARNED)
    own_trainers = {info.short_name for info in learned if info.trainer}
    trained = {*ALGORITHMS, *declared_algorithms(), *own_trainers & set(LEARNED)}
    assert set(LEARNED) == trained, "what can be loaded can be trained"


@pytest.mark.parametrize("name", [*HEURISTICS, *SENDERS, *LEARNED])
def test_what_is_listed_is_there(name: str) -> None:
    info = agent_info(name)
    assert info.name == name
    assert info.summary
    assert callable(info.factory())


@pytest.mark.parametrize("name", [*HEURISTICS, *SENDERS])
def test_a_heuristic_is_what_its_entry_says(name: str) -> None:
    agent = make_agent(name)
    assert isinstance(agent, Agent)
    assert agent.name == name
    assert is_privileged(agent) == agent_info(name).privileged == name.endswith("oracle")
    assert environment_arguments(agent) == {}


@pytest.mark.parametrize("name", HEURISTICS)
@pytest.mark.parametrize("scenario", ["incast-32", "fattree-k4-websearch"])
def test_a_heuristic_plays_any_scenario(make_env: MakeEnv, name: str, scenario: str) -> None:
    env, agent = make_env(scenario), make_agent(name)
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    for _ in range(12):
        action = agent.act(observation)
        assert env.action_space.contains(action), action
        observation, *_ = env.step(action)


def test_an_unknown_name_has_advice() -> None:
    with pytest.raises(UnknownName, match='did you mean "oracle"'):
        make_agent("orcale")
    with pytest.raises(UnknownName, match="sysgym list agents lists all"):
        agent_info("nothing like it")


def test_a_learned_agent_needs_a_checkpoint_and_no_other_takes_one(tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match="sysgym train ppo"):
        make_agent("ppo")
    with pytest.raises(SysgymError, match='"max" takes no checkpoint'):
        make_agent("max", checkpoint=tmp_path / "final.zip")
    with pytest.raises(SysgymError, match="no such checkpoint"):
        make_agent("ppo", checkpoint=tmp_path / "final.zip")


def test_parameters_reach_the_agent() -> None:
    agent: Any = make_agent("aimd", increase=0.125)
    assert agent.increase == 0.125


def test_an_agent_of_ones_own(make_env: MakeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_AGENTS", dict(registry._AGENTS))

    @register_agent("half", privileged=True)
    class Half:
        """Half of the line rate, for everybody.

        More words.
        """

        name = "half"

        def begin(self, env: Any) -> None:
            self.episodes = getattr(self, "episodes", 0) + 1
            self.shape = env.action_space.shape

        def act(self, observation: Any) -> Any:
            return np.full(self.shape, 0.5, np.float32)

    assert list_agents()[-1] == "half"
    assert agent_info("half").summary == "Half of the line rate, for everybody."
    assert agent_info("half").privileged
    agent: Any = make_agent("half")
    assert isinstance(agent, Half)
    env = make_env()
    play_episode(env, agent)
    play_episode(env, agent)
    assert agent.episodes == 2


def test_an_episode_is_played_to_its_end_and_its_rewards_are_added(make_env: MakeEnv) -> None:
    env = make_env("incast-32", split="test")
    total, info = play_episode(env, make_agent("max"), options={"episode_seed": 20_003})
    assert info["episode_seed"] == 20_003
    assert "episode_metrics" in info
    env.reset(options={"episode_seed": 20_003})
    rewards = [env.step(env.action_space.high)[1] for _ in range(12)]
    assert total == pytest.approx(sum(rewards))


def test_threads_that_ask_first_at_the_same_time_all_find_the_agent() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from sysgym.agents import agent_info
together = Barrier(4)
def ask(_):
    together.wait()
    return agent_info("aimd").name
with ThreadPoolExecutor(4) as pool:
    assert set(pool.map(ask, range(4))) == {"aimd"}
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
