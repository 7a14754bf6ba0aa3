"""Max: always the highest rate. With a classical transport, the results are those of the transport."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.congestion.bounded_actions import bounded_actions
from sysgym.envs.congestion.base import Array


class MaxAgent:
    """Always the highest rate, which does not restrict the transport."""

    name = "max"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Look up the highest action.

        Raises:
            SysgymError: If the environment's actions are not numbers between bounds.
        """
        highest = bounded_actions(env, self.name).high.astype(np.float32)
        # Where actions multiply a window, the highest action is not the neutral one.
        self._action: Array = getattr(env.unwrapped, "uncapped_action", highest)

    def act(self, observation: Any) -> Array:
        """Return the highest action."""
        return self._action
