"""Random: the floor that every controller has to be above."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.congestion.world import Action

STREAM = 0x5EED
"""Keeps the agent's numbers apart from those of the workload, which has the same episode seed."""


class RandomAgent:
    """A uniformly random rate for every host, anew in every interval; seeded by the episode."""

    name = "random"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Seed by the episode seed."""
        seed: int | None = getattr(env.unwrapped, "episode_seed", None)
        self._rng = np.random.default_rng([STREAM, 0 if seed is None else seed])
        self._space: Any = env.action_space

    def act(self, observation: Any) -> Action:
        """Draw."""
        low, high = self._space.low, self._space.high
        drawn: Action = self._rng.uniform(low, high).astype(np.float32)
        return drawn
