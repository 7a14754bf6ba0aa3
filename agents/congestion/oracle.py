"""Oracle: fair rates for the current traffic, read from the network. A privileged reference."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.protocol import world_of
from sysgym.envs.congestion.base import Array
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.datacenter.fair_rates import LoadedLinks

LEAST_CAPACITY = 0.1
"""Share of a link that is allocated even while a long queue drains."""


class OracleAgent:
    """Max-min fair host rates for the flows active now, reduced to drain queues.

    Privileged: reads the active flows, their paths and all queues. It does not see the future: a host that is
    idle at the beginning of the interval may start to send in it, and receives its share as if all paths were
    in use.
    """

    name = "oracle"
    privileged = True

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Read the paths of this episode."""
        self._env = world_of(env, self.name, DatacenterCC)
        self._links = LoadedLinks(self._env.network, self._env.fabric)
        self._idle_share = self._links.static_shares()

    def act(self, observation: Any) -> Array:
        """Divide the capacity among the flows active now."""
        network, fabric = self._env.network, self._env.fabric
        flows = network.flows()
        active = np.flatnonzero(flows.started & np.isnan(flows.finish_s))
        load = self._links.host_load(active)
        # Packets of different hosts may coincide by chance; more than one of each indicates overload.
        chance_bytes = self._env.scenario.transport.mtu_bytes * (load.data > 0.0).sum(axis=0)
        excess_bytes = np.maximum(network.ports().queue_bytes - chance_bytes, 0.0)
        rate_bps = network.link_rate_bps
        drain_bps = excess_bytes * 8.0 / self._env.scenario.control.decision_interval_s
        rates_bps = load.fair_rates_bps(np.maximum(rate_bps - drain_bps, LEAST_CAPACITY * rate_bps))
        rates = np.where(load.n_flows > 0, rates_bps / fabric.line_rate_bps, self._idle_share)
        return self._env.action_for(rates)
