"""Learning problems of the congestion family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from sysgym.agents.learned.sets.network import SetShape
from sysgym.scenarios import Scenario


class Rates:
    """Learning problem with the rates of hosts, or of one flow, as actions.

    Args:
        scenario: The scenario.
        env_kwargs: Other arguments of the environments.
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
        """Return the vector environment in one process; stable-baselines3 seeds it."""
        from sysgym.agents.learned.congestion.sb3_vector_env import Sb3VectorEnv

        return Sb3VectorEnv(self._scenario, n_envs, self.env_kwargs, self._scale)

    def observation_index(self) -> list[str]:
        """Return the observation index of the environment."""
        index: list[str] = getattr(self.make_env().unwrapped, "observation_index", [])
        return index

    def action_meaning(self) -> dict[str, Any]:
        """Return the action scale."""
        world: Any = self.make_env().unwrapped
        return {"name": self._scale, "low": world.native_bounds[0], "high": world.native_bounds[1]}


class FlowRates(Rates):
    """Learning problem of one flow. Native actions are symmetric, so the scale is linear.

    Args:
        scenario: The scenario.
        env_kwargs: Other arguments of the environments.
    """

    def __init__(self, scenario: Scenario, env_kwargs: Mapping[str, Any]) -> None:
        # One interval, the trainer's default, stands for the preset's own number.
        kept = {name: value for name, value in env_kwargs.items() if (name, value) != ("history", 1)}
        super().__init__(scenario, kept, "linear")


class HostRates(Rates):
    """Learning problem with observations by host, for a network shared by all hosts.

    Args:
        scenario: The scenario.
        env_kwargs: Other arguments of the environments.
        action_scale: Name of the action scale.
    """

    def __init__(self, scenario: Scenario, env_kwargs: Mapping[str, Any], action_scale: str) -> None:
        from sysgym.agents.learned.congestion.hosts.rows import HostRows

        super().__init__(scenario, env_kwargs, action_scale)
        self._rows = HostRows(self.observation_index())
        self.set_shape = self._rows.shape

    def envs(self, n_envs: int, seed: int) -> Any:
        """Return the vector environment in one process."""
        from sysgym.agents.learned.congestion.hosts.policy import RowsOfHosts

        return RowsOfHosts(super().envs(n_envs, seed), self._rows)
