"""Registration of environments with Gymnasium.

The ids come from the declarations of the families; see :mod:`sysgym.scenarios.families`. A user's file, given
by ``--plugin``, can add an environment to a family::

    from sysgym.registration import register_environment

    @register_environment("mine/OneKnob-v0", family="FAMILY")
    class OneKnob(gym.Env): ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import gymnasium

from sysgym.scenarios.families import add_environment, on_environment, register_family
from sysgym.scenarios.family import Environment, Evaluation

__all__ = ["ENVIRONMENTS", "register_environment", "register_environments", "register_family"]

EnvironmentClass = TypeVar("EnvironmentClass", bound=type)

ENVIRONMENTS: dict[str, str] = {}
"""Id -> entry point of every registered environment."""


def register_environments() -> None:
    """Register the environments of all families, including families loaded later; idempotent."""
    if not ENVIRONMENTS:
        on_environment(_register)


def register_environment(
    env_id: str,
    *,
    family: str,
    vector_entry_point: str = "",
    evaluation: Evaluation | None = None,
    agent_arguments: Mapping[str, Any] | None = None,
) -> Callable[[EnvironmentClass], EnvironmentClass]:
    """Register an environment and add it to a family; use as a decorator on its class.

    Args:
        env_id: Gymnasium id, ``namespace/Name-v0``; scenario files of the family may refer to it.
        family: Name of the family.
        vector_entry_point: Entry point of the vectorised environment; empty if there is none.
        evaluation: Evaluation of results; None: that of the family.
        agent_arguments: Arguments with which agents and benchmarks create the environment.

    Raises:
        UnknownName: There is no such family.
        SysgymError: The id is registered already.
    """

    def register(environment: EnvironmentClass) -> EnvironmentClass:
        entry_point = f"{environment.__module__}:{environment.__qualname__}"
        arguments = dict(agent_arguments or {})
        add_environment(family, Environment(env_id, entry_point, vector_entry_point, evaluation, arguments))
        return environment

    return register


def _register(environment: Environment) -> None:
    # Entry points are strings, so that registration imports nothing; `gymnasium.make` loads the class.
    # No max_episode_steps: the environment itself truncates episodes at the scenario's length.
    ENVIRONMENTS[environment.env_id] = environment.entry_point
    if environment.env_id not in gymnasium.registry:
        gymnasium.register(
            id=environment.env_id,
            entry_point=environment.entry_point,
            vector_entry_point=environment.vector_entry_point or None,
        )
