"""Oracles: the cheapest plan of the true times, and the best background work of every window."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from sysgym.agents.protocol import wrong_environment
from sysgym.emulator.bursts.planning import optimal_plan
from sysgym.envs.bursts.mux import BurstMux
from sysgym.envs.bursts.plan import BurstPlan


class Oracle:
    """The best actions, computed from the true times and the future interference."""

    name = "oracle"
    privileged = True

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Find the actions of the episode.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world = env.unwrapped
        if isinstance(world, BurstPlan):
            value = world.drawn.background.idle_value
            actions = optimal_plan(world.layers, world.true_steps_s, value)[0]
        elif isinstance(world, BurstMux):
            actions = world.episode.worth.argmax(axis=1)
        else:
            raise wrong_environment(self.name, world, BurstPlan, BurstMux)
        self._actions = iter(actions.tolist())

    def act(self, observation: Any) -> int:
        """Return the next action."""
        return int(next(self._actions))
