"""Tasks: the placements of a problem or the programs of a reduction, with times and the best of them.

Tasks depend on the drawn problem alone and are cached; times are computed lazily.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.cost import CostModel
from sysgym.emulator.accelerators.matrices import (
    Matrix,
    Step,
    default_matrix,
    enumerate_matrices,
    prime_steps,
    reduction_factors,
)
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.emulator.accelerators.programs import (
    Collective,
    Instruction,
    Pattern,
    Program,
    ProgramSpace,
    best_program,
    program_space,
)
from sysgym.emulator.accelerators.step_times import link_times_s
from sysgym.envs.placement.metrics import Outcome
from sysgym.envs.placement.observation import Array, log_ratio, span_table

KEPT = 512
"""Number of tasks in the cache."""


@dataclass(frozen=True, eq=False)
class PlacementTask:
    """The placements of a problem.

    Attributes:
        problem: The problem.
        model: Cost model of reductions.
        programs: Kind of programs that reductions run: ``all_reduce`` or ``synthesized``.
        program_steps: Largest number of collectives in a synthesized program.
        steps: Pairs of (level, prime) to assign, in order.
    """

    problem: PlacementProblem
    model: CostModel
    programs: str
    program_steps: int
    steps: tuple[Step, ...]

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        """All placements, sorted."""
        return tuple(enumerate_matrices(self.problem.hierarchy.cardinalities, self.problem.axes))

    @cached_property
    def times_s(self) -> NDArray[np.float64]:
        """Time of all reductions under each of :attr:`matrices`."""
        return self.model.placement_times_s(self.problem, self.matrices, self.programs, self.program_steps)

    @cached_property
    def default(self) -> Matrix:
        """The default placement: axes in the order given, the last one innermost."""
        return default_matrix(self.problem.hierarchy.cardinalities, self.problem.axes)

    @cached_property
    def default_time_s(self) -> float:
        """Time under :attr:`default`."""
        return self.time_s(self.default)

    @property
    def best_time_s(self) -> float:
        """Time under the best placement."""
        return float(self.times_s.min())

    @property
    def best(self) -> Matrix:
        """The best placement, the first of several."""
        return self.matrices[int(self.times_s.argmin())]

    def time_s(self, matrix: Matrix) -> float:
        """Return the time of all reductions under a placement.

        Raises:
            KeyError: If the placement is not one of :attr:`matrices`.
        """
        return float(self.times_s[self._index[matrix]])

    def outcome(self, matrix: Matrix | None) -> Outcome:
        """Return the outcome of a placement; None stands for an invalid one."""
        time_s = self.default_time_s if matrix is None else self.time_s(matrix)
        return Outcome(time_s, self.default_time_s, self.best_time_s, valid=matrix is not None)

    def reduction_times_s(self, matrix: Matrix) -> NDArray[np.float64]:
        """Return the time of each reduction under a placement, [n_reductions]."""
        return np.array(
            [
                self.model.reduction_time_s(matrix, reduction, self.programs, self.program_steps)
                for reduction in self.problem.reductions
            ]
        )

    def link_times_s(self, matrix: Matrix) -> NDArray[np.float64]:
        """Return the time of each reduction on the links of each level, [n_reductions, n_levels]."""
        most = 0 if self.programs == "all_reduce" else self.program_steps
        return link_times_s(self.model, self.problem, matrix, most)

    @cached_property
    def _index(self) -> dict[Matrix, int]:
        return {matrix: index for index, matrix in enumerate(self.matrices)}


@functools.lru_cache(maxsize=KEPT)
def placement_task(
    problem: PlacementProblem, algorithm: str, programs: str, program_steps: int
) -> PlacementTask:
    """Return the placements of a problem.

    Args:
        problem: The problem.
        algorithm: Algorithm of the collectives, as in scenarios.
        programs: ``all_reduce`` or ``synthesized``.
        program_steps: Largest number of collectives in a synthesized program.
    """
    steps = prime_steps(problem.hierarchy.cardinalities)
    return PlacementTask(problem, CostModel(problem.hierarchy, algorithm), programs, program_steps, steps)


@dataclass(frozen=True, eq=False)
class ProgramTask:
    """The programs of a reduction under a placement.

    Attributes:
        problem: Problem with one reduction.
        matrix: The placement.
        model: Cost model of instructions.
        factors: Pairs of (level, factor) that the reduction spans, outermost first.
        space: Space of all programs with this number of levels.
        edge_time_s: Time of each edge of the space, s.
        span: Levels as observed by agents.
    """

    problem: PlacementProblem
    matrix: Matrix
    model: CostModel
    factors: tuple[tuple[int, int], ...]
    space: ProgramSpace
    edge_time_s: NDArray[np.float64]
    span: Array

    @property
    def reduction(self) -> Reduction:
        """The reduction."""
        return self.problem.reductions[0]

    @cached_property
    def all_reduce(self) -> Program:
        """The default: a single all-reduce."""
        return (Instruction(Pattern(0, self.space.n_levels), Collective.ALL_REDUCE),)

    @cached_property
    def all_reduce_time_s(self) -> float:
        """Time of the default."""
        return self.time_s(self.all_reduce)

    @cached_property
    def edge_log_cost(self) -> Array:
        """Logarithm of the ratio of each edge's time to that of the all-reduce, float32 [n_edges]."""
        return np.asarray(log_ratio(self.edge_time_s, self.all_reduce_time_s), np.float32)

    def time_s(self, program: Program) -> float:
        """Return the time of a program.

        Raises:
            InvalidProgram: If the program is not valid.
        """
        return float(self.edge_time_s[self.space.edges_of(program)].sum())

    def best(self, max_steps: int) -> tuple[Program, float]:
        """Return the fastest program with at most a given number of steps, and its time."""
        return best_program(self.space, self.edge_time_s, max_steps)


@functools.lru_cache(maxsize=KEPT)
def program_task(problem: PlacementProblem, matrix: Matrix, algorithm: str) -> ProgramTask:
    """Return the programs of a problem's first reduction.

    Args:
        problem: Problem with one reduction.
        matrix: The placement.
        algorithm: Algorithm of the collectives, as in scenarios.
    """
    model, reduction = CostModel(problem.hierarchy, algorithm), problem.reductions[0]
    factors = reduction_factors(matrix, reduction.axes)
    space = program_space(len(factors))
    edge_time_s = model.edge_times_s(matrix, reduction, space)
    return ProgramTask(
        problem, matrix, model, factors, space, edge_time_s, span_table(problem.hierarchy, factors)
    )
