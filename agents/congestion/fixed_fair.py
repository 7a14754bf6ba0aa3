"""Fixed fair share: every bottleneck is divided once among all hosts that may ever use it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from sysgym.agents.arguments import in_range
from sysgym.agents.protocol import world_of
from sysgym.envs.congestion.base import Array
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.datacenter.fair_rates import LoadedLinks


class FixedFairAgent:
    """Constant max-min fair share of every host, as if all flows were active.

    This is a static configuration by an operator who knows the topology and the traffic pairs, but not their
    timing.

    Args:
        fraction: Rate of a host over its fair share. At 1 the most loaded links are full and have long
            queues; a slightly smaller fraction keeps the queues short.

    Raises:
        SysgymError: If the fraction is not above 0 and at most 1.
    """

    name = "fixed_fair"

    def __init__(self, fraction: float = 1.0) -> None:
        """Set the fraction."""
        self.fraction = in_range(self.name, "fraction", fraction, above=0.0, most=1.0)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Compute the shares."""
        world = world_of(env, self.name, DatacenterCC)
        self._shares = self.fraction * LoadedLinks(world.network, world.fabric).static_shares()
        self._action: Array = world.action_for(self._shares)

    def act(self, observation: Any) -> Array:
        """Return the shares."""
        return self._action
