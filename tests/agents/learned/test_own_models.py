"""Policies that a program of one's own has trained: as checkpoints they act as the model does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.agents import make_agent, save_policy
from sysgym.agents.learned.checkpoint import read_checkpoint
from sysgym.agents.learned.policy import actor_modules
from sysgym.bench.contenders import parse_contender
from sysgym.bench.run.episodes import make_contender, play
from sysgym.envs.compression.observation import RunNumbers
from sysgym.scenarios.errors import SysgymError
from tests.agents.learned.playing import check_plays

pytest.importorskip("stable_baselines3")
REGISTERED = sysgym.__version__


def ppo(env: Any, **more: Any) -> Any:
    from stable_baselines3 import PPO

    kwargs: Any = {"policy_kwargs": {"net_arch": [8]}, "device": "cpu", "seed": 1, **more}
    return PPO("MlpPolicy", env, n_steps=16, batch_size=16, **kwargs)


def sac(env: gym.Env[Any, Any]) -> Any:
    from stable_baselines3 import SAC

    kwargs: Any = {"policy_kwargs": {"net_arch": [8]}, "device": "cpu", "seed": 1}
    return SAC("MlpPolicy", env, learning_starts=4, batch_size=4, **kwargs)


def rates(**more: Any) -> gym.Env[Any, Any]:
    return gym.make("sysgym/DatacenterCC-v0", scenario="iroko-dumbbell-10m", **more)


@pytest.mark.parametrize("learner", [ppo, sac])
@pytest.mark.parametrize(
    "make",
    [
        rates,
        lambda: rates(action_scale="native"),
        lambda: rates(action_scale="log"),
        lambda: rates(action_scale="linear", history=2, features=["queue"]),
        lambda: gym.make("sysgym/FlowCC-v0", scenario="flow-datacenter"),
        lambda: gym.make("sysgym/FlowCC-v0", scenario="flow-datacenter", action_scale="native"),
    ],
)
def test_a_checkpoint_acts_as_the_model(
    make: Callable[[], gym.Env[Any, Any]], learner: Callable[[Any], Any], tmp_path: Path
) -> None:
    env = make()
    model = learner(env)
    model.learn(32)
    path = save_policy(model, tmp_path / "mine.zip")
    check_plays(path, model, env)


@pytest.mark.parametrize("learner", [ppo, sac])
def test_actions_at_the_bounds_are_no_excuse(learner: Callable[[Any], Any], tmp_path: Path) -> None:
    """A policy whose actions are cut off for usual observations acts as the model for others, too."""
    import torch

    model = learner(rates(action_scale="native"))
    modules = actor_modules(model.policy)
    assert modules is not None
    last = [one for one in modules if hasattr(one, "bias")][-1]
    with torch.no_grad():
        last.weight.mul_(50.0)
        last.bias.add_(5.0)
    agent = make_agent(read_checkpoint(save_policy(model, tmp_path / "mine.zip")).meta.agent,
                       checkpoint=tmp_path / "mine.zip", family="congestion")  # fmt: skip
    env = rates(action_scale="native")
    env.reset(seed=0)
    agent.begin(env)
    rng = np.random.default_rng(1)
    for scale in (0.0, 0.05, 1.0, -1.0):
        observation = (scale * rng.random(env.observation_space.shape)).astype(np.float32)
        expected, _ = model.predict(observation, deterministic=True)
        np.testing.assert_allclose(agent.act(observation), expected, rtol=1e-3, atol=1e-4)


def test_discrete_actions(tmp_path: Path) -> None:
    env = gym.make("sysgym/GradCompress-v0")
    model = ppo(env)
    path = save_policy(model, tmp_path / "mine.zip")
    agent = make_agent("ppo", checkpoint=path, family="compression")
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    assert agent.act(observation) == model.predict(observation, deterministic=True)[0]


def test_it_is_a_contender_like_any_other(tmp_path: Path) -> None:
    env = rates()
    path = save_policy(ppo(env), tmp_path / "mine.zip")
    scenario: Any = env.unwrapped
    made, agent = make_contender(
        scenario.scenario.resolved(), "test", parse_contender(f"mine=ppo@{path}"), Path("/")
    )
    played = play(made, agent, 20_000)
    assert played.steps == scenario.scenario.control.episode_steps
    assert read_checkpoint(path).learner == b""


def test_what_sysgym_could_not_play_is_refused(tmp_path: Path) -> None:
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
    from torch import nn

    path = tmp_path / "mine.zip"
    with pytest.raises(SysgymError, match=r"expected a name that ends in \.zip"):
        save_policy(ppo(rates()), tmp_path / "mine.pt")
    with pytest.raises(SysgymError, match="PendulumEnv is not an environment of sysgym"):
        save_policy(ppo(gym.make("Pendulum-v1")), path)
    with pytest.raises(SysgymError, match=r"than the environment itself \(VecNormalize"):
        save_policy(ppo(VecNormalize(DummyVecEnv([rates]))), path)
    turned = gym.wrappers.TransformAction(rates(), lambda one: -one, None)
    with pytest.raises(SysgymError, match="TransformAction"):
        save_policy(ppo(turned), path)
    own = gym.make("sysgym/GradCompress-v0", observation=RunNumbers())
    with pytest.raises(SysgymError, match="the argument observation"):
        save_policy(ppo(own), path)
    scaled = gym.wrappers.TransformObservation(rates(), lambda one: 2 * one, None)
    with pytest.raises(SysgymError, match="TransformObservation"):
        save_policy(ppo(scaled), path)
    tables = PPO("MultiInputPolicy", gym.make("sysgym/TrainingTuning-v0"), device="cpu")
    with pytest.raises(SysgymError, match="sysgym train maskable_ppo trains such a policy"):
        save_policy(tables, path)
    with pytest.raises(SysgymError, match="not a plain network"):
        save_policy(ppo(rates(), policy_kwargs={"net_arch": [8], "activation_fn": nn.GELU}), path)
    assert not path.exists()
