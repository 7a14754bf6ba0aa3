"""Oracle: max-min fair rates, read off the network itself. An upper bound, not a competitor."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.congestion.world import Action, congestion_env, static_shares


class OracleAgent:
    """Max-min fair rates of the flows active now.

    Privileged: it sees which flows are active on which path. It does not see the future: a host that is idle
    when the interval begins may start in it, and is given what it would have if all paths were in use
    (:func:`static_shares`).
    """

    name = "oracle"
    privileged = True

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Remember the network."""
        self._env = congestion_env(env)
        self._idle_share = static_shares(self._env)

    def act(self, observation: Any) -> Action:
        """Ask the network."""
        env = self._env
        rates = env.network.oracle_rates_bps() / env.fabric.line_rate_bps
        rates = np.where(rates > 0.0, rates, self._idle_share)
        space: Any = env.action_space
        clipped: Action = np.clip(rates, space.low, space.high).astype(np.float32)
        return clipped
