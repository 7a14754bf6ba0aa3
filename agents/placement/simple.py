"""Agents without a search: the default, a random choice, and the BlueConnect decomposition."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.placement.base import Choice, JointView, Placer
from sysgym.agents.placement.steps import blueconnect
from sysgym.agents.protocol import episode_rng, world_of
from sysgym.emulator.accelerators.jobs.assignments import packed
from sysgym.emulator.accelerators.jobs.jobs import IntArray
from sysgym.emulator.accelerators.matrices import Matrix, default_matrix
from sysgym.emulator.accelerators.programs import Program
from sysgym.envs.placement.base import PlacementEnv
from sysgym.envs.placement.multijob import MultiJobPlacement
from sysgym.envs.placement.placement import CollectivePlacement
from sysgym.envs.placement.program import ReductionProgram

STREAM = 0x91ACE
"""Random stream of the random agent."""


class DefaultAgent(Placer):
    """Axes in the order given, the last one innermost; a single all-reduce.

    In the joint environment, whose candidates are the nominally best ones, it commits to the candidate whose
    nominal time is closest to the default's.
    """

    name = "default"

    def place(self, world: CollectivePlacement) -> Matrix:
        """Return the matrix that launchers use."""
        return default_matrix(world.problem.hierarchy.cardinalities, world.problem.axes)

    def build(self, world: ReductionProgram) -> tuple[int, ...]:
        """Return the all-reduce."""
        return actions_of(world, blueconnect(world.task.space.n_levels, 1))

    def assign(self, world: MultiJobPlacement) -> IntArray:
        """Fill one node after another."""
        return packed(world.system.hierarchy, world.system.jobs)

    def choose(self, view: JointView) -> Choice:
        """Commit without measuring."""
        return Choice(int(np.abs(view.nominal).argmin()), commit=True)


class RandomAgent:
    """Uniformly random allowed action, seeded by the episode.

    Attributes:
        evaluations: Number of cost evaluations, always 0.
    """

    name = "random"
    evaluations = 0

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Seed the generator by the episode.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world_of(env, self.name, PlacementEnv)  # type: ignore[type-abstract]
        self._rng = episode_rng(env, STREAM)

    def act(self, observation: Any) -> int:
        """Draw an action."""
        return int(self._rng.choice(np.flatnonzero(observation["action_mask"] > 0.0)))


class BlueConnectAgent(Placer):
    """Reduce-scatter inside, all-reduce across, all-gather inside; placed as by default."""

    name = "blueconnect"

    def place(self, world: CollectivePlacement) -> Matrix:
        """Return the default placement."""
        return default_matrix(world.problem.hierarchy.cardinalities, world.problem.axes)

    def build(self, world: ReductionProgram) -> tuple[int, ...]:
        """Return the program, level by level as far as the steps allow."""
        levels = world.task.space.n_levels
        return actions_of(world, blueconnect(levels, world.scenario.problem.program_steps))


def actions_of(world: ReductionProgram, program: Program) -> tuple[int, ...]:
    """Return the actions that run a program."""
    return tuple(world.action_of(instruction) for instruction in program)
