"""The closed-form cost model: times of steps, programs and placements on a hierarchy.

A step takes as long as the fullest link of any level, with the loads of all groups that run at the same time
added up, and the latencies of its rounds; a program takes the sum of its steps. See
:mod:`~sysgym.emulator.accelerators.cost.contention` for what loads a link.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.cost import contention
from sysgym.emulator.accelerators.cost.contention import Curve, Links, Spread, Steps
from sysgym.emulator.accelerators.cost.nccl import EfficiencyCurve
from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.matrices import (
    Matrix,
    check_matrix,
    check_reduce_axes,
    enumerate_matrices,
    reduction_factors,
)
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.emulator.accelerators.programs import (
    COLLECTIVES,
    Collective,
    Instruction,
    Program,
    ProgramSpace,
    best_program,
    check_program,
    program_space,
)
from sysgym.emulator.accelerators.programs.exponents import Move
from sysgym.emulator.accelerators.programs.states import DEFAULT_CONVENTION
from sysgym.scenarios.errors import ScenarioError, SysgymError, UnknownName

Programs = Literal["all_reduce", "synthesized"]
PROGRAMS: tuple[Programs, ...] = get_args(Programs)
"""What a placement is judged with: one AllReduce for each reduction, or the best program for it."""

TOLERANCE = 1e-9
"""Placements whose times differ by less than this share count as equal."""

_FULLY_EXPLORED_LEVELS = 3
"""With more levels only the programs of up to the steps asked for are explored."""

_MOST_CHECKED_DEVICES = 64
"""Programs of larger groups are checked on factors of 2: which are valid depends on the levels alone."""


@dataclass(frozen=True)
class StepCost:
    """What a step spends its time on.

    Attributes:
        link_s: Time of the fullest link.
        latency_s: Time of the rounds' latencies.
        level: Index of the level whose links are the fullest; -1 where nothing is sent.
    """

    link_s: float
    latency_s: float
    level: int

    @property
    def time_s(self) -> float:
        """Both together."""
        return self.link_s + self.latency_s


class CostModel:
    """Times on a hierarchy, deterministic and in closed form.

    Args:
        hierarchy: The devices and their links.
        algorithm: ``ring``; ``halving_doubling``, for groups of powers of two; ``tree``, NCCL's pair of trees
            for AllReduce, rings else; ``auto``, the fastest of them for each step. Reduce and Broadcast are
            always pipelined chains.
        efficiency: Share of their bandwidth that the links of all but the innermost level achieve, by the
            bytes of the vector that a step is about; None: all of it.

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
        """Return the time of one instruction, run by all reduction groups at once.

        Args:
            matrix: The placement.
            reduce_axes: Indices of the reduced axes.
            instruction: On the levels that :func:`~.matrices.reduction_factors` lists.
            rows_share_before: Share of the rows that the first member of a group holds before the step.
            rows_share_after: And after it; only an AllGather's time depends on it.
            size_bytes: Of the full vector on a device.

        Raises:
            ScenarioError: The matrix or the axes do not fit, or the size is negative or not finite.
            SysgymError: The pattern does not exist on these levels, or the algorithm serves no groups of this
                size.
        """
        placed = self._place(matrix, reduce_axes)
        shares = np.array([[rows_share_before, rows_share_after]], np.float64)
        return float(self._times_s(placed, _steps(placed, (instruction,), shares, size_bytes))[0])

    def step_costs(self, matrix: Matrix, reduction: Reduction, program: Program) -> list[StepCost]:
        """Return what each step of a program spends its time on.

        Args:
            matrix: The placement.
            reduction: Axes and size.
            program: On the levels that :func:`~.matrices.reduction_factors` lists; a group of one device has
                the empty program.

        Raises:
            InvalidProgram: The program is not valid.
            ScenarioError: The matrix or the axes do not fit, or the size is negative or not finite.
            SysgymError: The algorithm serves no groups of this size.
        """
        placed = self._place(matrix, reduction.axes)
        _check_program(program, placed.factors)
        steps = _steps(placed, program, _shares(program, placed.factors), reduction.size_bytes)
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

        What is left of its time is latency. Arguments and errors are those of :meth:`step_costs`.
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
            SysgymError: The algorithm serves no groups of this size.
        """
        placed = self._place(matrix, reduction.axes)
        _check_size(reduction.size_bytes)
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
            space: Of as many levels as :func:`~.matrices.reduction_factors` lists.

        Raises:
            ScenarioError: The matrix or the axes do not fit, or the size is negative or not finite.
            SysgymError: The space has another number of levels, or the algorithm serves no groups of a size
                that occurs.
        """
        placed = self._place(matrix, reduction.axes)
        if space.n_levels != len(placed.levels):
            raise SysgymError(
                f"programs of {space.n_levels} levels for a reduction over {len(placed.levels)} levels"
            )
        _check_size(reduction.size_bytes)
        if not space.n_edges:
            return np.zeros(0)
        kinds = _kinds(space)
        levels, factors = np.array(placed.levels), np.array(placed.factors)
        parts = np.prod(factors**kinds.exponents, axis=1)
        steps = Steps(
            levels[kinds.low],
            levels[kinds.high - 1] + 1,
            kinds.masters,
            kinds.collective,
            reduction.size_bytes / parts,
        )
        times_s: NDArray[np.float64] = self._times_s(placed, steps)[kinds.of_edge]
        return times_s

    def best_program(self, matrix: Matrix, reduction: Reduction, max_steps: int = 5) -> tuple[Program, float]:
        """Return the fastest program for a reduction and its time; ties go to the fewest steps.

        Args:
            matrix: The placement.
            reduction: Axes and size.
            max_steps: Steps of the longest program.

        Raises:
            ScenarioError: The matrix or the axes do not fit, or the size is negative or not finite.
            SysgymError: The algorithm serves no groups of a size that occurs, or no program is so short.
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
            UnknownName: There are no such programs.
            ScenarioError: The matrix or the axes do not fit, or the size is negative or not finite.
            SysgymError: The algorithm serves no groups of a size that occurs.
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
            problem: Its hierarchy may have other links than the model's, not other cardinalities.
            matrix: The placement.
            programs: ``all_reduce`` or ``synthesized``, the best program for each reduction.
            max_steps: Steps of the longest program.

        Raises:
            UnknownName: There are no such programs.
            ScenarioError: The matrix does not fit the problem, or the problem not the hierarchy.
            SysgymError: The algorithm serves no groups of a size that occurs.
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

        With ``all_reduce`` more than a million reductions a second on one core.

        Args:
            problem: Its hierarchy may have other links than the model's, not other cardinalities.
            matrices: Placements; an array is int64 [n_matrices, n_axes, n_levels].
            programs: ``all_reduce`` or ``synthesized``, the best program for each reduction.
            max_steps: Steps of the longest program.

        Raises:
            UnknownName: There are no such programs.
            ScenarioError: A matrix does not fit the problem, or the problem not the hierarchy.
            SysgymError: The algorithm serves no groups of a size that occurs.
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
        """Return the fastest placement of a problem and its time; ties go to the first of the sorted ones.

        Args:
            problem: Its hierarchy may have other links than the model's, not other cardinalities.
            programs: ``all_reduce`` or ``synthesized``, the best program for each reduction.
            max_steps: Steps of the longest program.

        Raises:
            UnknownName: There are no such programs.
            ScenarioError: The problem does not fit the hierarchy.
            SysgymError: The algorithm serves no groups of a size that occurs.
        """
        matrices = enumerate_matrices(self.hierarchy.cardinalities, problem.axes)
        times_s = self.placement_times_s(problem, matrices, programs, max_steps)
        best = int(np.argmax(times_s <= times_s.min() * (1.0 + TOLERANCE)))
        return matrices[best], float(times_s[best])

    def _place(self, matrix: Matrix, reduce_axes: Sequence[int]) -> _Placed:
        return _place(self.hierarchy.cardinalities, matrix, tuple(reduce_axes))

    def _times_s(self, placed: _Placed, steps: Steps) -> NDArray[np.float64]:
        times_s = contention.step_times_s(self._links, placed.spread, steps, self._number, self._curve)
        return self._check_times(times_s, placed)

    def _check_times(self, times_s: NDArray[np.float64], placed: _Placed) -> NDArray[np.float64]:
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
    """Return the space in which the best program of some levels is found.

    Args:
        n_levels: Levels that a reduction spans.
        max_steps: Steps of the longest program.
    """
    return (
        program_space(n_levels) if n_levels <= _FULLY_EXPLORED_LEVELS else program_space(n_levels, max_steps)
    )


class _Placed(NamedTuple):
    """A reduction under a placement, and the levels and factors that it spans."""

    spread: Spread
    levels: tuple[int, ...]
    factors: tuple[int, ...]


@functools.lru_cache(maxsize=16_384)
def _place(cardinalities: tuple[int, ...], matrix: Matrix, reduce_axes: tuple[int, ...]) -> _Placed:
    rows = np.array(matrix, np.int64)
    check_matrix(matrix, cardinalities, rows.prod(axis=1).tolist() if rows.ndim == 2 else [])
    reduced = np.zeros(len(matrix), np.bool_)
    reduced[list(check_reduce_axes(len(matrix), reduce_axes))] = True
    factors = reduction_factors(matrix, reduce_axes)
    return _Placed(
        Spread(rows, reduced, rows[reduced].prod(axis=0)),
        tuple(level for level, _ in factors),
        tuple(factor for _, factor in factors),
    )


class _Kinds(NamedTuple):
    """The different steps among a space's edges, [n_kinds], and the one of each edge.

    ``low`` and ``high`` count levels of the synthesis hierarchy. The message is the vector over the product
    of the levels' ``factor ** exponent``.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    masters: NDArray[np.bool_]
    collective: NDArray[np.int64]
    exponents: NDArray[np.int64]
    of_edge: NDArray[np.int64]


@functools.lru_cache(maxsize=64)
def _kinds(space: ProgramSpace) -> _Kinds:
    """Return the kinds of steps of a space with edges: most edges share theirs with many."""
    collectives = np.array([COLLECTIVES.index(step.collective) for step in space.instructions], np.int64)
    gathers = collectives[space.edge_action] == COLLECTIVES.index(Collective.ALL_GATHER)
    exponents = np.where(gathers[:, np.newaxis], space.edge_exponents_after, space.edge_exponents_before)
    keys = np.column_stack([space.edge_action, exponents]).astype(np.int64)
    kinds, of_edge = np.unique(keys, axis=0, return_inverse=True)
    patterns = [space.instructions[action].pattern for action in kinds[:, 0].tolist()]
    return _Kinds(
        np.array([pattern.low for pattern in patterns], np.int64),
        np.array([pattern.high for pattern in patterns], np.int64),
        np.array([pattern.masters for pattern in patterns], np.bool_),
        collectives[kinds[:, 0]],
        np.ascontiguousarray(kinds[:, 1:]),
        of_edge.reshape(-1).astype(np.int64),
    )


def _steps(placed: _Placed, program: Program, shares: NDArray[np.float64], size_bytes: float) -> Steps:
    """Return the steps of a program; ``shares`` are those of rows before and after each, [n_steps, 2]."""
    _check_size(size_bytes)
    n_levels = len(placed.levels)
    for instruction in program:
        if not instruction.pattern.exists(n_levels):
            raise SysgymError(f"{instruction.pattern} does not exist on {n_levels} levels")
    gathers = np.array([step.collective is Collective.ALL_GATHER for step in program], np.int64)
    return Steps(
        np.array([placed.levels[step.pattern.low] for step in program], np.int64),
        np.array([placed.levels[step.pattern.high - 1] + 1 for step in program], np.int64),
        np.array([step.pattern.masters for step in program], np.bool_),
        np.array([COLLECTIVES.index(step.collective) for step in program], np.int64),
        size_bytes * shares[np.arange(len(program)), gathers],
    )


@functools.lru_cache(maxsize=4096)
def _shares(program: Program, factors: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the shares of rows that a first member holds before and after each step, [n_steps, 2].

    They are those of the group in which it holds most; which devices hold what depends on the levels alone.
    """
    twos = (2,) * len(factors)
    exponents = np.zeros((2 ** len(factors), len(factors)), np.int8)
    shares = np.empty((len(program), 2))
    for step, instruction in enumerate(program):
        move = Move.of(instruction, twos)
        after = move.exponents_after(exponents, DEFAULT_CONVENTION)
        for column, held in enumerate((exponents, after)):
            # A first member that holds nothing has the largest exponents; in a valid step some hold rows.
            least = held[move.roots].min(axis=0).tolist()
            shares[step, column] = 1.0 / math.prod(f**e for f, e in zip(factors, least, strict=True))
        exponents = after
    return shares


def _check_program(program: Program, factors: tuple[int, ...]) -> None:
    small = math.prod(factors) <= _MOST_CHECKED_DEVICES
    check_program(program, factors if small else (2,) * len(factors))


def _check_size(size_bytes: float) -> None:
    if not 0.0 <= size_bytes < np.inf:
        raise ScenarioError("<placement>", "size_bytes", size_bytes, "a finite number, at least 0")
