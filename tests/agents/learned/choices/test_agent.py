"""MaskablePPO on placements: training, resuming, running without torch, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sysgym.agents import Agent, make_agent
from sysgym.agents.learned.checkpoint import read_checkpoint
from sysgym.agents.learned.choices.agent import ChoiceAgent
from sysgym.agents.learned.placement.reading import READING
from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.sets.network import SetNet
from sysgym.agents.learned.training.learner import torch_model
from sysgym.agents.learned.training.train import train
from sysgym.agents.protocol import play_episode
from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import SysgymError, UnknownName

TINY = {"n_steps": 32, "batch_size": 32, "n_epochs": 2}
NETWORKS = {"maskable_ppo": Mlp, "maskable_ppo_set": SetNet}


def train_tiny(agent: str, out: Path, **changes: Any) -> Path:
    settings: dict[str, Any] = {"total_steps": 64, "n_envs": 2, "seed": 1, "hyper_parameters": TINY} | changes
    return train(agent, "placement-unseen", out=out, **settings)


@pytest.fixture(scope="module", params=NETWORKS)
def final(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_tiny(request.param, tmp_path_factory.mktemp("runs") / request.param)


def make(scenario: str) -> Any:
    return gym.make(load_scenario(scenario).env_id, scenario=scenario, split="test", disable_env_checker=True)


def test_it_plays_without_an_invalid_action(final: Path) -> None:
    name = read_checkpoint(final).meta.agent
    agent = make_agent(name, checkpoint=final)
    assert isinstance(agent, Agent)
    assert isinstance(agent, ChoiceAgent)
    assert isinstance(read_checkpoint(final).policy, NETWORKS[name])
    env = make("placement-unseen")
    for seed in range(20000, 20010):
        _, info = play_episode(env, agent, options={"episode_seed": seed})
        assert info["reward_terms"].get("invalid", 0.0) == 0.0


def test_numpy_chooses_what_torch_chooses(final: Path) -> None:
    checkpoint = read_checkpoint(final)
    model = torch_model(checkpoint)
    agent = ChoiceAgent(checkpoint, READING)
    env = make("placement-unseen")
    for seed in range(20000, 20010):
        observation, _ = env.reset(options={"episode_seed": seed})
        agent.begin(env)
        over = False
        while not over:
            masks = env.unwrapped.action_masks()
            vector = READING.vector(observation)
            expected, _ = model.predict(vector, deterministic=True, action_masks=masks)
            assert agent.act(observation) == int(expected)
            observation, _, over, _, _ = env.step(int(expected))


def test_the_same_training_gives_the_same_policy_and_goes_on(final: Path, tmp_path: Path) -> None:
    name = read_checkpoint(final).meta.agent
    again = train_tiny(name, tmp_path / "again")
    ours, theirs = read_checkpoint(final).policy, read_checkpoint(again).policy
    assert ours is not None
    assert theirs is not None
    n_inputs = ours.shape.observation_size if isinstance(ours, SetNet) else ours.weights[0].shape[1]
    vector = np.ones(n_inputs, np.float32)
    assert np.array_equal(ours(vector), theirs(vector))
    further = train_tiny(name, tmp_path / "again", total_steps=128, resume=True)
    assert read_checkpoint(further).meta.total_steps == 128
    assert not np.array_equal(read_checkpoint(further).policy(vector), ours(vector))  # type: ignore[misc]
    straight = train_tiny(name, tmp_path / "straight", total_steps=128)
    assert read_checkpoint(further).learner == read_checkpoint(straight).learner


def test_it_refuses_another_environment(final: Path) -> None:
    agent = make_agent(read_checkpoint(final).meta.agent, checkpoint=final)
    with pytest.raises(SysgymError, match=r"trained on placement-unseen .* has a different shape"):
        agent.begin(make("program-unseen"))


def test_masks_are_for_problems_that_have_them(tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match=r"its actions are|forbids some actions; this one forbids none"):
        train("maskable_ppo", "iroko-dumbbell-10m", total_steps=8, out=tmp_path / "a")
    with pytest.raises(SysgymError, match="training on placement has no choice of history"):
        train("maskable_ppo", "placement-unseen", total_steps=8, out=tmp_path / "b", history=3)
    with pytest.raises(UnknownName, match="hyper-parameter of maskable_ppo_set"):
        train_tiny("maskable_ppo_set", tmp_path / "c", hyper_parameters={"net_arch": (8,)})
