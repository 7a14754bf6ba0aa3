"""Fixed fair share: divide every bottleneck once, among all that could ever use it, and never look again."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from sysgym.agents.congestion.world import Action, Paths, congestion_env, static_shares


class FixedFairAgent:
    """Every host's max-min fair share if all its flows were active, for good.

    What an operator can set who knows the topology and who talks to whom, but not when.
    """

    name = "fixed_fair"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Work the shares out."""
        world = congestion_env(env)
        self._action: Action = world.action_for(static_shares(world, Paths(world)))

    def act(self, observation: Any) -> Action:
        """Return them."""
        return self._action
