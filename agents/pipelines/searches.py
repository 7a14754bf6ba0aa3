"""Agents that search among local changes: on the profile, on measurements, and on the true times.

Random search, annealing and the local search have the same budget: so many plans by the profile, and all
measurements of the episode.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.pipelines.base import STOP, PlanningAgent, world_of
from sysgym.emulator.pipelines.balancing import balanced_ranks, balanced_stages
from sysgym.emulator.pipelines.job import Pipeline
from sysgym.emulator.pipelines.plans import (
    KINDS,
    OF_STAGES,
    Plan,
    changed,
    changes,
    first_plan,
    step_time_s,
)
from sysgym.envs.pipelines.pipeline_tuning import PipelineTuning
from sysgym.scenarios.errors import SysgymError

STREAM = 0x919F
"""Random stream of the agents."""

MOST_ROUNDS = 300
"""Most changes of a search without a budget."""

EVALUATIONS = 1000
"""Default budget of plans by the profile."""

WARMTH = 0.01
"""Default temperature at the beginning of annealing, as a share of the time of the step."""

MOST_RUNS = 8
"""Most runs of annealing."""

MOST_CHANGES = 20
"""Most random changes between a plan of random search and the plan that it begins with."""


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
        return descended(world.pipeline, world.plan, world.predict)


class Search:
    """Base class of searches with a budget of plans by the profile, which measure the best of them.

    Args:
        evaluations: Plans whose time by the profile is computed.
        measurements: Plans that are measured; None: all changes of an episode.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "search"

    def __init__(self, evaluations: int = EVALUATIONS, measurements: int | None = None) -> None:
        if evaluations < 1 or (measurements is not None and measurements < 1):
            raise SysgymError(
                f"{self.name}: expected evaluations >= 1 and measurements >= 1 or None,"
                f" got {evaluations!r} and {measurements!r}"
            )
        self._evaluations, self._measurements = evaluations, measurements

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Search, and measure plans.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world = world_of(env, self.name)
        rng = np.random.default_rng([STREAM, world.episode_seed or 0])
        most = world.scenario.control.episode_steps
        self._seen: dict[Plan, float] = {}
        self._search(world, rng, most if self._measurements is None else min(self._measurements, most))

    def act(self, observation: Any) -> int:
        """Stop."""
        return STOP

    def _search(self, world: PipelineTuning, rng: np.random.Generator, measurements: int) -> None:
        """Look at plans by the profile, and measure the best ones."""
        self._look(world, rng)
        self._measure_best(world, {world.plan}, measurements)

    def _look(self, world: PipelineTuning, rng: np.random.Generator) -> None:
        """Look at plans by the profile, until the budget is used."""

    def _anneal(self, world: PipelineTuning, rng: np.random.Generator, most: int, warmth: float) -> Plan:
        """Return the best plan of runs of annealing that together look at so many plans."""

        def judged_s(plan: Plan) -> float:
            return self._predicted_s(world, plan)

        best: list[Plan] = []
        # A run that stays near one plan leaves a part of the budget to warmer ones.
        for run in range(MOST_RUNS):
            trials = max(most - world.predicted, 0)
            if trials or not best:
                best.append(annealed(world.pipeline, judged_s, rng, trials, warmth * 2.0**run))
        return min(best, key=judged_s)

    def _measure_best(self, world: PipelineTuning, tried: set[Plan], measurements: int) -> None:
        """Measure the best plans by the profile that were not tried."""
        best = sorted(self._seen, key=lambda plan: self._seen[plan])
        for plan in [plan for plan in best if plan not in tried][: max(measurements - world.tried, 0)]:
            world.adopt(plan)

    def _predicted_s(self, world: PipelineTuning, plan: Plan) -> float:
        """Return the time of a plan by the profile; infinite if the budget does not allow another plan."""
        if plan not in self._seen:
            if world.predicted >= self._evaluations:
                return math.inf
            self._seen[plan] = world.predict(plan)
        return self._seen[plan]


class RandomSearch(Search):
    """Random changes, up to 20, of the plans with which searches begin."""

    name = "random_search"

    def _look(self, world: PipelineTuning, rng: np.random.Generator) -> None:
        first, job = starts(world.pipeline), world.pipeline.scenario.job
        for plan in first:
            self._predicted_s(world, plan)
        for _ in range(self._evaluations):
            plan = first[rng.integers(len(first))]
            for _ in range(rng.integers(1, MOST_CHANGES + 1)):
                # Drawn, and left out if it is not allowed: to list all changes takes longer than a replay.
                kind = KINDS[rng.integers(len(KINDS))]
                which = int(rng.integers(job.stages if kind in OF_STAGES else job.data_ranks))
                other = changed(world.pipeline, plan, kind, which)
                plan = plan if other is None else other
            self._predicted_s(world, plan)


class Annealing(Search):
    """Simulated annealing on the profile, from the best of the balanced plans, again while budget is left.

    Args:
        evaluations: Plans whose time by the profile is computed.
        measurements: Plans that are measured; None: all changes of an episode.
        warmth: Temperature at the beginning, as a share of the time of the step.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "annealing"

    def __init__(
        self, evaluations: int = EVALUATIONS, measurements: int | None = None, warmth: float = WARMTH
    ) -> None:
        super().__init__(evaluations, measurements)
        if not warmth > 0.0:
            raise SysgymError(f"annealing: expected warmth > 0, got {warmth!r}")
        self._warmth = warmth

    def _look(self, world: PipelineTuning, rng: np.random.Generator) -> None:
        self._anneal(world, rng, self._evaluations, self._warmth)


class LocalSearch(Search):
    """Measured changes of the best plan so far; those that are best by the profile come first.

    It begins with the plan of annealing, which has half of the plans by the profile, and the balanced ones.
    When the budget of plans by the profile is used, those that were looked at are left.
    """

    name = "local_search"

    def _search(self, world: PipelineTuning, rng: np.random.Generator, measurements: int) -> None:
        pipeline = world.pipeline

        def judged_s(plan: Plan) -> float:
            return self._predicted_s(world, plan)

        tried = {world.plan}
        for plan in (self._anneal(world, rng, self._evaluations // 2, WARMTH), *starts(pipeline)):
            if plan not in tried and world.tried < measurements:
                world.adopt(plan)
                tried.add(plan)
        while world.tried < measurements:
            near = [plan for _, _, plan in changes(pipeline, world.best_plan) if plan not in tried]
            if not near or min(map(judged_s, near)) == math.inf:
                self._measure_best(world, tried, measurements)
                return
            plan = min(near, key=judged_s)
            world.adopt(plan)
            tried.add(plan)


class Oracle(PlanningAgent):
    """The best of searches on the true times: no optimum, but no budget either."""

    name = "oracle"
    privileged = True

    def plan(self, world: PipelineTuning) -> Plan:
        """Return the plan."""
        pipeline, truth = world.pipeline, world.truth
        rng = np.random.default_rng([STREAM, world.episode_seed or 0])

        def true_s(plan: Plan) -> float:
            return step_time_s(pipeline, plan, truth)

        near = (annealed(pipeline, true_s, rng), *starts(pipeline))
        return min((descended(pipeline, plan, true_s) for plan in near), key=true_s)


def annealed(
    pipeline: Pipeline,
    judged_s: Callable[[Plan], float],
    rng: np.random.Generator,
    trials: int = EVALUATIONS,
    warmth: float = WARMTH,
) -> Plan:
    """Return the best plan that simulated annealing sees, from the best of the balanced plans.

    Args:
        pipeline: The job.
        judged_s: Time of a plan that is to be short.
        rng: Generator of the changes.
        trials: Changes that are tried.
        warmth: Temperature at the beginning, as a share of the time of the step.
    """
    plan = min(starts(pipeline), key=judged_s)
    time_s = judged_s(plan)
    best, best_s, warm_s = plan, time_s, warmth * time_s
    near = list(changes(pipeline, plan))
    for trial in range(trials):
        if not near:
            break
        other = near[rng.integers(len(near))][2]
        other_s = judged_s(other)
        temperature_s = warm_s * (1.0 - trial / trials) + 1e-12
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


def descended(pipeline: Pipeline, plan: Plan, judged_s: Callable[[Plan], float]) -> Plan:
    """Return the plan after the best change of each round, until none is faster."""
    time_s = judged_s(plan)
    for _ in range(MOST_ROUNDS):
        near = [other for _, _, other in changes(pipeline, plan)]
        times_s = [judged_s(one) for one in near]
        if not near or min(times_s) >= time_s:
            break
        best = int(np.argmin(times_s))
        plan, time_s = near[best], times_s[best]
    return plan
