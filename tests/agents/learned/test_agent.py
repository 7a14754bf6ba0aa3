"""Trained policies as agents: actions, refusals, and required packages."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

from sysgym.agents import make_agent, play_episode
from sysgym.agents.learned import load
from sysgym.agents.learned.checkpoint import read_checkpoint
from sysgym.agents.learned.training.learner import torch_model
from sysgym.agents.protocol import Agent, environment_arguments, is_privileged
from sysgym.envs.action_scale import ActionScale
from sysgym.scenarios.errors import SysgymError

MakeEnv = Callable[..., Any]
Train = Callable[..., Path]
Script = Callable[..., str]

SCENARIO = "iroko-dumbbell-10m"
WITHOUT_TRAINING = ("torch", "stable_baselines3", "sb3_contrib", "tensorboard")


@pytest.fixture(scope="module")
def elu(train_tiny: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose activation NumPy does not know."""
    settings = {"n_steps": 16, "batch_size": 16, "policy_kwargs": {"activation_fn": torch.nn.ELU}}
    return train_tiny(tmp_path_factory.mktemp("elu") / "run", total_steps=32, hyper_parameters=settings)


def test_it_is_an_agent(ppo_run: Path) -> None:
    agent = make_agent("ppo", checkpoint=ppo_run / "final.zip")
    assert isinstance(agent, Agent)
    assert agent.name == "ppo"
    assert not is_privileged(agent)
    assert environment_arguments(agent) == {"history": 1}


def test_a_checkpoint_of_another_algorithm_is_refused(ppo_run: Path) -> None:
    with pytest.raises(SysgymError, match='a checkpoint of "ppo", not of "sac"'):
        make_agent("sac", checkpoint=ppo_run / "final.zip")


def test_it_plays_the_mean_action_of_its_model(ppo_run: Path, make_env: MakeEnv) -> None:
    env = make_env(SCENARIO)
    agent = load(ppo_run / "final.zip")
    model = torch_model(read_checkpoint(ppo_run / "final.zip"))
    scale = ActionScale("log", *env.unwrapped.native_bounds)
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    for _ in range(8):
        rates = agent.act(observation)
        expected = scale.rates(model.predict(observation, deterministic=True)[0])
        assert env.action_space.contains(rates)
        assert rates == pytest.approx(expected, rel=1e-4)
        observation, *_ = env.step(rates)
    assert np.array_equal(agent.act(observation), agent.act(observation)), "it does not explore"


def test_what_numpy_does_not_know_is_played_by_torch(elu: Path, make_env: MakeEnv) -> None:
    checkpoint = read_checkpoint(elu)
    assert checkpoint.policy is None
    model = torch_model(checkpoint)
    env = make_env(SCENARIO)
    agent = load(elu)
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    action, _ = model.predict(observation, deterministic=True)
    assert np.array_equal(
        agent.act(observation), ActionScale("log", *env.unwrapped.native_bounds).rates(action)
    )


def test_a_policy_of_the_older_format_plays_for_who_trusts_it(
    elu: Path, make_env: MakeEnv, tmp_path: Path
) -> None:
    env = make_env(SCENARIO)
    kind = {"activation_fn": torch.nn.ELU, "net_arch": [8]}
    learned_on = make_env(SCENARIO, action_scale="log")
    model = PPO("MlpPolicy", learned_on, n_steps=2, batch_size=2, device="cpu", policy_kwargs=kind)
    file, path = BytesIO(), tmp_path / "old.zip"
    model.save(file)
    meta = {**asdict(read_checkpoint(elu).meta), "format": "sysgym-checkpoint-1"}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.json", json.dumps(meta))
        archive.writestr("model.zip", file.getvalue())
    with pytest.raises(SysgymError, match=r"its policy is a pickle .* add --trust"):
        load(path)
    agent = make_agent("ppo", checkpoint=path, trust=True)
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    action, _ = model.predict(observation, deterministic=True)
    scale = ActionScale("log", *env.unwrapped.native_bounds)
    assert np.array_equal(agent.act(observation), scale.rates(action))


def test_it_plays_longer_episodes_and_other_seeds(ppo_run: Path, make_env: MakeEnv) -> None:
    env = make_env(SCENARIO, steps=20, split="test")
    total, info = play_episode(env, load(ppo_run / "final.zip"), options={"episode_seed": 20_000})
    assert info["episode_metrics"]["goodput_bps"] > 0.0
    assert total > 0.0


@pytest.mark.parametrize(
    ("scenario", "arguments", "difference"),
    [
        ("iroko-dumbbell-10m", {"history": 2}, "34 values where this environment has 68 values"),
        ("iroko-dumbbell-10m", {"features": ["queue", "active"]}, "queue_delay.* has queue"),
        ("iroko-fattree-10m", {}, "trained on iroko-dumbbell-10m, whose observation differs"),
        ("dumbbell-10g", {}, "trained on iroko-dumbbell-10m, whose observation differs"),
    ],
)
def test_another_observation_is_refused(
    ppo_run: Path, make_env: MakeEnv, scenario: str, arguments: dict[str, Any], difference: str
) -> None:
    env = make_env(scenario, **arguments)
    env.reset(seed=0)
    with pytest.raises(SysgymError, match=difference) as raised:
        load(ppo_run / "final.zip").begin(env)
    assert str(ppo_run / "final.zip") in str(raised.value)


def test_another_family_is_refused(ppo_run: Path) -> None:
    env = gym.make("CartPole-v1")
    env.reset(seed=0)
    with pytest.raises(SysgymError, match="has 0 values"):
        load(ppo_run / "final.zip").begin(env)


def test_the_agent_says_how_its_environment_is_made(
    train_tiny: Train, make_env: MakeEnv, tmp_path: Path
) -> None:
    chosen = {"history": 2, "features": ("queue", "active"), "reward": "queue"}
    agent = load(train_tiny(tmp_path / "run", total_steps=32, **chosen))
    env = make_env(SCENARIO, **environment_arguments(agent))
    assert env.unwrapped.reward.name == "queue"
    play_episode(env, agent, seed=0)


def test_it_plays_without_torch(ppo_run: Path, elu: Path, make_env: MakeEnv, script: Script) -> None:
    code = """
    import json, sys
    import gymnasium as gym
    import sysgym
    from sysgym.agents import make_agent, play_episode
    from sysgym.agents.learned import load, train
    from sysgym.scenarios.errors import MissingExtra

    def play(checkpoint):
        env = gym.make(
            "sysgym/DatacenterCC-v0", scenario="iroko-dumbbell-10m", overrides={"control.episode_steps": 12}
        )
        return play_episode(env, make_agent("ppo", checkpoint=checkpoint), options={"episode_seed": 3})[0]

    def complaint(what, *arguments, **named):
        try:
            what(*arguments, **named)
        except MissingExtra as error:
            return [error.extra, str(error)]

    print(json.dumps({
        "return": play(sys.argv[1]),
        "train": complaint(train, "ppo", "iroko-dumbbell-10m", total_steps=8, out="run"),
        "tqc": complaint(train, "tqc", "iroko-dumbbell-10m", total_steps=8, out="run"),
        "elu": complaint(load, sys.argv[2]),
        "loaded": sorted({name.partition(".")[0] for name in sys.modules}),
    }))
    """
    said = json.loads(script(code, ppo_run / "final.zip", elu, without=WITHOUT_TRAINING))
    env = make_env(SCENARIO)
    expected, _ = play_episode(env, load(ppo_run / "final.zip"), options={"episode_seed": 3})
    assert said["return"] == pytest.approx(expected)
    for what, who in (("train", "ppo"), ("tqc", "tqc"), ("elu", "ppo")):
        extra, message = said[what]
        assert extra == "train"
        assert 'pip install "sysgym[train]"' in message
        assert who in message
    assert not set(WITHOUT_TRAINING) & set(said["loaded"])


def test_torch_is_not_loaded_to_play(ppo_run: Path, script: Script) -> None:
    """Even where it is installed."""
    code = """
    import sys
    from sysgym.agents import make_agent

    make_agent("ppo", checkpoint=sys.argv[1])
    print(sorted({"torch", "stable_baselines3", "tensorboard"} & set(sys.modules)))
    """
    assert script(code, ppo_run / "final.zip").strip() == "[]"
