"""Programs under a placement as arrays for the compiled model: levels and message of each step."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.cost.contention import Spread, Steps
from sysgym.emulator.accelerators.matrices import Matrix, check_matrix, check_reduce_axes, reduction_factors
from sysgym.emulator.accelerators.programs import (
    COLLECTIVES,
    Collective,
    Program,
    ProgramSpace,
    check_program,
)
from sysgym.emulator.accelerators.programs.exponents import Move
from sysgym.emulator.accelerators.programs.states import DEFAULT_CONVENTION
from sysgym.scenarios.errors import ScenarioError, SysgymError

_MOST_CHECKED_DEVICES = 64


class Placed(NamedTuple):
    """A reduction under a placement, and the levels and factors that it spans."""

    spread: Spread
    levels: tuple[int, ...]
    factors: tuple[int, ...]


@functools.lru_cache(maxsize=16_384)
def place(cardinalities: tuple[int, ...], matrix: Matrix, reduce_axes: tuple[int, ...]) -> Placed:
    """Return a reduction under a placement.

    Args:
        cardinalities: Cardinality of each level, outermost first.
        matrix: The placement.
        reduce_axes: Indices of the reduced axes.

    Raises:
        ScenarioError: The matrix or the axes do not fit.
    """
    check_matrix(matrix, cardinalities, [math.prod(row) for row in matrix])
    rows = np.array(matrix, np.int64)
    reduced = np.zeros(len(matrix), np.bool_)
    reduced[list(check_reduce_axes(len(matrix), reduce_axes))] = True
    factors = reduction_factors(matrix, reduce_axes)
    return Placed(
        Spread(rows, reduced, rows[reduced].prod(axis=0)),
        tuple(level for level, _ in factors),
        tuple(factor for _, factor in factors),
    )


class _Kinds(NamedTuple):
    """The distinct steps among a space's edges, [n_kinds], and the kind of each edge.

    ``low`` and ``high`` count levels of the synthesis hierarchy. The message is the vector divided by the
    product over the levels of ``factor ** exponent``.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    masters: NDArray[np.bool_]
    collective: NDArray[np.int64]
    exponents: NDArray[np.int64]
    of_edge: NDArray[np.int64]


@functools.lru_cache(maxsize=64)
def _kinds(space: ProgramSpace) -> _Kinds:
    """Return the kinds of steps of a space with edges; most edges share theirs with many others."""
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


def edge_steps(placed: Placed, space: ProgramSpace, size_bytes: float) -> tuple[Steps, NDArray[np.int64]]:
    """Return the distinct steps of a space with edges, and the step of each edge, int64 [n_edges].

    Args:
        placed: The reduction; it spans as many levels as the space has.
        space: The program space.
        size_bytes: Bytes of the full vector.
    """
    kinds = _kinds(space)
    levels, factors = np.array(placed.levels), np.array(placed.factors)
    parts = np.prod(factors**kinds.exponents, axis=1)
    steps = Steps(
        levels[kinds.low],
        levels[kinds.high - 1] + 1,
        kinds.masters,
        kinds.collective,
        size_bytes / parts,
    )
    return steps, kinds.of_edge


def program_steps(placed: Placed, program: Program, shares: NDArray[np.float64], size_bytes: float) -> Steps:
    """Return the steps of a program.

    Args:
        placed: The reduction.
        program: Program on as many levels as the reduction spans.
        shares: Shares of the rows that a group's first member holds before and after each step, [n_steps, 2].
        size_bytes: Bytes of the full vector.

    Raises:
        ScenarioError: The size is negative or not finite.
        SysgymError: A pattern does not exist on these levels.
    """
    check_size(size_bytes)
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
def row_shares(program: Program, factors: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the shares of rows that a group's first member holds before and after each step, [n_steps, 2].

    They are those of the group with the largest share; which devices hold which rows depends on the levels.
    """
    twos = (2,) * len(factors)
    exponents = np.zeros((2 ** len(factors), len(factors)), np.int8)
    shares = np.empty((len(program), 2))
    for step, instruction in enumerate(program):
        move = Move.of(instruction, twos)
        after = move.exponents_after(exponents, DEFAULT_CONVENTION)
        for column, held in enumerate((exponents, after)):
            # A first member that holds nothing has the largest exponents; in a valid step some members hold
            # rows.
            least = held[move.roots].min(axis=0).tolist()
            shares[step, column] = 1.0 / math.prod(f**e for f, e in zip(factors, least, strict=True))
        exponents = after
    return shares


def check_valid(program: Program, factors: tuple[int, ...]) -> None:
    """Check a program; a large group's on factors of 2, since validity depends on the levels alone.

    Raises:
        InvalidProgram: It is not valid.
    """
    small = math.prod(factors) <= _MOST_CHECKED_DEVICES
    check_program(program, factors if small else (2,) * len(factors))


def check_size(size_bytes: float) -> None:
    """Check the size of a vector.

    Raises:
        ScenarioError: It is negative or not finite.
    """
    if not 0.0 <= size_bytes < np.inf:
        raise ScenarioError("<placement>", "size_bytes", size_bytes, "a finite number, at least 0")
