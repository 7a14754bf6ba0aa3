"""Fair share, less a multiple of the queueing delay on the host's paths."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.congestion.fixed_fair import FixedFairAgent
from sysgym.agents.protocol import world_of
from sysgym.envs.congestion.base import Array
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.datacenter.paths import largest_on_paths, paths_of_hosts


class FairFeedbackAgent(FixedFairAgent):
    """Fraction of the max-min fair share of every host, less in proportion to the longest queue on its paths.

    ``fixed_fair`` with feedback: hosts that send through a queue reduce their rates until it has drained.

    Args:
        fraction: Rate of a host over its fair share, without queues.
        gain: Decrease of the rate, as a fraction of the line rate, for a value of 1 of the feature
            ``queue_delay``; at 0.5 queueing doubles the base RTT.

    Raises:
        SysgymError: If the fraction is not above 0 and at most 1, or the gain is negative.
    """

    name = "fair_feedback"

    def __init__(self, fraction: float = 1.0, gain: float = 0.1) -> None:
        """Set the constants."""
        super().__init__(fraction)
        self.gain = in_range(self.name, "gain", gain, least=0.0)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Compute the shares, and look up the ports on each host's paths."""
        super().begin(env)
        world = world_of(env, self.name, DatacenterCC)
        self._world = world
        self._delays = world.observation_part("queue_delay")
        self._uses = paths_of_hosts(world.network, world.fabric)

    def act(self, observation: Any) -> Array:
        """Return the shares, less the gain times the longest queueing delay."""
        delay = largest_on_paths(self._uses, observation[self._delays])
        allowed = self._world.actions.native_space
        return self._world.action_for(np.clip(self._shares - self.gain * delay, allowed.low, allowed.high))
