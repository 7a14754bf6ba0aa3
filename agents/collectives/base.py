"""Base classes of the family's agents."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.protocol import world_of
from sysgym.emulator.collectives.schedule import Plan, Schedule
from sysgym.emulator.collectives.spread import Spread
from sysgym.emulator.collectives.task import SynthesisTask
from sysgym.envs.collectives.synthesis import CollectiveSynthesis


class Synthesizer:
    """Base class of agents that make a whole schedule and then play it, transfer by transfer.

    Attributes:
        name: Name of the agent.
    """

    name = ""
    STREAM = 0
    """Random stream of the agent."""

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Make the schedule.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world = world_of(env, self.name, CollectiveSynthesis)
        world.follow(self.plans(world.task, np.random.default_rng([self.STREAM, world.episode_seed or 0])))

    def act(self, observation: Any) -> int:
        """Return the only candidate, the next transfer of the schedule."""
        return 0

    def plans(self, task: SynthesisTask, rng: np.random.Generator) -> list[Plan]:
        """Return a plan for each phase of a task.

        Args:
            task: The task.
            rng: Generator of random choices.
        """
        made: list[Plan] = []
        for _ in task.collective.phases:
            made.append(self.phase_plan(Spread.after(task, made), rng))
        return made

    @abstractmethod
    def phase_plan(self, start: Spread, rng: np.random.Generator) -> Plan:
        """Return the plan of a phase from its initial state, which is not changed."""

    def synthesize(self, task: SynthesisTask, rng: np.random.Generator | None = None) -> Schedule:
        """Return the schedule of a task, without an environment."""
        return Schedule.of_plans(task, self.plans(task, rng or np.random.default_rng(0)))
