"""Agents that plan the GPUs of every layer: constants, rules, and dynamic programs on the profile."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.protocol import episode_rng, world_of, wrong_environment
from sysgym.emulator.bursts.layers import step_times_s
from sysgym.emulator.bursts.planning import IntArray, knee_plan, optimal_plan, published_plan
from sysgym.envs.bursts.mux import BurstMux
from sysgym.envs.bursts.plan import BurstPlan
from sysgym.scenarios.errors import SysgymError

STREAM = 0xB0A
"""Random stream of the random agent."""


class PlanningAgent:
    """Base class of agents that make the whole plan at the beginning.

    Attributes:
        name: Name of the agent.
    """

    name = "planning"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Make the plan.

        Raises:
            SysgymError: If the environment is of another class.
        """
        self._plan: Iterator[int] = iter(self.plan(world_of(env, self.name, BurstPlan)).tolist())

    def act(self, observation: Any) -> int:
        """Return the exponent of the next layer."""
        return int(next(self._plan))

    @abstractmethod
    def plan(self, world: BurstPlan) -> IntArray:
        """Return the plan of an episode, shape (n_layers,)."""


class DataParallel(PlanningAgent):
    """All GPUs for every layer."""

    name = "data_parallel"

    def plan(self, world: BurstPlan) -> IntArray:
        """Return the plan."""
        n_layers, n_counts = world.profile.compute_s.shape
        return np.full(n_layers, n_counts - 1)


class OneGpu(PlanningAgent):
    """One GPU for every layer."""

    name = "one_gpu"

    def plan(self, world: BurstPlan) -> IntArray:
        """Return the plan."""
        return np.zeros(len(world.profile.compute_s), np.int64)


class FixedGpus(PlanningAgent):
    """The same number of GPUs for every layer.

    Args:
        gpus: Number of GPUs, a power of two; at most all of them are used.

    Raises:
        SysgymError: If the number is not a power of two.
    """

    name = "fixed_gpus"

    def __init__(self, gpus: int = 4) -> None:
        if gpus < 1 or gpus & (gpus - 1):
            raise SysgymError(f"{self.name}: gpus: expected a power of two, got {gpus!r}")
        self._exponent = gpus.bit_length() - 1

    def plan(self, world: BurstPlan) -> IntArray:
        """Return the plan."""
        n_layers, n_counts = world.profile.compute_s.shape
        return np.full(n_layers, min(self._exponent, n_counts - 1))


class Knee(PlanningAgent):
    """For each layer, the cheapest GPU count given that of the previous layer."""

    name = "knee"

    def plan(self, world: BurstPlan) -> IntArray:
        """Return the plan."""
        steps_s = step_times_s(world.profile, world.drawn)
        return knee_plan(world.profile, steps_s, world.drawn.background.idle_value)


class DeepPool(PlanningAgent):
    """DeepPool's planner: the fastest plan whose layers are amplified less than a limit.

    Args:
        limit: Limit of the amplification.

    Raises:
        SysgymError: If the limit is below 1.
    """

    name = "deeppool"

    def __init__(self, limit: float = 2.0) -> None:
        self.limit = in_range(self.name, "limit", limit, least=1.0)

    def plan(self, world: BurstPlan) -> IntArray:
        """Return the plan."""
        return published_plan(world.profile, step_times_s(world.profile, world.drawn), self.limit)


class DynamicProgram(PlanningAgent):
    """The cheapest plan of the profile, by a dynamic program: the optimum if the profile is exact."""

    name = "dynamic_program"

    def plan(self, world: BurstPlan) -> IntArray:
        """Return the plan."""
        steps_s = step_times_s(world.profile, world.drawn)
        return optimal_plan(world.profile, steps_s, world.drawn.background.idle_value)[0]


class RandomAgent:
    """Uniformly random actions, seeded by the episode, in either environment."""

    name = "random"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Seed the generator by the episode.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world = env.unwrapped
        if not isinstance(world, BurstPlan | BurstMux):
            raise wrong_environment(self.name, world, BurstPlan, BurstMux)
        self._n_actions = int(world.action_space.n)
        self._rng = episode_rng(env, STREAM)

    def act(self, observation: Any) -> int:
        """Draw an action."""
        return int(self._rng.integers(self._n_actions))
