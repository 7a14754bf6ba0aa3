"""Exhaustive search as in P2: over all placements, and over all programs by dynamic programming."""

from __future__ import annotations

import numpy as np

from sysgym.agents.placement.base import Placer
from sysgym.emulator.accelerators.jobs.assignments import all_assignments
from sysgym.emulator.accelerators.jobs.jobs import IntArray
from sysgym.emulator.accelerators.matrices import Matrix, enumerate_matrices
from sysgym.emulator.accelerators.programs import best_program
from sysgym.envs.placement.multijob import MultiJobPlacement
from sysgym.envs.placement.placement import CollectivePlacement
from sysgym.envs.placement.program import ReductionProgram

MOST_ASSIGNMENTS = 2000
"""Largest number of assignments of several jobs that are simulated; more raise an error."""


class ExhaustiveAgent(Placer):
    """Best of all placements or programs by the closed-form model, which also determines the reward.

    Placements are those with the axes in the order of the problem, as in P2: another order can have a faster
    one. Assignments of several jobs are compared by simulation. The agent does not play the joint
    environment, where the model does not determine the reward; ``greedy`` takes the best candidate by the
    model there.
    """

    name = "exhaustive"

    def place(self, world: CollectivePlacement) -> Matrix:
        """Evaluate all placements; if several are best, return the first."""
        task, problem = world.task, world.problem
        matrices = enumerate_matrices(problem.hierarchy.cardinalities, problem.axes)
        self.evaluations = len(matrices)
        times_s = task.model.placement_times_s(problem, matrices, task.programs, task.program_steps)
        return matrices[int(times_s.argmin())]

    def build(self, world: ReductionProgram) -> tuple[int, ...]:
        """Evaluate all steps between all states, and find the shortest path."""
        task = world.task
        self.evaluations = task.space.n_edges
        edge_time_s = task.model.edge_times_s(task.matrix, task.reduction, task.space)
        program, _ = best_program(task.space, edge_time_s, world.scenario.problem.program_steps)
        return tuple(world.action_of(instruction) for instruction in program)

    def assign(self, world: MultiJobPlacement) -> IntArray:
        """Simulate all assignments of the jobs, one of those that differ by nodes' names alone."""
        system = world.system
        everything = all_assignments(system.hierarchy, system.jobs, MOST_ASSIGNMENTS)
        self.simulations = len(everything)
        means = [system.slowdowns(counts).mean() for counts in everything]
        return everything[int(np.argmin(means))]
