"""Tasks: a problem's placements or a reduction's programs, with their times and the exact optimum.

They depend on the drawn problem alone and are kept for those that come again; times are computed when
somebody asks.
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
"""Tasks that are kept."""


@dataclass(frozen=True, eq=False)
class PlacementTask:
    """The placements of a problem.

    Attributes:
        problem: What is placed.
        model: What says how long reductions take.
        programs: ``all_reduce`` or ``synthesized``: how reductions run.
        program_steps: Most collectives of a synthesized program.
        steps: (level, prime) to be assigned, in order.
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
        """Axes in the order given, the last one innermost."""
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
        """The best placement; of several the first."""
        return self.matrices[int(self.times_s.argmin())]

    def time_s(self, matrix: Matrix) -> float:
        """Return the time of all reductions under a placement.

        Raises:
            KeyError: It is not one of :attr:`matrices`.
        """
        return float(self.times_s[self._index[matrix]])

    def outcome(self, matrix: Matrix | None) -> Outcome:
        """Return what a placement comes to; None: none that is valid."""
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
        problem: What is placed.
        algorithm: Of the collectives, as in scenarios.
        programs: ``all_reduce`` or ``synthesized``.
        program_steps: Most collectives of a synthesized program.
    """
    steps = prime_steps(problem.hierarchy.cardinalities)
    return PlacementTask(problem, CostModel(problem.hierarchy, algorithm), programs, program_steps, steps)


@dataclass(frozen=True, eq=False)
class ProgramTask:
    """The programs of a reduction under a placement.

    Attributes:
        problem: With one reduction.
        matrix: The placement.
        model: What says how long instructions take.
        factors: (level, factor) that the reduction spans, outermost first.
        space: All programs of so many levels.
        edge_time_s: Time of each edge of the space, s.
        span: The levels as agents see them.
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
        """What is reduced."""
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
        """Logarithm of each edge's time over the all-reduce's, float32 [n_edges]."""
        return np.asarray(log_ratio(self.edge_time_s, self.all_reduce_time_s), np.float32)

    def time_s(self, program: Program) -> float:
        """Return the time of a program.

        Raises:
            InvalidProgram: It is not valid.
        """
        return float(self.edge_time_s[self.space.edges_of(program)].sum())

    def best(self, max_steps: int) -> tuple[Program, float]:
        """Return the fastest program of at most so many steps, and its time."""
        return best_program(self.space, self.edge_time_s, max_steps)


@functools.lru_cache(maxsize=KEPT)
def program_task(problem: PlacementProblem, matrix: Matrix, algorithm: str) -> ProgramTask:
    """Return the programs of a problem's first reduction.

    Args:
        problem: With one reduction.
        matrix: The placement.
        algorithm: Of the collectives, as in scenarios.
    """
    model, reduction = CostModel(problem.hierarchy, algorithm), problem.reductions[0]
    factors = reduction_factors(matrix, reduction.axes)
    space = program_space(len(factors))
    edge_time_s = model.edge_times_s(matrix, reduction, space)
    return ProgramTask(
        problem, matrix, model, factors, space, edge_time_s, span_table(problem.hierarchy, factors)
    )
