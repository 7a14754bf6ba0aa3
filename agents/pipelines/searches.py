"""Agents that search among local changes: on the profile, on measurements, and on the true times."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.pipelines.base import STOP, PlanningAgent, world_of
from sysgym.emulator.pipelines.balancing import balanced_ranks, balanced_stages
from sysgym.emulator.pipelines.job import Pipeline, Truth, as_thought
from sysgym.emulator.pipelines.plans import Plan, changes, first_plan, step_time_s
from sysgym.envs.pipelines.pipeline_tuning import PipelineTuning
from sysgym.scenarios.errors import SysgymError

STREAM = 0x919F
"""Random stream of the agents."""

MOST_ROUNDS = 300
"""Most changes of a search without a budget."""


class RandomAgent:
    """Uniformly random changes until the budget is used, seeded by the episode."""

    name = "random"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Seed the generator by the episode.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        self._rng = np.random.default_rng([STREAM, world_of(env, self.name).episode_seed or 0])

    def act(self, observation: Any) -> int:
        """Return a random change, or stop if none is allowed."""
        choices = np.flatnonzero(observation["action_mask"])
        choices = choices[choices != STOP]
        return int(self._rng.choice(choices)) if len(choices) else STOP


class CriticalPath(PlanningAgent):
    """The change that shortens the step most by the profile, again and again while one does."""

    name = "critical_path"

    def plan(self, world: PipelineTuning) -> Plan:
        """Return the plan."""
        return descended(world.pipeline, world.plan, as_thought(world.pipeline))


class Annealing(PlanningAgent):
    """Simulated annealing on the profile, from the best of the balanced plans.

    Args:
        evaluations: Plans that are replayed.
        warmth: Temperature at the beginning, as a share of the time of the step.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "annealing"

    def __init__(self, evaluations: int = 1000, warmth: float = 0.01) -> None:
        if evaluations < 1 or not warmth > 0.0:
            raise SysgymError(
                f"annealing: expected evaluations >= 1 and warmth > 0, got {evaluations!r} and {warmth!r}"
            )
        self._evaluations, self._warmth = evaluations, warmth

    def plan(self, world: PipelineTuning) -> Plan:
        """Return the best plan that was seen."""
        rng = np.random.default_rng([STREAM, world.episode_seed or 0])
        return annealed(world.pipeline, as_thought(world.pipeline), rng, self._evaluations, self._warmth)


class LocalSearch:
    """Measured changes of the best plan so far; those that are best by the profile come first.

    It begins with the plan of annealing and the balanced ones, which count as measurements too.
    """

    name = "local_search"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Use the whole budget.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world = world_of(env, self.name)
        pipeline, budget = world.pipeline, world.scenario.control.episode_steps
        thought = as_thought(pipeline)
        tried = {world.plan}
        rng = np.random.default_rng([STREAM, world.episode_seed or 0])
        for plan in (annealed(pipeline, thought, rng), *starts(pipeline)):
            if plan not in tried and world.tried < budget:
                world.adopt(plan)
                tried.add(plan)
        while world.tried < budget:
            near = [plan for _, _, plan in changes(pipeline, world.best_plan) if plan not in tried]
            if not near:
                return
            plan = min(near, key=lambda one: step_time_s(pipeline, one, thought))
            world.adopt(plan)
            tried.add(plan)

    def act(self, observation: Any) -> int:
        """Stop."""
        return STOP


class Oracle(PlanningAgent):
    """The best of searches on the true times: no optimum, but no budget either."""

    name = "oracle"
    privileged = True

    def plan(self, world: PipelineTuning) -> Plan:
        """Return the plan."""
        pipeline, truth = world.pipeline, world.truth
        rng = np.random.default_rng([STREAM, world.episode_seed or 0])
        near = (annealed(pipeline, truth, rng), *starts(pipeline))
        ends = [descended(pipeline, plan, truth) for plan in near]
        return min(ends, key=lambda plan: step_time_s(pipeline, plan, truth))


def annealed(
    pipeline: Pipeline, truth: Truth, rng: np.random.Generator, evaluations: int = 1000, warmth: float = 0.01
) -> Plan:
    """Return the best plan that simulated annealing sees, from the best of the balanced plans.

    Args:
        pipeline: The job.
        truth: What plans are judged by.
        rng: Generator of the changes.
        evaluations: Plans that are replayed.
        warmth: Temperature at the beginning, as a share of the time of the step.
    """
    plan = min(starts(pipeline), key=lambda one: step_time_s(pipeline, one, truth))
    time_s = step_time_s(pipeline, plan, truth)
    best, best_s, warm_s = plan, time_s, warmth * time_s
    near = list(changes(pipeline, plan))
    for trial in range(evaluations):
        if not near:
            break
        other = near[rng.integers(len(near))][2]
        other_s = step_time_s(pipeline, other, truth)
        temperature_s = warm_s * (1.0 - trial / evaluations) + 1e-12
        if other_s <= time_s or rng.random() < math.exp((time_s - other_s) / temperature_s):
            plan, time_s = other, other_s
            near = list(changes(pipeline, plan))
        if time_s < best_s:
            best, best_s = plan, time_s
    return best


def starts(pipeline: Pipeline) -> list[Plan]:
    """Return the plans with which searches begin."""
    first = first_plan(pipeline)
    stages = balanced_stages(pipeline, first)
    return [balanced_ranks(pipeline, stages), balanced_ranks(pipeline, first), stages, first]


def descended(pipeline: Pipeline, plan: Plan, truth: Truth) -> Plan:
    """Return the plan after the best change of each round, until none is faster."""
    time_s = step_time_s(pipeline, plan, truth)
    for _ in range(MOST_ROUNDS):
        near = [other for _, _, other in changes(pipeline, plan)]
        times_s = [step_time_s(pipeline, one, truth) for one in near]
        if not near or min(times_s) >= time_s:
            break
        best = int(np.argmin(times_s))
        plan, time_s = near[best], times_s[best]
    return plan
