"""Agents that choose one transfer at a time: a random candidate, or the earliest one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.protocol import episode_rng, world_of
from sysgym.envs.collectives.synthesis import CollectiveSynthesis

STREAM = 0xC0117
"""Random stream of the random agent."""


class RandomAgent:
    """Uniformly random candidate, seeded by the episode."""

    name = "random"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Seed the generator by the episode.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world_of(env, self.name, CollectiveSynthesis)
        self._rng = episode_rng(env, STREAM)

    def act(self, observation: Any) -> int:
        """Draw an action."""
        return int(self._rng.choice(np.flatnonzero(observation["action_mask"] > 0.0)))


class EarliestAgent:
    """The candidate that arrives first; ties go to the chunk that the fewest devices have."""

    name = "earliest"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Check the environment.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world_of(env, self.name, CollectiveSynthesis)

    def act(self, observation: Any) -> int:
        """Return the first row."""
        return 0
