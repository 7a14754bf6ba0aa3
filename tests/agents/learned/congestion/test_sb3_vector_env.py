"""The vector environment of training equals DummyVecEnv bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

import sysgym
from sysgym.agents.learned.congestion.problems import FlowRates, Rates
from sysgym.agents.learned.congestion.sb3_vector_env import Sb3VectorEnv
from sysgym.scenarios import load_scenario

REGISTERED = sysgym.__version__


@pytest.mark.parametrize(
    ("name", "make", "n_actions"),
    [
        ("dumbbell-10g", lambda scenario: Rates(scenario, {"history": 2}, "log"), 8),
        ("flow-1g-1ms", lambda scenario: FlowRates(scenario, {}), 1),
    ],
)
def test_it_gives_what_single_environments_give(name: str, make: Any, n_actions: int) -> None:
    scenario = load_scenario(name, overrides={"control.episode_steps": 4})
    problem = make(scenario)
    ours = problem.envs(3, 0)
    assert isinstance(ours, Sb3VectorEnv)
    theirs = DummyVecEnv([lambda: Monitor(problem.make_env()) for _ in range(3)])
    assert ours.action_space == theirs.action_space
    assert ours.observation_space == theirs.observation_space
    ours.seed(5)
    theirs.seed(5)
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    rng = np.random.default_rng(1)
    episodes = 0
    for _ in range(10):
        actions = rng.uniform(-1.0, 1.0, (3, n_actions)).astype(np.float32)
        observations, rewards, ends, infos = ours.step(actions)
        expected = theirs.step(actions)
        np.testing.assert_array_equal(observations, expected[0])
        np.testing.assert_array_equal(rewards, expected[1])
        np.testing.assert_array_equal(ends, expected[2])
        for info, other in zip(infos, expected[3], strict=True):
            assert info["TimeLimit.truncated"] == other["TimeLimit.truncated"]
            assert info.get("episode_metrics") == other.get("episode_metrics")
            assert ("episode" in info) == ("episode" in other)
            if "episode" in info:
                episodes += 1
                assert {k: info["episode"][k] for k in "rl"} == {k: other["episode"][k] for k in "rl"}
                np.testing.assert_array_equal(info["terminal_observation"], other["terminal_observation"])
    assert episodes == 6
    assert ours.env_is_wrapped(Monitor) == [True] * 3
    assert ours.get_attr("split") == ["train"] * 3
    ours.close()
    theirs.close()
