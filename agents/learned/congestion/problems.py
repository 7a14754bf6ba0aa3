"""Problems of the congestion family, as a learner sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from sysgym.agents.learned.sets.network import SetShape
from sysgym.scenarios import Scenario


class Rates:
    """The rates of hosts, or of one flow, as a learner sees them.

    Args:
        scenario: The scenario.
        env_kwargs: What else the environments are made with.
        action_scale: Name of the action scale.
    """

    discrete_actions = False
    set_shape: SetShape | None = None

    def __init__(self, scenario: Scenario, env_kwargs: Mapping[str, Any], action_scale: str) -> None:
        self._scenario, self.env_kwargs, self._scale = scenario, env_kwargs, action_scale

    def make_env(self) -> gym.Env[Any, Any]:
        """Return one environment."""
        return gym.make(
            self._scenario.env_id,
            scenario=self._scenario,
            split="train",
            action_scale=self._scale,
            disable_env_checker=True,
            **self.env_kwargs,
        )

    def envs(self, n_envs: int, seed: int) -> Any:
        """Return environments in one process, in their vector form; stable-baselines3 seeds them."""
        from sysgym.agents.learned.congestion.side_by_side import SideBySide

        return SideBySide(self._scenario, n_envs, self.env_kwargs, self._scale)

    def observation_index(self) -> list[str]:
        """Return the environment's own index."""
        index: list[str] = getattr(self.make_env().unwrapped, "observation_index", [])
        return index

    def action_meaning(self) -> dict[str, Any]:
        """Return the scale."""
        world: Any = self.make_env().unwrapped
        return {"name": self._scale, "low": world.native_bounds[0], "high": world.native_bounds[1]}


class FlowRates(Rates):
    """One flow: an action is in the environment's own, symmetric units, so that the scale is linear.

    Args:
        scenario: The scenario.
        env_kwargs: What else the environments are made with.
    """

    def __init__(self, scenario: Scenario, env_kwargs: Mapping[str, Any]) -> None:
        # One interval is the trainer's default and stands for the preset's own number.
        kept = {name: value for name, value in env_kwargs.items() if (name, value) != ("history", 1)}
        super().__init__(scenario, kept, "linear")


class HostRates(Rates):
    """The rates of hosts, seen host by host: for one network that serves all of them.

    Args:
        scenario: The scenario.
        env_kwargs: What else the environments are made with.
        action_scale: Name of the action scale.
    """

    def __init__(self, scenario: Scenario, env_kwargs: Mapping[str, Any], action_scale: str) -> None:
        from sysgym.agents.learned.congestion.hosts.rows import HostRows

        super().__init__(scenario, env_kwargs, action_scale)
        self._rows = HostRows(self.observation_index())
        self.set_shape = self._rows.shape

    def envs(self, n_envs: int, seed: int) -> Any:
        """Return environments in one process, in their vector form."""
        from sysgym.agents.learned.congestion.hosts.policy import RowsOfHosts

        return RowsOfHosts(super().envs(n_envs, seed), self._rows)
