"""Random: a lower baseline for every controller."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.congestion.bounded_actions import bounded_actions
from sysgym.agents.protocol import episode_rng
from sysgym.envs.congestion.base import Array

STREAM = 0x5EED
"""Random stream of the agent, distinct from that of the workload with the same seed."""


class RandomAgent:
    """Uniformly random rate for every host in every interval, seeded by the episode."""

    name = "random"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Seed the generator with the episode seed.

        Raises:
            SysgymError: If the environment's actions are not numbers between bounds.
        """
        self._space = bounded_actions(env, self.name)
        self._rng = episode_rng(env, STREAM)

    def act(self, observation: Any) -> Array:
        """Draw an action."""
        low, high = self._space.low, self._space.high
        drawn: Array = self._rng.uniform(low, high).astype(np.float32)
        return drawn
