"""Max: the highest rate, always. With a classical transport it stands for that transport alone."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from sysgym.agents.congestion.world import Action


class MaxAgent:
    """Always the highest rate: the transport is left to itself."""

    name = "max"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Look up the highest action."""
        highest: Action = env.action_space.high.copy()  # type: ignore[attr-defined]
        # Where actions multiply a window, the highest is not the one that leaves it alone.
        self._action: Action = getattr(env.unwrapped, "uncapped_action", highest)

    def act(self, observation: Any) -> Action:
        """Return it."""
        return self._action
