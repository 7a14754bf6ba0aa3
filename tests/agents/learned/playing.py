"""Check that a checkpoint acts as the model that it was written from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents import make_agent
from sysgym.agents.learned.checkpoint import read_checkpoint


def check_plays(path: Path, model: Any, env: gym.Env[Any, Any]) -> None:
    """Check that the checkpoint acts in the environment as the model does."""
    meta = read_checkpoint(path).meta
    agent = make_agent(meta.agent, checkpoint=path, family=meta.family)
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    for _ in range(3):
        expected, _ = model.predict(observation, deterministic=True)
        np.testing.assert_allclose(agent.act(observation), expected, rtol=1e-3, atol=1e-4)
        observation, *_ = env.step(expected)
