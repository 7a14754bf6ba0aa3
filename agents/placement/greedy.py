"""Greedy rules: the axes with the most traffic innermost, and the cheapest progress first."""

from __future__ import annotations

from sysgym.agents.placement.base import Choice, JointView, Placer
from sysgym.agents.placement.jobs import greedily
from sysgym.agents.placement.steps import cheapest_progress
from sysgym.emulator.accelerators.jobs.jobs import IntArray
from sysgym.emulator.accelerators.matrices import Matrix, prime_steps
from sysgym.emulator.accelerators.problem import PlacementProblem
from sysgym.envs.placement.multijob import MultiJobPlacement
from sysgym.envs.placement.placement import CollectivePlacement
from sysgym.envs.placement.program import ReductionProgram


def inner_first(problem: PlacementProblem) -> Matrix:
    """Return the placement in which the axis with the most reduced bytes gets the inner levels.

    Levels are filled from the innermost outwards. Axes are ordered by the bytes that a ring all-reduce over
    them sends, 2 (n-1)/n of the vector for every reduction in which they take part; ties go to the last axis,
    as in the default. An axis takes as many factors of a level as it still needs.

    Args:
        problem: Axes, levels and reductions.
    """
    sent = [0.0] * problem.n_axes
    for reduction in problem.reductions:
        for axis in reduction.axes:
            size = problem.axes[axis]
            sent[axis] += 2.0 * (size - 1) / size * reduction.size_bytes
    order = sorted(range(problem.n_axes), key=lambda axis: (-sent[axis], -axis))
    left = list(problem.axes)
    matrix = [[1] * problem.hierarchy.n_levels for _ in left]
    for level, prime in reversed(prime_steps(problem.hierarchy.cardinalities)):
        # Such an axis always exists: for every prime, axes and levels have the same number of factors.
        axis = next(axis for axis in order if left[axis] % prime == 0)
        left[axis] //= prime
        matrix[axis][level] *= prime
    return tuple(map(tuple, matrix))


class GreedyAgent(Placer):
    """Inner levels for the most traffic; least time per progress; nominally best candidate."""

    name = "greedy"

    def place(self, world: CollectivePlacement) -> Matrix:
        """Fill the inner levels first, without cost evaluations."""
        return inner_first(world.problem)

    def build(self, world: ReductionProgram) -> tuple[int, ...]:
        """Choose the step with the cheapest progress each time."""
        task = world.task
        factors = tuple(factor for _, factor in task.factors)
        edge_time_s = task.model.edge_times_s(task.matrix, task.reduction, task.space)
        actions, self.evaluations = cheapest_progress(
            task.space, edge_time_s, factors, world.scenario.problem.program_steps
        )
        return tuple(actions)

    def assign(self, world: MultiJobPlacement) -> IntArray:
        """Place one job after another, each in the shape with the least estimated slowdown."""
        counts, self.evaluations = greedily(world.system)
        return counts

    def choose(self, view: JointView) -> Choice:
        """Commit without measuring."""
        return Choice(int(view.nominal.argmin()), commit=True)
