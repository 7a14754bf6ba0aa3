"""Base class of agents that measure a plan of their own and then stop."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import gymnasium as gym

from sysgym.emulator.pipelines.plans import Plan
from sysgym.envs.pipelines.pipeline_tuning import PipelineTuning
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
        """Measure the plan, if it is not the first one.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world = world_of(env, self.name)
        plan = self.plan(world)
        if plan != world.plan:
            world.adopt(plan)

    def act(self, observation: Any) -> int:
        """Stop."""
        return STOP

    @abstractmethod
    def plan(self, world: PipelineTuning) -> Plan:
        """Return the plan of an episode."""


def world_of(env: gym.Env[Any, Any], agent: str) -> PipelineTuning:
    """Return the environment below all wrappers.

    Raises:
        SysgymError: If it belongs to another family.
    """
    world = env.unwrapped
    if not isinstance(world, PipelineTuning):
        raise SysgymError(f'the agent "{agent}" plays PipelineTuning, not {type(world).__name__}')
    return world
