"""Learning problems of the congestion family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from sysgym.agents.learned.sets.network import SetShape
from sysgym.scenarios import Scenario
from sysgym.scenarios.errors import SysgymError, UnknownName

if TYPE_CHECKING:
    from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
    from sysgym.envs.congestion.flow.flow_cc import FlowCC


class Rates:
    """Learning problem whose actions are the rates of hosts or of one flow.

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
        """Return one environment of the train split."""
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
        # A history of one interval is the trainer's default and means the preset's own history. If a preset
        # is named, the arguments are those of an environment, and the value is used as given.
        means_default = "preset" not in env_kwargs and env_kwargs.get("history") == 1
        left_out = {"history"} if means_default else set()
        kept = {name: value for name, value in env_kwargs.items() if name not in left_out}
        super().__init__(scenario, kept, "linear")


def rates_like(env: Any, scenario: Scenario) -> Rates:
    """Return the learning problem with the observations and actions of an environment.

    Args:
        env: The environment, without wrappers.
        scenario: The scenario of the problem, with the id of this environment.

    Raises:
        SysgymError: If a preset or a feature group is an object without a registered name.
    """
    from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
    from sysgym.envs.congestion.flow.flow_cc import FlowCC

    if isinstance(env, FlowCC):
        return FlowRates(scenario, _arguments_of_flow(env))
    arguments = _arguments_of_network(env) if isinstance(env, DatacenterCC) else {}
    form = getattr(getattr(env, "actions", None), "form", "linear")
    # Native rates equal those of a linear scale after the network's last layer has been scaled.
    return Rates(scenario, arguments, "log" if form == "log" else "linear")


def _arguments_of_flow(env: FlowCC) -> dict[str, Any]:
    """Return the arguments of an environment of one flow that a checkpoint stores."""
    from sysgym.envs.congestion.flow.presets import PRESETS, get_flow_reward

    preset, chosen = env.preset, env.scenario.reward.name
    if PRESETS.get(preset.name) != preset:
        raise SysgymError(
            f'{type(env).__name__}: the preset "{preset.name}" is not registered, so a checkpoint cannot name'
            " it; call register_preset before you create the environment, in a file for --plugin"
        )
    arguments = {"preset": preset.name, "history": int(env.history)}
    own = preset.reward.name if chosen == "default" else chosen
    return arguments | _reward_of(env.reward, own, get_flow_reward)


def _arguments_of_network(env: DatacenterCC) -> dict[str, Any]:
    """Return the arguments of an environment of a whole network that a checkpoint stores."""
    from sysgym.envs.congestion.datacenter.rewards import get_reward

    builder = env.observations
    if own := builder.own_features:
        raise SysgymError(
            f"{type(env).__name__}: a checkpoint can name the package's feature groups only, and"
            f" {', '.join(own)} {'is' if len(own) == 1 else 'are'} your own; write an agent for this policy"
            " (docs/adding-an-agent.md)"
        )
    arguments = {"features": list(builder.features), "history": int(builder.history)}
    return arguments | _reward_of(env.reward, env.scenario.reward.name, get_reward)


def _reward_of(reward: Any, own: str, find: Callable[[str], Any]) -> dict[str, Any]:
    """Return the reward as an argument; empty if it is the scenario's own, or not registered."""
    try:
        named = reward.name != own and find(reward.name) == reward
    except UnknownName:
        named = False
    return {"reward": reward.name} if named else {}


class HostRates(Rates):
    """Learning problem with observations arranged by host, for a network shared by all hosts.

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
