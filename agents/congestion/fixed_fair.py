"""Fixed fair share: every bottleneck is divided once among all hosts that may ever use it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from sysgym.agents.congestion.world import Action, Paths, congestion_env, static_shares


class FixedFairAgent:
    """Constant max-min fair share of every host, as if all flows were active.

    This is a static configuration by an operator who knows the topology and the traffic pairs, but not their
    timing.
    """

    name = "fixed_fair"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Compute the shares."""
        world = congestion_env(env)
        self._action: Action = world.action_for(static_shares(world, Paths(world)))

    def act(self, observation: Any) -> Action:
        """Return the shares."""
        return self._action
