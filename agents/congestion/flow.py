"""Heuristic senders for ``sysgym/FlowCC-v0``: a constant rate, AIMD, and the fair share."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.protocol import world_of
from sysgym.envs.congestion.base import Array
from sysgym.envs.congestion.flow.flow_cc import FlowCC


class FlowFixedAgent:
    """Constant initial rate; if the preset sets a window, the underlying law without changes.

    This sender ignores its observations.
    """

    name = "flow_fixed"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Read the rate."""
        self._env = world_of(env, self.name, FlowCC)
        self._rate_bps = self._env.sender.rate_bps

    def act(self, observation: Any) -> Array:
        """Request the same rate again."""
        if self._env.preset.window:
            return np.zeros(1, np.float32)
        return self._env.sender.action_toward(self._rate_bps)


class FlowAimdAgent:
    """Additive increase, multiplicative decrease of a rate, based on the sender's own observation.

    Chiu and Jain, Analysis of the Increase and Decrease Algorithms for Congestion Avoidance in Computer
    Networks, 1989. Congestion is a mark, a loss above the limit, or a round trip above the limit.

    Args:
        increase: Increase in every interval without congestion, as a fraction of the line rate.
        decrease: Factor in an interval with congestion.
        rtt_limit: Ratio of the round-trip time to the lowest one above which the path is congested.
        loss_limit: Loss fraction above which the path is congested; some links lose packets at random.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "flow_aimd"

    def __init__(
        self,
        increase: float = 0.01,
        decrease: float = 0.85,
        rtt_limit: float = 1.5,
        loss_limit: float = 0.1,
    ) -> None:
        """Set the constants; the class documentation describes them."""
        self.increase = in_range(self.name, "increase", increase, least=0.0, most=1.0)
        self.decrease = in_range(self.name, "decrease", decrease, least=0.0, most=1.0)
        self.rtt_limit = in_range(self.name, "rtt_limit", rtt_limit, least=1.0)
        self.loss_limit = in_range(self.name, "loss_limit", loss_limit, least=0.0, most=1.0)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Start at the current rate of the flow."""
        self._env = world_of(env, self.name, FlowCC)
        self._place = {feature.name: at for at, feature in enumerate(self._env.preset.features)}
        self._rate_bps = self._env.sender.rate_bps

    def act(self, observation: Any) -> Array:
        """Increase or decrease the rate."""
        sender = self._env.sender
        if self._congested(observation):
            self._rate_bps *= self.decrease
        else:
            self._rate_bps += self.increase * sender.line_rate_bps
        self._rate_bps = min(max(self._rate_bps, sender.least_rate_bps), sender.line_rate_bps)
        return sender.action_toward(self._rate_bps)

    def _congested(self, observation: Any) -> bool:
        def seen(feature: str) -> float:
            return float(observation[self._place[feature]])

        if self._env.preset.name == "aurora":
            # Unacknowledged data was lost, or waits in a growing queue.
            return seen("latency_ratio") > self.rtt_limit or seen("send_ratio") > 1.0 + self.loss_limit
        if self._env.preset.name == "datacenter":
            waiting = 1.0 - 1.0 / self.rtt_limit
            return (
                seen("mark_fraction") > 0.0
                or seen("queueing") > waiting
                or seen("loss_fraction") > self.loss_limit
            )
        return seen("latency") < 1.0 / self.rtt_limit or seen("loss") > 5.0 * self.loss_limit


class FlowOracleAgent:
    """Current max-min fair share of the flow, reduced to drain the queues on its path.

    Privileged: reads links, queues and active flows from the network. It does not see the future.
    """

    name = "flow_oracle"
    privileged = True

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Store the environment."""
        self._env = world_of(env, self.name, FlowCC)
        links = self._env.network.routes()[0]
        self._links = links[links >= 0]

    def act(self, observation: Any) -> Array:
        """Request the fair share."""
        network = self._env.network
        rate_bps = self._env.world.fair_rate_bps()
        # Two packets may coincide by chance; a longer queue indicates overload.
        chance_bytes = 2.0 * network.scenario.transport.mtu_bytes
        excess_bytes = network.ports().queue_bytes[self._links[1:]] - chance_bytes
        drain_bps = 8.0 * max(float(excess_bytes.max(initial=0.0)), 0.0) / self._env.sender.interval_s
        return self._env.sender.action_toward(max(rate_bps - drain_bps, 0.5 * rate_bps))
