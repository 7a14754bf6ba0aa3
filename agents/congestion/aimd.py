"""AIMD of host rates by a controller that observes the switches."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.protocol import world_of
from sysgym.envs.congestion.base import Array
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.datacenter.paths import paths_of_hosts


class AimdAgent:
    """Additive increase; multiplicative decrease on marks and queues on the host's own paths.

    Chiu and Jain, Analysis of the Increase and Decrease Algorithms for Congestion Avoidance in Computer
    Networks, Computer Networks and ISDN Systems, 1989: the only linear rule that converges to equal shares. A
    host's rate decreases if any switch port on its paths marks or delays packets; otherwise it increases
    while the host has data to send.

    Args:
        increase: Increase in every interval without congestion, as a fraction of the line rate.
        decrease: Factor in an interval with congestion.
        delay_limit: Value of the feature ``queue_delay`` above which a port is congested; at 0.5 queueing
            doubles the base RTT.
        start: Initial rate, as a fraction of the line rate.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "aimd"

    def __init__(
        self, increase: float = 0.01, decrease: float = 0.85, delay_limit: float = 0.5, start: float = 0.1
    ) -> None:
        """Set the constants; the class documentation describes them."""
        self.increase = in_range(self.name, "increase", increase, least=0.0, most=1.0)
        self.decrease = in_range(self.name, "decrease", decrease, least=0.0, most=1.0)
        self.delay_limit = in_range(self.name, "delay_limit", delay_limit, least=0.0)
        self.start = in_range(self.name, "start", start, least=0.0, most=1.0)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Look up the congestion signals in the observation, and the ports on each host's paths."""
        world = world_of(env, self.name, DatacenterCC)
        self._marks = world.observation_part("mark_fraction")
        self._delays = world.observation_part("queue_delay")
        self._active = world.observation_part("active")
        self._uses = paths_of_hosts(world.network, world.fabric)
        self._world = world
        self._rates = np.full(world.fabric.n_hosts, self.start)

    def act(self, observation: Any) -> Array:
        """Increase or decrease the rate of each host."""
        congested_ports = (observation[self._marks] > 0.0) | (observation[self._delays] > self.delay_limit)
        congested = (self._uses & congested_ports).any(axis=1)
        grown = self._rates + self.increase * (observation[self._active] > 0.0)
        allowed = self._world.actions.native_space
        self._rates = np.clip(
            np.where(congested, self._rates * self.decrease, grown), allowed.low, allowed.high
        )
        return self._world.action_for(self._rates)
