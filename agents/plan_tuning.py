"""Agents for environments that tune a plan: random changes, and searches on the profile and on measurements.

Random search, annealing and local search have the same budget: a number of plans evaluated on the profile,
and all measurements of the episode.
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
"""Plan of an environment; it is hashable."""

STREAM = 0x919F
"""Random stream of the agents."""

MOST_ROUNDS = 300
"""Largest number of changes in a descent."""

EVALUATIONS = 1000
"""Default number of plans evaluated on the profile."""

MOST_RUNS = 8
"""Largest number of annealing runs."""

MOST_CHANGES = 20
"""Largest number of random changes from a starting plan to a plan of random search."""

WARMTH = 0.01
"""Default initial temperature of annealing, as a share of the step time of the starting plan."""


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
    """Greedy descent on the profile: the change that shortens the step most, until none shortens it."""

    name = "critical_path"

    def plan(self, world: World) -> Plan:
        """Return the plan."""
        return descended(world, world.plan, world.predict)


class Search(ABC):
    """Base class of searches that evaluate plans on the profile and measure the best ones.

    Args:
        evaluations: Number of plans evaluated on the profile.
        measurements: Number of plans measured; None: as many as the episode allows.

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
        """Evaluate plans on the profile, and measure some of them."""

    def _predicted_s(self, plan: Plan) -> float:
        """Return the time of a plan by the profile; infinite if the budget does not allow another plan."""
        if plan not in self._seen:
            if self._world.predicted >= self._evaluations:
                return math.inf
            self._seen[plan] = self._world.predict(plan)
        return self._seen[plan]

    def _anneal(self, most: int, warmth: float) -> Plan:
        """Return the best plan of several annealing runs, which share a budget of ``most`` plans."""
        best: list[Plan] = []
        # A run that revisits known plans does not use up the budget; the rest goes to warmer runs.
        for run in range(MOST_RUNS):
            trials = max(most - self._world.predicted, 0)
            if trials or not best:
                warmer = warmth * 2.0**run
                best.append(annealed(self._world, self._first, self._predicted_s, self._rng, trials, warmer))
        return min(best, key=self._predicted_s)

    def _measure(self, plan: Plan) -> None:
        """Measure a plan if it has not been measured and the budget allows it."""
        if plan not in self._tried and self._world.tried < self._most:
            self._world.adopt(plan)
            self._tried.add(plan)

    def _measure_best(self) -> None:
        """Measure the best plans by the profile."""
        for plan in sorted(self._seen, key=self._seen.__getitem__):
            self._measure(plan)


class RandomSearch(Search):
    """Search over random plans, each up to 20 random changes away from a starting plan."""

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
    """Simulated annealing on the profile from the best starting plan, repeated while budget is left.

    Args:
        evaluations: Number of plans evaluated on the profile.
        measurements: Number of plans measured; None: as many as the episode allows.
        warmth: Initial temperature, as a share of the step time of the starting plan.

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
    """Local search that measures changes of the best plan so far, in the order of their time by the profile.

    The result of annealing, which uses half of the evaluations, and the starting plans are measured first.
    Once the evaluations are used up, only plans that have been evaluated before are measured.
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
    """Return the best plan found by simulated annealing from the best starting plan.

    Args:
        world: The environment, which provides the neighbours of plans.
        first: Starting plans.
        judged_s: Function that returns the time of a plan, which is minimised.
        rng: Generator of the changes.
        trials: Number of changes to try.
        warmth: Initial temperature, as a share of the step time of the starting plan.
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
    """Return the plan reached by steepest descent: the best change of each round, until none is faster.

    Args:
        world: The environment, which provides the neighbours of plans.
        plan: Starting plan.
        judged_s: Function that returns the time of a plan, which is minimised.
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
