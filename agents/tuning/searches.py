"""Agents that search among local changes: on the profile, on measurements, and on the true times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.tuning.base import STOP, PlanningAgent, world_of
from sysgym.agents.tuning.fixed import best_by_profile
from sysgym.emulator.tuning.job import Profile, Truth, as_thought
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
        most = world.scenario.control.most_buckets
        return descended(world.plan, world.profile, as_thought(world.profile), most)


class Annealing(PlanningAgent):
    """Simulated annealing on the profile.

    Args:
        evaluations: Plans that are replayed.
        warmth: Temperature at the beginning, as a share of the time of the step.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "annealing"

    def __init__(self, evaluations: int = 2000, warmth: float = 0.01) -> None:
        if evaluations < 1 or not warmth > 0.0:
            raise SysgymError(
                f"annealing: expected evaluations >= 1 and warmth > 0, got {evaluations!r} and {warmth!r}"
            )
        self._evaluations, self._warmth = evaluations, warmth

    def plan(self, world: TrainingTuning) -> Plan:
        """Return the best plan that was seen."""
        profile, thought = world.profile, as_thought(world.profile)
        rng = np.random.default_rng([STREAM, world.episode_seed or 0])
        plan = best_by_profile([world.plan, fused(profile), by_need(fused(profile))], profile)
        time_s = step_of(plan, profile, thought).time_s
        best, best_s, warm_s = plan, time_s, self._warmth * time_s
        for trial in range(self._evaluations):
            choices = list(changes(plan, world.scenario.control.most_buckets))
            if not choices:
                break
            bucket, kind = choices[rng.integers(len(choices))]
            other = changed(plan, profile, bucket, kind)
            other_s = step_of(other, profile, thought).time_s
            temperature_s = warm_s * (1.0 - trial / self._evaluations) + 1e-12
            if other_s <= time_s or rng.random() < math.exp((time_s - other_s) / temperature_s):
                plan, time_s = other, other_s
            if time_s < best_s:
                best, best_s = plan, time_s
        return best


class LocalSearch:
    """Measured changes of the best plan so far; those that are best by the profile come first.

    It begins with the fixed plans and the exact fusion, which count as measurements too.
    """

    name = "local_search"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Use the whole budget.

        Raises:
            SysgymError: If the environment belongs to another family.
        """
        world = world_of(env, self.name)
        profile, control = world.profile, world.scenario.control
        thought = as_thought(profile)
        tried = {world.plan}
        for plan in starts(profile)[: control.episode_steps]:
            if plan not in tried:
                world.adopt(plan)
                tried.add(plan)
        while world.tried < control.episode_steps:
            near = [
                changed(world.best_plan, profile, bucket, kind)
                for bucket, kind in changes(world.best_plan, control.most_buckets)
            ]
            near = [plan for plan in near if plan not in tried]
            if not near:
                return
            plan = min(near, key=lambda one: step_of(one, profile, thought).time_s)
            world.adopt(plan)
            tried.add(plan)

    def act(self, observation: Any) -> int:
        """Stop."""
        return STOP


class Oracle(PlanningAgent):
    """The best of local searches on the true times from several plans: no optimum, but no budget either."""

    name = "oracle"
    privileged = True

    def plan(self, world: TrainingTuning) -> Plan:
        """Return the plan."""
        profile, truth, most = world.profile, world.truth, world.scenario.control.most_buckets
        ends = [descended(plan, profile, truth, most) for plan in (world.plan, *starts(profile))]
        return min(ends, key=lambda plan: step_of(plan, profile, truth).time_s)


def starts(profile: Profile) -> list[Plan]:
    """Return the plans with which searches begin."""
    fusion = fused(profile)
    return [by_need(fusion), fusion, by_need(capped(profile, CAP_BYTES)), in_order((len(profile.forward_s),))]


def changes(plan: Plan, most: int) -> Iterator[tuple[int, Kind]]:
    """Yield the changes that a plan allows, if there may be so many buckets."""
    for bucket, of_bucket in enumerate(allowed(plan, most)):
        yield from ((bucket, kind) for kind, may in zip(KINDS, of_bucket, strict=True) if may)


def descended(plan: Plan, profile: Profile, truth: Truth, most: int) -> Plan:
    """Return the plan after the best change of each round, until none is faster."""
    time_s = step_of(plan, profile, truth).time_s
    for _ in range(MOST_ROUNDS):
        near = [changed(plan, profile, bucket, kind) for bucket, kind in changes(plan, most)]
        times_s = [step_of(one, profile, truth).time_s for one in near]
        if not near or min(times_s) >= time_s:
            break
        best = int(np.argmin(times_s))
        plan, time_s = near[best], times_s[best]
    return plan
