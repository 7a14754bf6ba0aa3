"""Learned agents of the collectives family: train a little, play, and export."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("sb3_contrib")

import sysgym
from sysgym.agents import make_agent, play_episode
from sysgym.agents.learned.choices.problem import ChoiceVectors
from sysgym.agents.learned.collectives.reading import READING
from sysgym.agents.learned.training.train import train
from sysgym.scenarios.errors import SysgymError

REGISTERED = sysgym.__version__
ENV_ID = "sysgym/CollectiveSynthesis-v0"


def test_vectors_are_rows_and_then_the_system() -> None:
    env = ChoiceVectors(gym.make(ENV_ID), READING)
    vector, _ = env.reset(seed=0)
    observation = env.unwrapped.observer.observe(env.unwrapped._state())  # type: ignore[attr-defined]
    shape = READING.shape(env.env)
    assert (shape.n_rows, shape.row_size, shape.context_size, shape.heads) == (32, 14, 14, 1)
    assert vector.shape == (shape.observation_size,)
    np.testing.assert_array_equal(vector, READING.vector(observation))
    assert vector[: shape.n_rows * shape.row_size : shape.row_size].sum() == pytest.approx(
        np.log(2.0) * env.action_masks().sum()
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["maskable_ppo", "maskable_ppo_set"])
def test_a_policy_learns_a_little_and_plays_larger_systems(name: str, tmp_path: Path) -> None:
    tiny = {"n_steps": 32, "batch_size": 32}
    checkpoint = train(
        name,
        "collectives-small",
        total_steps=64,
        out=tmp_path / "run",
        n_envs=2,
        seed=1,
        hyper_parameters=tiny,
    )
    agent = make_agent(name, family="collectives", checkpoint=checkpoint)
    env = gym.make(ENV_ID, scenario="collectives-small", overrides={"system.topology": "torus-3x3"})
    _, info = play_episode(env, agent, seed=1)
    assert info["episode_metrics"]["valid"] == 1.0
    other = gym.make(ENV_ID, scenario="collectives-unseen")
    other.reset(seed=0)
    with pytest.raises(SysgymError, match="whose observation has a different shape"):
        agent.begin(other)
