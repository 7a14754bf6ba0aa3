"""Agents for environments that tune a plan: random changes, and searches on the profile and on measurements.

Random search, annealing and local search have the same budget: a number of plans by the profile, and all
measurements of the episode.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import gymnasium as gym
import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.protocol import episode_rng, world_of
from sysgym.envs.plan_tuning import STOP, PlanTuningEnv

World = PlanTuningEnv[Any, Any]
WorldT = TypeVar("WorldT", bound=World)
Plan = Any
"""A plan of the environment, which is hashable."""

STREAM = 0x919F
"""Random stream of the agents."""

MOST_ROUNDS = 300
"""Most changes of a descent."""

EVALUATIONS = 1000
"""Default budget of plans by the profile."""

MOST_RUNS = 8
"""Most runs of annealing."""

MOST_CHANGES = 20
"""Most random changes between a plan of random search and the plan that it begins with."""

WARMTH = 0.01
"""Default temperature at the beginning of annealing, as a share of the time of the step."""


class PlanningAgent(ABC, Generic[WorldT]):
    """Base class of agents that measure one plan and stop.

    Attributes:
        name: Name of the agent.
        plays: Class of the environments that it plays.
    """

    name = "planning"
    plays: ClassVar[type[World]] = PlanTuningEnv  # type: ignore[type-abstract]

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Measure the plan, if it is not the first one.

        Raises:
            SysgymError: If the agent does not play the environment.
        """
        world: Any = world_of(env, self.name, self.plays)
        plan = self.plan(world)
        if plan != world.plan:
            world.adopt(plan)

    def act(self, observation: Any) -> int:
        """Stop."""
        return STOP

    @abstractmethod
    def plan(self, world: WorldT) -> Plan:
        """Return the plan of an episode."""


class RandomAgent:
    """Uniformly random changes until the budget is used, seeded by the episode."""

    name = "random"

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Seed the generator by the episode.

        Raises:
            SysgymError: If the agent does not play the environment.
        """
        world_of(env, self.name, PlanTuningEnv)  # type: ignore[type-abstract]
        self._rng = episode_rng(env, STREAM)

    def act(self, observation: Any) -> int:
        """Return a random change, or stop if none is allowed."""
        choices = np.flatnonzero(observation["action_mask"])
        choices = choices[choices != STOP]
        return int(self._rng.choice(choices)) if len(choices) else STOP


class CriticalPath(PlanningAgent[World]):
    """The change that shortens the step most by the profile, repeated while there is one."""

    name = "critical_path"

    def plan(self, world: World) -> Plan:
        """Return the plan."""
        return descended(world, world.plan, world.predict)


class Search(ABC):
    """Base class of searches with a budget of plans by the profile, which measure the best of them.

    Args:
        evaluations: Plans whose time by the profile is computed.
        measurements: Plans that are measured; None: all changes of an episode.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "search"

    def __init__(self, evaluations: int = EVALUATIONS, measurements: int | None = None) -> None:
        self._evaluations = in_range(self.name, "evaluations", evaluations, least=1)
        if measurements is not None:
            in_range(self.name, "measurements", measurements, least=1)
        self._measurements = measurements

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Search, and measure plans.

        Raises:
            SysgymError: If the agent does not play the environment.
        """
        self._world: World = world_of(env, self.name, PlanTuningEnv)  # type: ignore[type-abstract]
        self._rng = episode_rng(env, STREAM)
        most = self._world.most_measurements
        self._most = most if self._measurements is None else min(self._measurements, most)
        self._first = self._world.starts()
        self._seen: dict[Plan, float] = {}
        self._tried = {self._world.plan}
        self._search()

    def act(self, observation: Any) -> int:
        """Stop."""
        return STOP

    @abstractmethod
    def _search(self) -> None:
        """Look at plans by the profile, and measure some."""

    def _predicted_s(self, plan: Plan) -> float:
        """Return the time of a plan by the profile; infinite if the budget does not allow another plan."""
        if plan not in self._seen:
            if self._world.predicted >= self._evaluations:
                return math.inf
            self._seen[plan] = self._world.predict(plan)
        return self._seen[plan]

    def _anneal(self, most: int, warmth: float) -> Plan:
        """Return the best plan of runs of annealing that together look at so many plans."""
        best: list[Plan] = []
        # A run that stays near one plan leaves a part of the budget to warmer ones.
        for run in range(MOST_RUNS):
            trials = max(most - self._world.predicted, 0)
            if trials or not best:
                warmer = warmth * 2.0**run
                best.append(annealed(self._world, self._first, self._predicted_s, self._rng, trials, warmer))
        return min(best, key=self._predicted_s)

    def _measure(self, plan: Plan) -> None:
        """Measure a plan that was not tried, if the budget allows it."""
        if plan not in self._tried and self._world.tried < self._most:
            self._world.adopt(plan)
            self._tried.add(plan)

    def _measure_best(self) -> None:
        """Measure the best plans by the profile."""
        for plan in sorted(self._seen, key=self._seen.__getitem__):
            self._measure(plan)


class RandomSearch(Search):
    """Random changes, up to 20, of the plans with which searches begin."""

    name = "random_search"

    def _search(self) -> None:
        for plan in self._first:
            self._predicted_s(plan)
        for _ in range(self._evaluations):
            plan = self._first[self._rng.integers(len(self._first))]
            for _ in range(self._rng.integers(1, MOST_CHANGES + 1)):
                other = self._world.random_neighbour(plan, self._rng)
                plan = plan if other is None else other
            self._predicted_s(plan)
        self._measure_best()


class Annealing(Search):
    """Simulated annealing on the profile, from the best of the first plans, again while budget is left.

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
        self._warmth = in_range(self.name, "warmth", warmth, above=0.0)

    def _search(self) -> None:
        self._anneal(self._evaluations, self._warmth)
        self._measure_best()


class LocalSearch(Search):
    """Measured changes of the best plan so far; those that are best by the profile come first.

    It begins with the plan of annealing, which has half of the plans by the profile, and those with which
    searches begin. When the budget of plans by the profile is used up, only plans evaluated before remain.
    """

    name = "local_search"

    def _search(self) -> None:
        for plan in (self._anneal(self._evaluations // 2, WARMTH), *self._first):
            self._measure(plan)
        while self._world.tried < self._most:
            near = [plan for plan in self._world.neighbours(self._world.best_plan) if plan not in self._tried]
            best = min(near, key=self._predicted_s, default=None)
            if best is None or self._predicted_s(best) == math.inf:
                self._measure_best()
                return
            self._measure(best)


class Oracle(PlanningAgent[World]):
    """The best of several searches on the true times, without a budget; not necessarily the optimum."""

    name = "oracle"
    privileged = True

    def plan(self, world: World) -> Plan:
        """Return the plan."""
        rng, first = episode_rng(world, STREAM), world.starts()
        found = annealed(world, first, world.true_time_s, rng, EVALUATIONS, WARMTH)
        near = dict.fromkeys((found, *first, world.plan))
        return min((descended(world, plan, world.true_time_s) for plan in near), key=world.true_time_s)


def annealed(
    world: World,
    first: Sequence[Plan],
    judged_s: Callable[[Plan], float],
    rng: np.random.Generator,
    trials: int,
    warmth: float,
) -> Plan:
    """Return the best plan that simulated annealing sees, from the best of the first plans.

    Args:
        world: The environment, for its job.
        first: The first plans.
        judged_s: Time of a plan that is to be short.
        rng: Generator of the changes.
        trials: Changes that are tried.
        warmth: Temperature at the beginning, as a share of the time of the step.
    """
    plan = min(first, key=judged_s)
    time_s = judged_s(plan)
    best, best_s, warm_s = plan, time_s, warmth * time_s
    for trial in range(trials):
        other = world.random_neighbour(plan, rng)
        if other is None:
            break
        other_s = judged_s(other)
        temperature_s = warm_s * (1.0 - trial / trials) + 1e-12
        if other_s <= time_s or rng.random() < math.exp((time_s - other_s) / temperature_s):
            plan, time_s = other, other_s
        if time_s < best_s:
            best, best_s = plan, time_s
    return best


def descended(world: World, plan: Plan, judged_s: Callable[[Plan], float]) -> Plan:
    """Return the plan after the best change of each round, until none is faster.

    Args:
        world: The environment, for its job.
        plan: The plan to begin with.
        judged_s: Time of a plan that is to be short.
    """
    time_s = judged_s(plan)
    for _ in range(MOST_ROUNDS):
        near = world.neighbours(plan)
        times_s = [judged_s(one) for one in near]
        if not near or min(times_s) >= time_s:
            break
        best = int(np.argmin(times_s))
        plan, time_s = near[best], times_s[best]
    return plan
