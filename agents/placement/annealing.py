"""Simulated annealing over placements or programs, with the closed-form cost model.

Kirkpatrick, Gelatt, Vecchi, Optimization by Simulated Annealing, Science 220, 1983. Energies are logarithms
of times, so temperatures are comparable between systems.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.placement.base import Placer
from sysgym.agents.placement.jobs import annealed_neighbour, assignment_of, greedily
from sysgym.agents.placement.steps import edges_of_actions, random_program
from sysgym.agents.protocol import episode_rng
from sysgym.emulator.accelerators.jobs.assignments import packed
from sysgym.emulator.accelerators.jobs.jobs import IntArray
from sysgym.emulator.accelerators.matrices import Matrix, default_matrix, prime_steps
from sysgym.envs.placement.multijob import MultiJobPlacement
from sysgym.envs.placement.placement import CollectivePlacement
from sysgym.envs.placement.program import ReductionProgram

STREAM = 0xA22EA1
"""Random stream of the agent."""

State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True)
class Schedule:
    """Budget and temperatures of a search.

    Attributes:
        evaluations: Largest number of cost evaluations; repeated states cost none.
        moves: Largest number of moves tried, which ends the search if there are few states.
        hottest: First temperature, in the natural logarithm of time.
        coldest: Last temperature.
    """

    evaluations: int = 64
    moves: int = 512
    hottest: float = 1.0
    coldest: float = 0.01

    def temperature(self, progress: float) -> float:
        """Return the temperature, which decreases geometrically; ``progress`` goes from 0 to 1."""
        return float(self.hottest * (self.coldest / self.hottest) ** progress)


class Annealing(Generic[State]):
    """A search by simulated annealing.

    Args:
        start: Initial state.
        time_s: Function that returns the time of a state, which is minimised.
        neighbour: Function that draws a neighbour of a state.
        schedule: Budget and temperatures.
        rng: Random generator.

    Attributes:
        best: The best state found, after :meth:`run`.
        evaluations: Cost evaluations so far.
    """

    def __init__(
        self,
        start: State,
        time_s: Callable[[State], float],
        neighbour: Callable[[State, np.random.Generator], State],
        schedule: Schedule,
        rng: np.random.Generator,
    ) -> None:
        """Set up; the class documentation describes the arguments."""
        self.best = start
        self.evaluations = 0
        self._time_s, self._neighbour, self._schedule, self._rng = time_s, neighbour, schedule, rng
        self._known: dict[State, float] = {}

    def run(self) -> State:
        """Search, and return the best state found."""
        schedule, here = self._schedule, self.best
        energy = least = self._energy(here)
        for move in range(schedule.moves):
            # Moves to known states cost no evaluation, so the number of moves is limited too.
            progress = max(move / schedule.moves, self.evaluations / schedule.evaluations)
            if progress >= 1.0:
                break
            other = self._neighbour(here, self._rng)
            there = self._energy(other)
            rise = there - energy
            if rise <= 0.0 or self._rng.random() < math.exp(-rise / schedule.temperature(progress)):
                here, energy = other, there
            if there < least:
                self.best, least = other, there
        return self.best

    def _energy(self, state: State) -> float:
        if state not in self._known:
            self.evaluations += 1
            # An empty reduction without latency takes no time.
            self._known[state] = math.log(max(self._time_s(state), 1e-300))
        return self._known[state]


def swaps(matrix: Matrix) -> Iterator[Matrix]:
    """Yield the placements in which two axes exchange a prime factor between two levels.

    All placements of the same axes are connected by such exchanges: for every prime they are the basic moves
    between tables of given margins (Diaconis and Sturmfels, Annals of Statistics 26(1), 1998).

    Args:
        matrix: Rows are axes, columns are levels.
    """
    levels = range(len(matrix[0]))
    for (axis, other), (level, beyond) in itertools.product(
        itertools.combinations(range(len(matrix)), 2), itertools.permutations(levels, 2)
    ):
        given, taken = matrix[axis][level], matrix[other][beyond]
        for prime in sorted({prime for _, prime in prime_steps([math.gcd(given, taken)])}):
            rows = [list(row) for row in matrix]
            rows[axis][level] //= prime
            rows[other][level] *= prime
            rows[other][beyond] //= prime
            rows[axis][beyond] *= prime
            yield tuple(map(tuple, rows))


class AnnealingAgent(Placer):
    """Simulated annealing from the default, with the closed-form model; seeded by the episode.

    Neighbours of a placement exchange a prime between two axes; neighbours of a program keep a prefix of it
    and continue at random.

    Args:
        evaluations: Budget of cost evaluations of placements or programs per episode.
        assignments: Budget of estimates of several jobs' slowdowns per episode.

    Raises:
        SysgymError: If a budget is not positive.
    """

    name = "annealing"

    def __init__(self, evaluations: int = 64, assignments: int = 300) -> None:
        """Set the budgets."""
        self.budget = in_range(self.name, "evaluations", evaluations, least=1)
        self.assignments = in_range(self.name, "assignments", assignments, least=1)

    def place(self, world: CollectivePlacement) -> Matrix:
        """Search placements."""
        task, problem = world.task, world.problem

        def time_s(matrix: Matrix) -> float:
            return task.model.placement_time_s(problem, matrix, task.programs, task.program_steps)

        def neighbour(matrix: Matrix, rng: np.random.Generator) -> Matrix:
            near = list(swaps(matrix))
            return near[int(rng.integers(len(near)))] if near else matrix

        start = default_matrix(problem.hierarchy.cardinalities, problem.axes)
        return self._run(start, time_s, neighbour)

    def build(self, world: ReductionProgram) -> tuple[int, ...]:
        """Search programs."""
        task, steps = world.task, world.scenario.problem.program_steps
        edge_time_s = task.model.edge_times_s(task.matrix, task.reduction, task.space)

        def time_s(actions: tuple[int, ...]) -> float:
            return float(edge_time_s[edges_of_actions(task.space, actions)].sum())

        def neighbour(actions: tuple[int, ...], rng: np.random.Generator) -> tuple[int, ...]:
            kept = actions[: int(rng.integers(len(actions)))]
            return random_program(task.space, kept, steps, rng)

        start = tuple(world.action_of(instruction) for instruction in task.all_reduce)
        return self._run(start, time_s, neighbour)

    def assign(self, world: MultiJobPlacement) -> IntArray:
        """Search assignments of jobs from the greedy one or the default, by their estimated slowdowns."""
        system = world.system

        def slowdown(state: bytes) -> float:
            return float(system.estimates(assignment_of(system, state)).mean())

        def near(state: bytes, rng: np.random.Generator) -> bytes:
            return annealed_neighbour(system, state, rng)

        start, evaluations = greedily(system)
        default = packed(system.hierarchy, system.jobs)
        if slowdown(default.tobytes()) < slowdown(start.tobytes()):
            start = default
        # Mean slowdowns differ by some percent where times of placements differ by factors.
        schedule = Schedule(self.assignments, 2 * self.assignments, hottest=0.03, coldest=0.0003)
        best = self._run(start.tobytes(), slowdown, near, schedule)
        self.evaluations += evaluations + 2
        return assignment_of(system, best)

    def _run(
        self,
        start: State,
        time_s: Callable[[State], float],
        neighbour: Callable[[State, np.random.Generator], State],
        schedule: Schedule | None = None,
    ) -> State:
        rng = episode_rng(self._world, STREAM)
        search = Annealing(start, time_s, neighbour, schedule or Schedule(self.budget), rng)
        best = search.run()
        self.evaluations = search.evaluations
        return best
