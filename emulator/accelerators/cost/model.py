"""Closed-form cost model: times of steps, programs and placements on a hierarchy.

A step takes as long as the fullest link of any level, with the loads of all simultaneous groups added up,
plus the latencies of its rounds. A program takes the sum of its steps. See
:mod:`~sysgym.emulator.accelerators.cost.contention` for the load of a link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.cost import contention
from sysgym.emulator.accelerators.cost.contention import Curve, Links, Steps
from sysgym.emulator.accelerators.cost.efficiency import EfficiencyCurve
from sysgym.emulator.accelerators.cost.steps import (
    Placed,
    check_size,
    check_valid,
    edge_steps,
    place,
    program_steps,
    row_shares,
)
from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.matrices import (
    Matrix,
    check_matrix,
    enumerate_matrices,
)
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.emulator.accelerators.programs import (
    Instruction,
    Program,
    ProgramSpace,
    best_program,
    program_space,
)
from sysgym.scenarios.errors import ScenarioError, SysgymError, UnknownName

Programs = Literal["all_reduce", "synthesized"]
PROGRAMS: tuple[Programs, ...] = get_args(Programs)
"""Programs that placements are judged with: one AllReduce per reduction, or the best program for it."""

TOLERANCE = 1e-9
"""Placements whose times differ by less than this share count as equal."""

_FULLY_EXPLORED_LEVELS = 3
"""With more levels, only programs up to the requested number of steps are explored."""


@dataclass(frozen=True)
class StepCost:
    """Parts of a step's time.

    Attributes:
        link_s: Time on the fullest link.
        latency_s: Latencies of the rounds.
        level: Index of the level with the fullest link; -1 if nothing is sent.
    """

    link_s: float
    latency_s: float
    level: int

    @property
    def time_s(self) -> float:
        """Sum of both."""
        return self.link_s + self.latency_s


class CostModel:
    """Model of times on a hierarchy, deterministic and in closed form.

    Args:
        hierarchy: The devices and their links.
        algorithm: ``ring``; ``halving_doubling``, for groups of powers of two; ``tree``, NCCL's pair of trees
            for AllReduce and rings otherwise; ``auto``, the fastest of them for each step. Reduce and
            Broadcast are always pipelined chains.
        efficiency: Share of their bandwidth that the links of all but the innermost level achieve, by the
            bytes of the vector of a step; None for full bandwidth.

    Attributes:
        hierarchy: As given.
        algorithm: As given.
        efficiency: As given.

    Raises:
        UnknownName: There is no such algorithm.
    """

    def __init__(
        self, hierarchy: Hierarchy, algorithm: str = "ring", efficiency: EfficiencyCurve | None = None
    ) -> None:
        """Set up; the class documentation describes the arguments."""
        if algorithm not in contention.ALGORITHMS:
            raise UnknownName("algorithm", algorithm, contention.ALGORITHMS)
        self.hierarchy, self.algorithm, self.efficiency = hierarchy, algorithm, efficiency
        levels = hierarchy.levels
        self._links = Links(
            np.array(hierarchy.cardinalities, np.int64),
            np.array([level.bandwidth_bytes_per_s for level in levels], np.float64),
            np.array([level.latency_s for level in levels], np.float64),
            np.array([level.uplinks for level in levels], np.int64),
            np.array([level.network == "ring" for level in levels], np.bool_),
        )
        none = np.zeros(0)
        self._curve = Curve(none, none) if efficiency is None else Curve(*efficiency.logarithms())
        self._number = contention.ALGORITHMS.index(algorithm)

    def instruction_time_s(
        self,
        matrix: Matrix,
        reduce_axes: Sequence[int],
        instruction: Instruction,
        rows_share_before: float,
        rows_share_after: float,
        size_bytes: float,
    ) -> float:
        """Return the time of one instruction that all reduction groups run at once.

        Args:
            matrix: The placement.
            reduce_axes: Indices of the reduced axes.
            instruction: Instruction on the levels of :func:`~.matrices.reduction_factors`.
            rows_share_before: Share of the rows that the first member of a group holds before the step.
            rows_share_after: Share after the step; only an AllGather's time depends on it.
            size_bytes: Bytes of the full vector on a device.

        Raises:
            ScenarioError: The matrix or the axes do not fit, or the size is negative or not finite.
            SysgymError: The pattern does not exist on these levels, or the algorithm does not support groups
                of this size.
        """
        placed = self._place(matrix, reduce_axes)
        shares = np.array([[rows_share_before, rows_share_after]], np.float64)
        return float(self._times_s(placed, program_steps(placed, (instruction,), shares, size_bytes))[0])

    def step_costs(self, matrix: Matrix, reduction: Reduction, program: Program) -> list[StepCost]:
        """Return the parts of the time of each step of a program.

        Args:
            matrix: The placement.
            reduction: Axes and size.
            program: Program on the levels of :func:`~.matrices.reduction_factors`; empty for a group of one
                device.

        Raises:
            InvalidProgram: The program is not valid.
            ScenarioError: The matrix or the axes do not fit, or the size is negative or not finite.
            SysgymError: The algorithm does not support groups of this size.
        """
        placed = self._place(matrix, reduction.axes)
        check_valid(program, placed.factors)
        shares = row_shares(program, placed.factors)
        steps = program_steps(placed, program, shares, reduction.size_bytes)
        links_s, latencies_s, levels = contention.step_parts_s(
            self._links, placed.spread, steps, self._number, self._curve
        )
        self._check_times(links_s, placed)
        parts = zip(links_s.tolist(), latencies_s.tolist(), levels.tolist(), strict=True)
        return [StepCost(*part) for part in parts]

    def program_time_s(self, matrix: Matrix, reduction: Reduction, program: Program) -> float:
        """Return the time of a program; arguments and errors are those of :meth:`step_costs`."""
        return sum(cost.time_s for cost in self.step_costs(matrix, reduction, program))

    def level_times_s(self, matrix: Matrix, reduction: Reduction, program: Program) -> NDArray[np.float64]:
        """Return the time that a program waits for the links of each level, float64 [n_levels].

        The rest of its time is latency. Arguments and errors are those of :meth:`step_costs`.
        """
        times_s = np.zeros(self.hierarchy.n_levels)
        for cost in self.step_costs(matrix, reduction, program):
            if cost.level >= 0:
                times_s[cost.level] += cost.link_s
        return times_s

    def all_reduce_time_s(self, matrix: Matrix, reduction: Reduction) -> float:
        """Return the time of a single AllReduce over all members of every reduction group.

        Args:
            matrix: The placement.
            reduction: Axes and size.

        Raises:
            ScenarioError: The matrix or the axes do not fit, or the size is negative or not finite.
            SysgymError: The algorithm does not support groups of this size.
        """
        placed = self._place(matrix, reduction.axes)
        check_size(reduction.size_bytes)
        spread = placed.spread
        times_s = contention.all_reduce_times_s(
            self._links,
            spread.matrix[np.newaxis],
            spread.reduced[np.newaxis],
            np.array([reduction.size_bytes], np.float64),
            self._number,
            self._curve,
        )
        return float(self._check_times(times_s, placed)[0])

    def edge_times_s(self, matrix: Matrix, reduction: Reduction, space: ProgramSpace) -> NDArray[np.float64]:
        """Return the time of the step of each edge of a program space, float64 [n_edges].

        Args:
            matrix: The placement.
            reduction: Axes and size.
            space: Program space with as many levels as :func:`~.matrices.reduction_factors` lists.

        Raises:
            ScenarioError: The matrix or the axes do not fit, or the size is negative or not finite.
            SysgymError: The space has another number of levels, or the algorithm does not support groups of a
                size that occurs.
        """
        placed = self._place(matrix, reduction.axes)
        if space.n_levels != len(placed.levels):
            raise SysgymError(
                f"programs of {space.n_levels} levels for a reduction over {len(placed.levels)} levels"
            )
        check_size(reduction.size_bytes)
        if not space.n_edges:
            return np.zeros(0)
        steps, of_edge = edge_steps(placed, space, reduction.size_bytes)
        times_s: NDArray[np.float64] = self._times_s(placed, steps)[of_edge]
        return times_s

    def best_program(self, matrix: Matrix, reduction: Reduction, max_steps: int = 5) -> tuple[Program, float]:
        """Return the fastest program for a reduction and its time; ties go to the fewest steps.

        Args:
            matrix: The placement.
            reduction: Axes and size.
            max_steps: Steps of the longest program.

        Raises:
            ScenarioError: The matrix or the axes do not fit, or the size is negative or not finite.
            SysgymError: The algorithm does not support a group size that occurs, or no program is so short.
        """
        space = synthesis_space(len(self._place(matrix, reduction.axes).levels), max_steps)
        return best_program(space, self.edge_times_s(matrix, reduction, space), max_steps)

    def reduction_time_s(
        self, matrix: Matrix, reduction: Reduction, programs: str = "all_reduce", max_steps: int = 5
    ) -> float:
        """Return the time of one reduction.

        Args:
            matrix: The placement.
            reduction: Axes and size.
            programs: ``all_reduce`` or ``synthesized``, the best program.
            max_steps: Steps of the longest program.

        Raises:
            UnknownName: There is no such kind of programs.
            ScenarioError: The matrix or the axes do not fit, or the size is negative or not finite.
            SysgymError: The algorithm does not support a group size that occurs.
        """
        if programs not in PROGRAMS:
            raise UnknownName("kind of programs", programs, PROGRAMS)
        if programs == "all_reduce":
            return self.all_reduce_time_s(matrix, reduction)
        return self.best_program(matrix, reduction, max_steps)[1]

    def placement_time_s(
        self,
        problem: PlacementProblem,
        matrix: Matrix,
        programs: str = "all_reduce",
        max_steps: int = 5,
    ) -> float:
        """Return the time of all reductions of a problem, one after another.

        Args:
            problem: The problem; its hierarchy may differ from the model's in links but not in cardinalities.
            matrix: The placement.
            programs: ``all_reduce`` or ``synthesized``, the best program for each reduction.
            max_steps: Steps of the longest program.

        Raises:
            UnknownName: There is no such kind of programs.
            ScenarioError: The matrix does not fit the problem, or the problem not the hierarchy.
            SysgymError: The algorithm does not support a group size that occurs.
        """
        self._check_problem(problem)
        check_matrix(matrix, self.hierarchy.cardinalities, problem.axes)
        return sum(
            self.reduction_time_s(matrix, reduction, programs, max_steps) for reduction in problem.reductions
        )

    def placement_times_s(
        self,
        problem: PlacementProblem,
        matrices: Sequence[Matrix] | NDArray[np.int64],
        programs: str = "all_reduce",
        max_steps: int = 5,
    ) -> NDArray[np.float64]:
        """Return the time of all reductions of a problem under each placement, float64 [n_matrices].

        With ``all_reduce`` it computes more than a million reductions per second on one core.

        Args:
            problem: The problem; its hierarchy may differ from the model's in links but not in cardinalities.
            matrices: Placements; an array is int64 [n_matrices, n_axes, n_levels].
            programs: ``all_reduce`` or ``synthesized``, the best program for each reduction.
            max_steps: Steps of the longest program.

        Raises:
            UnknownName: There is no such kind of programs.
            ScenarioError: A matrix does not fit the problem, or the problem not the hierarchy.
            SysgymError: The algorithm does not support a group size that occurs.
        """
        self._check_problem(problem)
        table = self._checked_matrices(problem, matrices)
        if programs != "all_reduce":
            rows = [tuple(map(tuple, matrix)) for matrix in table.tolist()]
            return np.array(
                [self.placement_time_s(problem, matrix, programs, max_steps) for matrix in rows], np.float64
            )
        reduced = np.zeros((len(problem.reductions), problem.n_axes), np.bool_)
        for index, reduction in enumerate(problem.reductions):
            reduced[index, list(reduction.axes)] = True
        sizes = np.array([reduction.size_bytes for reduction in problem.reductions], np.float64)
        times_s = contention.all_reduce_times_s(self._links, table, reduced, sizes, self._number, self._curve)
        if not np.isfinite(times_s).all():
            matrix = tuple(map(tuple, table[int(np.argmin(np.isfinite(times_s)))].tolist()))
            self.placement_time_s(problem, matrix)
        return times_s

    def best_placement(
        self, problem: PlacementProblem, programs: str = "all_reduce", max_steps: int = 5
    ) -> tuple[Matrix, float]:
        """Return the fastest placement of a problem and its time; ties go to the first in sorted order.

        It is the best of all matrices with the axes in the order given; in another order of the axes the best
        time can differ (:meth:`~sysgym.emulator.accelerators.problem.PlacementProblem.reordered`).

        Args:
            problem: The problem; its hierarchy may differ from the model's in links but not in cardinalities.
            programs: ``all_reduce`` or ``synthesized``, the best program for each reduction.
            max_steps: Steps of the longest program.

        Raises:
            UnknownName: There is no such kind of programs.
            ScenarioError: The problem does not fit the hierarchy.
            SysgymError: The algorithm does not support a group size that occurs.
        """
        matrices = enumerate_matrices(self.hierarchy.cardinalities, problem.axes)
        times_s = self.placement_times_s(problem, matrices, programs, max_steps)
        best = int(np.argmax(times_s <= times_s.min() * (1.0 + TOLERANCE)))
        return matrices[best], float(times_s[best])

    def _place(self, matrix: Matrix, reduce_axes: Sequence[int]) -> Placed:
        return place(self.hierarchy.cardinalities, matrix, tuple(reduce_axes))

    def _times_s(self, placed: Placed, steps: Steps) -> NDArray[np.float64]:
        times_s = contention.step_times_s(self._links, placed.spread, steps, self._number, self._curve)
        return self._check_times(times_s, placed)

    def _check_times(self, times_s: NDArray[np.float64], placed: Placed) -> NDArray[np.float64]:
        if times_s.size and times_s.max() == np.inf:
            factors = " x ".join(map(str, placed.factors))
            raise SysgymError(
                f"{self.algorithm} is defined for groups of a power of two, not for those of a reduction "
                f"over {factors} devices; ring and auto serve any number"
            )
        return times_s

    def _check_problem(self, problem: PlacementProblem) -> None:
        ours, theirs = self.hierarchy.cardinalities, problem.hierarchy.cardinalities
        if ours != theirs:
            expected = f"the cardinalities of the model's hierarchy, {list(ours)}"
            raise ScenarioError(
                f"<placement on {problem.hierarchy.name}>", "hierarchy", list(theirs), expected
            )

    def _checked_matrices(
        self, problem: PlacementProblem, matrices: Sequence[Matrix] | NDArray[np.int64]
    ) -> NDArray[np.int64]:
        cardinalities, axes = self.hierarchy.cardinalities, problem.axes
        shape = (len(matrices), len(axes), len(cardinalities))
        if not isinstance(matrices, np.ndarray):
            for matrix in matrices:
                if len(matrix) != len(axes) or any(len(row) != len(cardinalities) for row in matrix):
                    check_matrix(matrix, cardinalities, axes)
        table = np.ascontiguousarray(matrices, np.int64).reshape(shape)
        fits = (
            (table >= 1).all(axis=(1, 2))
            & (table.prod(axis=1) == np.array(cardinalities)).all(axis=1)
            & (table.prod(axis=2) == np.array(axes)).all(axis=1)
        )
        if not fits.all():
            check_matrix(tuple(map(tuple, table[int(np.argmin(fits))].tolist())), cardinalities, axes)
        return table


def synthesis_space(n_levels: int, max_steps: int) -> ProgramSpace:
    """Return the space that contains the best program for a number of levels.

    Args:
        n_levels: Levels that a reduction spans.
        max_steps: Steps of the longest program.
    """
    return (
        program_space(n_levels) if n_levels <= _FULLY_EXPLORED_LEVELS else program_space(n_levels, max_steps)
    )
