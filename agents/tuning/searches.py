"""Agents that search among local changes: on the profile, on measurements, and on the true times.

Random search, annealing and the local search have the same budget: so many plans by the profile, and all
measurements of the episode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.tuning.base import STOP, PlanningAgent, world_of
from sysgym.emulator.tuning.job import Profile
from sysgym.emulator.tuning.plans import (
    CAP_BYTES,
    KINDS,
    Kind,
    allowed,
    by_need,
    capped,
    changed,
    fused,
    in_order,
)
from sysgym.emulator.tuning.timing import Plan, step_of
from sysgym.envs.tuning.tuning import TrainingTuning
from sysgym.scenarios.errors import SysgymError

STREAM = 0x7A9A
"""Random stream of the agents."""

MOST_ROUNDS = 300
"""Most changes of a search without a budget."""

EVALUATIONS = 2000
"""Default budget of plans by the profile."""

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

    def plan(self, world: TrainingTuning) -> Plan:
        """Return the plan."""
        return descended(world, world.plan, world.predict)


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

    def _search(self, world: TrainingTuning, rng: np.random.Generator, measurements: int) -> None:
        """Look at plans by the profile, and measure the best ones."""
        self._look(world, rng)
        best = sorted(self._seen, key=lambda plan: self._seen[plan])
        for plan in [plan for plan in best if plan != world.plan][:measurements]:
            world.adopt(plan)

    def _look(self, world: TrainingTuning, rng: np.random.Generator) -> None:
        """Look at plans by the profile, until the budget is used."""

    def _predicted_s(self, world: TrainingTuning, plan: Plan) -> float:
        """Return the time of a plan by the profile; infinite if the budget does not allow another plan."""
        if plan not in self._seen:
            if world.predicted >= self._evaluations:
                return math.inf
            self._seen[plan] = world.predict(plan)
        return self._seen[plan]


class RandomSearch(Search):
    """Random changes, up to 20, of the plans with which searches begin."""

    name = "random_search"

    def _look(self, world: TrainingTuning, rng: np.random.Generator) -> None:
        first = starts(world.profile)
        for plan in first:
            self._predicted_s(world, plan)
        for _ in range(self._evaluations):
            plan = first[rng.integers(len(first))]
            for _ in range(rng.integers(1, MOST_CHANGES + 1)):
                choices = list(changes(plan, world.scenario.control.most_buckets))
                if choices:
                    plan = changed(plan, world.profile, *choices[rng.integers(len(choices))])
            self._predicted_s(world, plan)


class Annealing(Search):
    """Simulated annealing on the profile.

    Args:
        evaluations: Plans whose time by the profile is computed.
        measurements: Plans that are measured; None: all changes of an episode.
        warmth: Temperature at the beginning, as a share of the time of the step.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "annealing"

    def __init__(
        self, evaluations: int = EVALUATIONS, measurements: int | None = None, warmth: float = 0.01
    ) -> None:
        super().__init__(evaluations, measurements)
        if not warmth > 0.0:
            raise SysgymError(f"annealing: expected warmth > 0, got {warmth!r}")
        self._warmth = warmth

    def _look(self, world: TrainingTuning, rng: np.random.Generator) -> None:
        first = [world.plan, *starts(world.profile)]
        # A run that stays near one plan leaves a part of the budget to warmer ones.
        for run in range(MOST_RUNS):
            if world.predicted < self._evaluations:
                self._run(world, rng, first, self._warmth * 2.0**run)

    def _run(self, world: TrainingTuning, rng: np.random.Generator, first: list[Plan], warmth: float) -> None:
        plan = min(first, key=lambda one: self._predicted_s(world, one))
        time_s = self._predicted_s(world, plan)
        warm_s, profile = warmth * time_s, world.profile
        trials = self._evaluations - world.predicted
        for trial in range(trials):
            choices = list(changes(plan, world.scenario.control.most_buckets))
            if not choices:
                break
            other = changed(plan, profile, *choices[rng.integers(len(choices))])
            other_s = self._predicted_s(world, other)
            temperature_s = warm_s * (1.0 - trial / trials) + 1e-12
            if other_s <= time_s or rng.random() < math.exp((time_s - other_s) / temperature_s):
                plan, time_s = other, other_s


class LocalSearch(Search):
    """Measured changes of the best plan so far; those that are best by the profile come first.

    It begins with the fixed plans and the exact fusion, which count as measurements too. When the budget of
    plans by the profile is used, those that were looked at are left.
    """

    name = "local_search"

    def _search(self, world: TrainingTuning, rng: np.random.Generator, measurements: int) -> None:
        profile, most = world.profile, world.scenario.control.most_buckets
        tried = {world.plan}
        for plan in starts(profile)[:measurements]:
            if plan not in tried:
                world.adopt(plan)
                tried.add(plan)
        while world.tried < measurements:
            near = [
                changed(world.best_plan, profile, bucket, kind)
                for bucket, kind in changes(world.best_plan, most)
            ]
            known = {plan: self._predicted_s(world, plan) for plan in near if plan not in tried}
            if not known or min(known.values()) == math.inf:
                known = {plan: time_s for plan, time_s in self._seen.items() if plan not in tried}
            if not known:
                return
            plan = min(known, key=lambda one: known[one])
            world.adopt(plan)
            tried.add(plan)


class Oracle(PlanningAgent):
    """The best of local searches on the true times from several plans: no optimum, but no budget either."""

    name = "oracle"
    privileged = True

    def plan(self, world: TrainingTuning) -> Plan:
        """Return the plan."""
        profile, truth = world.profile, world.truth

        def true_s(plan: Plan) -> float:
            return step_of(plan, profile, truth).time_s

        ends = [descended(world, plan, true_s) for plan in (world.plan, *starts(profile))]
        return min(ends, key=true_s)


def starts(profile: Profile) -> list[Plan]:
    """Return the plans with which searches begin."""
    fusion = fused(profile)
    return [by_need(fusion), fusion, by_need(capped(profile, CAP_BYTES)), in_order((len(profile.forward_s),))]


def changes(plan: Plan, most: int) -> Iterator[tuple[int, Kind]]:
    """Yield the changes that a plan allows, if there may be so many buckets."""
    for bucket, of_bucket in enumerate(allowed(plan, most)):
        yield from ((bucket, kind) for kind, may in zip(KINDS, of_bucket, strict=True) if may)


def descended(world: TrainingTuning, plan: Plan, judged_s: Callable[[Plan], float]) -> Plan:
    """Return the plan after the best change of each round, until none is faster.

    Args:
        world: The environment, for its job.
        plan: The plan to begin with.
        judged_s: Time of a plan that is to be short.
    """
    profile, most = world.profile, world.scenario.control.most_buckets
    time_s = judged_s(plan)
    for _ in range(MOST_ROUNDS):
        near = [changed(plan, profile, bucket, kind) for bucket, kind in changes(plan, most)]
        times_s = [judged_s(one) for one in near]
        if not near or min(times_s) >= time_s:
            break
        best = int(np.argmin(times_s))
        plan, time_s = near[best], times_s[best]
    return plan
