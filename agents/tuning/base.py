"""Base class of agents that measure plans of their own and then stop."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import gymnasium as gym

from sysgym.emulator.tuning.timing import Plan
from sysgym.envs.tuning.tuning import TrainingTuning
from sysgym.scenarios.errors import SysgymError

STOP = 0
"""Action that ends the episode."""


class PlanningAgent:
    """Agent that measures a plan and stops.

    Attributes:
        name: Name of the agent.
    """

    name = "planning"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Measure the plan.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world = world_of(env, self.name)
        world.adopt(self.plan(world))

    def act(self, observation: Any) -> int:
        """Stop."""
        return STOP

    @abstractmethod
    def plan(self, world: TrainingTuning) -> Plan:
        """Return the plan of an episode."""


def world_of(env: gym.Env[Any, Any], agent: str) -> TrainingTuning:
    """Return the environment below all wrappers.

    Raises:
        SysgymError: If it belongs to another family.
    """
    world = env.unwrapped
    if not isinstance(world, TrainingTuning):
        raise SysgymError(f'the agent "{agent}" plays TrainingTuning, not {type(world).__name__}')
    return world
