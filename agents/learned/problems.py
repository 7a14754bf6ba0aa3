"""The learner's view of a scenario: environments, and the meaning of a policy's inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sysgym.agents.learned.sets.network import SetShape
from sysgym.scenarios import Scenario
from sysgym.scenarios.errors import SysgymError

MASK = "action_mask"
"""Key of observations whose value says which actions are allowed."""


class Problem(Protocol):
    """A scenario as a learner sees it."""

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


def refuse_settings(scenario: Scenario, env_kwargs: Mapping[str, Any], action_scale: str) -> None:
    """Check that nothing is chosen where the environment has no choices.

    Args:
        scenario: The scenario.
        env_kwargs: Arguments for the environment; the trainer's defaults count as no choice.
        action_scale: Name of the action scale.

    Raises:
        SysgymError: Something is: a choice must not be passed over in silence.
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
            )
