"""Training of the sender of one flow: trainer, checkpoint, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.agents import make_agent, play_episode
from sysgym.agents.learned import train
from sysgym.scenarios.errors import SysgymError

REGISTERED = sysgym.__version__
SHORT = {"control.episode_steps": 25}


@pytest.mark.parametrize("preset", ["datacenter", "aurora", "orca"])
def test_a_sender_is_trained_and_plays(preset: str, tmp_path: Path) -> None:
    overrides = SHORT | {"flow.preset": preset}
    small = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "net_arch": [8]}
    path = train(
        "ppo",
        "flow-1g-1ms",
        total_steps=64,
        out=tmp_path,
        n_envs=1,
        overrides=overrides,
        hyper_parameters=small,
    )
    agent: Any = make_agent("ppo", checkpoint=path)
    limit = {"datacenter": 1.0, "aurora": 10.0, "orca": 1.0}[preset]
    assert agent.meta.action_scale == {"name": "linear", "low": -limit, "high": limit}
    env = gym.make("sysgym/FlowCC-v0", scenario=agent.meta.scenario, **agent.env_kwargs)
    total, info = play_episode(env, agent, seed=0)
    assert np.isfinite(total)
    assert info["episode_metrics"]["goodput_bps"] > 0.0


def test_what_belongs_to_the_preset_cannot_be_chosen(tmp_path: Path) -> None:
    for choice in ({"features": ["queue"]}, {"action_scale": "linear"}):
        with pytest.raises(SysgymError, match=r"flow\.preset"):
            train("ppo", "flow-1g-1ms", total_steps=64, out=tmp_path, **choice)
