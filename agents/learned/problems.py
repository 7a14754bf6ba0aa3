"""Learning problems: environments, and the meaning of a policy's inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sysgym.agents.learned.sets.network import SetShape
from sysgym.scenarios import Scenario
from sysgym.scenarios.errors import SysgymError

MASK = "action_mask"
"""Key of the mask of allowed actions in observations."""


class Problem(Protocol):
    """Learning problem of a scenario."""

    discrete_actions: bool
    """Whether actions are discrete; otherwise they are continuous within bounds."""

    env_kwargs: Mapping[str, Any]
    """Other arguments of the environment, with which it is created again to play the policy."""

    set_shape: SetShape | None
    """Layout of the choices in the observation if actions are masked; otherwise None."""

    def envs(self, n_envs: int, seed: int) -> Any:
        """Return a ``VecEnv`` of stable-baselines3 with the methods ``state`` and ``set_state``.

        ``set_state`` restores a state returned by ``state``, which may come from another object.
        """

    def observation_index(self) -> list[str]:
        """Return the name of every value of the observation."""

    def action_meaning(self) -> dict[str, Any]:
        """Return the meaning of a policy's output, a dict with at least a ``name``."""


def refuse_settings(scenario: Scenario, env_kwargs: Mapping[str, Any], action_scale: str) -> None:
    """Check that no settings are given for an environment without settings, rather than ignoring them.

    Args:
        scenario: The scenario.
        env_kwargs: Arguments for the environment; the trainer's defaults are allowed.
        action_scale: Name of the action scale.

    Raises:
        SysgymError: If a setting is given.
    """
    for name, choice, only in (
        ("features", env_kwargs.get("features"), None),
        ("history", env_kwargs.get("history", 1), 1),
        ("reward", env_kwargs.get("reward", "default"), "default"),
        ("action_scale", action_scale, "log"),
    ):
        if choice != only:
            raise SysgymError(
                f"{scenario.name}: training on {scenario.family} has no choice of {name}, got {choice!r}"
                f"{_instead(scenario, name, choice)}"
            )


def _instead(scenario: Scenario, name: str, choice: Any) -> str:
    """Return advice to set a value in the scenario instead; empty if the scenario has no such key."""
    if name != "reward" or not hasattr(getattr(scenario, name, None), "name"):
        return ""
    return (
        f"; set it in the scenario: --set {name}.name={choice}, in Python"
        f' overrides={{"{name}.name": "{choice}"}}'
    )
