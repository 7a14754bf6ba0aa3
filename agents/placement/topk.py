"""Choice among the k best by the model, by simulation or measurement."""

from __future__ import annotations

import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.placement.base import Choice, JointView, Placer
from sysgym.agents.placement.measuring import measured_in_turns
from sysgym.agents.placement.simple import actions_of
from sysgym.agents.placement.steps import blueconnect
from sysgym.emulator.accelerators.flows.collective import program_time_s
from sysgym.emulator.accelerators.flows.schedules import ALGORITHMS
from sysgym.emulator.accelerators.matrices import Matrix, enumerate_matrices, reduction_factors
from sysgym.emulator.accelerators.problem import Reduction
from sysgym.emulator.accelerators.programs import Program, top_programs
from sysgym.envs.placement.placement import CollectivePlacement
from sysgym.envs.placement.program import ReductionProgram
from sysgym.envs.placement.tasks import PlacementTask, ProgramTask


class TopKAgent(Placer):
    """The best of the k best by the closed-form model, according to flow-level simulation.

    P2 uses its simulator in this way, with hardware in place of the simulation here. In the joint environment
    the k nominally best candidates are measured in turns, each the same number of times as far as the budget
    allows, and the one with the best mean is chosen.

    Args:
        k: Number of candidates that are simulated.
        measured: Number of candidates that are measured in the joint environment. This default and that of
            ``repeats`` come from ``scripts/placement/tune_joint.py``.
        repeats: Number of measurements of each of these candidates.

    Raises:
        SysgymError: If a number is not positive.
    """

    name = "topk"

    def __init__(self, k: int = 3, measured: int = 6, repeats: int = 1) -> None:
        """Set the numbers."""
        self.k = in_range(self.name, "k", k, least=1)
        self.measured = in_range(self.name, "measured", measured, least=1)
        self.repeats = in_range(self.name, "repeats", repeats, least=1)

    def place(self, world: CollectivePlacement) -> Matrix:
        """Evaluate all placements, and simulate the best ones."""
        task, problem = world.task, world.problem
        matrices = enumerate_matrices(problem.hierarchy.cardinalities, problem.axes)
        self.evaluations = len(matrices)
        times_s = task.model.placement_times_s(problem, matrices, task.programs, task.program_steps)
        best: list[Matrix] = [
            matrices[index] for index in np.argsort(times_s, kind="stable")[: self.k].tolist()
        ]
        if len(best) == 1:
            return best[0]
        return best[int(np.argmin([self._simulated_s(task, matrix) for matrix in best]))]

    def build(self, world: ReductionProgram) -> tuple[int, ...]:
        """Find the k best programs, and simulate them."""
        task = world.task
        self.evaluations = task.space.n_edges
        edge_time_s = task.model.edge_times_s(task.matrix, task.reduction, task.space)
        best = top_programs(task.space, edge_time_s, self.k, world.scenario.problem.program_steps)
        programs = [program for program, _ in best]
        times_s = [self._flows_s(task, task.matrix, task.reduction, program) for program in programs]
        return actions_of(world, programs[int(np.argmin(times_s))])

    def choose(self, view: JointView) -> Choice:
        """Measure the nominally best candidates in turns, then commit."""
        return measured_in_turns(view, np.argsort(view.nominal, kind="stable")[: self.measured], self.repeats)

    def _simulated_s(self, task: PlacementTask, matrix: Matrix) -> float:
        return sum(
            self._flows_s(task, matrix, reduction, reduction_program(task, matrix, reduction))
            for reduction in task.problem.reductions
        )

    def _flows_s(
        self, task: PlacementTask | ProgramTask, matrix: Matrix, reduction: Reduction, program: Program
    ) -> float:
        self.simulations += 1
        hierarchy, algorithm = task.problem.hierarchy, task.model.algorithm
        # "auto" chooses an algorithm per step; for whole programs, the fastest one is equal or close to it.
        names = ALGORITHMS if algorithm == "auto" else (algorithm,)
        return min(program_time_s(hierarchy, matrix, reduction, program, name) for name in names)


def reduction_program(task: PlacementTask, matrix: Matrix, reduction: Reduction) -> Program:
    """Return the program of a reduction under a placement: the best by the model, or one all-reduce.

    Args:
        task: Task that determines the kind of programs and their largest length.
        matrix: The placement.
        reduction: The reduction.
    """
    n_levels = len(reduction_factors(matrix, reduction.axes))
    if task.programs == "all_reduce" or not n_levels:
        return blueconnect(n_levels, 1)
    return task.model.best_program(matrix, reduction, task.program_steps)[0]
