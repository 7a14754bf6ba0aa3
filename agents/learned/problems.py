"""What a learner faces in each family of scenarios: environments, and what its policy's numbers mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import gymnasium as gym

from sysgym.agents.learned.set_net import SetShape
from sysgym.scenarios import Scenario
from sysgym.scenarios.errors import SysgymError


class Problem(Protocol):
    """A family's scenario as a learner sees it."""

    discrete_actions: bool
    """Whether an action is one of a few; otherwise it is numbers within bounds."""

    env_kwargs: Mapping[str, Any]
    """What else an environment is made with, to be made so again when the policy plays."""

    set_shape: SetShape | None
    """How the observation lists the choices, where some of them are forbidden; None elsewhere."""

    def envs(self, n_envs: int, seed: int) -> Any:
        """Return environments side by side: a ``VecEnv`` of stable-baselines3 that tells its ``state``.

        ``set_state`` of another one brings that to where this is.
        """

    def observation_index(self) -> list[str]:
        """Return what stands at every index of the observation."""

    def action_meaning(self) -> dict[str, Any]:
        """Return how a policy's output is read; has a ``name``."""


class Rates:
    """Congestion: an environment is a network, an action the rates of its hosts.

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
        from sysgym.agents.learned.side_by_side import SideBySide

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
        from sysgym.agents.learned.hosts.rows import HostRows

        super().__init__(scenario, env_kwargs, action_scale)
        self._rows = HostRows(self.observation_index())
        self.set_shape = self._rows.shape

    def envs(self, n_envs: int, seed: int) -> Any:
        """Return environments in one process, in their vector form."""
        from sysgym.agents.learned.hosts.policy import RowsOfHosts

        return RowsOfHosts(super().envs(n_envs, seed), self._rows)


def problem_of(
    scenario: Scenario, env_kwargs: Mapping[str, Any], action_scale: str, *, over_hosts: bool = False
) -> Problem:
    """Return the problem of a scenario's family.

    Args:
        scenario: The scenario.
        env_kwargs: What else the environments are made with.
        action_scale: Name of the action scale.
        over_hosts: Whether the learner is one network for every host.

    Raises:
        SysgymError: If a setting is chosen that the family does not have.
    """
    if over_hosts and scenario.env_id != "sysgym/DatacenterCC-v0":
        raise SysgymError(f"{scenario.name}: one policy for all hosts plays sysgym/DatacenterCC-v0 only")
    if scenario.family in ("stragglers", "placement"):
        # They are seen and paid in one way; a choice must not be passed over in silence.
        for name, choice, only in (
            ("features", env_kwargs.get("features"), None),
            ("history", env_kwargs.get("history", 1), 1),
            ("reward", env_kwargs.get("reward", "default"), "default"),
            ("action_scale", action_scale, "log"),
        ):
            if choice != only:
                raise SysgymError(
                    f"{scenario.name}: training on {scenario.family} has no choice of {name}, got {choice!r}"
                )
    if scenario.env_id == "sysgym/FlowCC-v0":
        for name, choice, only in (
            ("features", env_kwargs.get("features"), None),
            ("action_scale", action_scale, "log"),
        ):
            if choice != only:
                raise SysgymError(
                    f"{scenario.name}: the sender of a flow has no choice of {name}, got {choice!r};"
                    " its preset decides (flow.preset)"
                )
        return FlowRates(scenario, env_kwargs)
    if scenario.family == "stragglers":
        from sysgym.agents.learned.stragglers.tasks import Tasks

        return Tasks(scenario)
    if scenario.family == "placement":
        from sysgym.agents.learned.placement.choices import Choices

        return Choices(scenario)
    kind = HostRates if over_hosts else Rates
    return kind(scenario, env_kwargs, action_scale)
