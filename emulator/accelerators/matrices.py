"""Parallelism matrices: placements of axes of parallelism on the levels of a hierarchy.

A matrix has a row for each axis and a column for each level. Its entries are positive whole numbers: the
product over a column is the level's cardinality, the product over a row the axis's size. Inside level j a
device's index is mixed radix over the column, axis 0 most significant; its index along an axis is mixed radix
over the levels, outermost most significant. The matrices are those of P2's problem (Xie et al., MLSys 2022);
the order of digits inside a level is our convention.

A matrix therefore places the axes only together with their order: of an axis of 2 and one of 4 on a ring of
8 devices, the first reduces between devices at opposite ends, the second between neighbours, and with the
axes named the other way round it is the opposite. An optimum is the best of the matrices in one order, not of
all assignments of devices; :meth:`~.problem.PlacementProblem.reordered` gives the problem in another order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.errors import ScenarioError

Matrix = tuple[tuple[int, ...], ...]
"""Rows are axes, columns are levels."""

Step = tuple[int, int]
"""A level and one prime factor of its cardinality."""


def enumerate_matrices(cardinalities: Sequence[int], axes: Sequence[int]) -> list[Matrix]:
    """Return all matrices of these levels and axes, sorted.

    The search has no dead ends: for every prime, the levels hold as many factors as the axes need, so any
    divisor of the rest of each axis can be completed.

    Args:
        cardinalities: Cardinality of each level, outermost first.
        axes: Sizes of the axes.

    Raises:
        ScenarioError: A number is not positive, or the products differ.
    """
    check_axes(cardinalities, axes)
    columns = _columns(tuple(cardinalities), tuple(axes))
    return sorted(tuple(zip(*matrix, strict=True)) for matrix in columns)


def default_matrix(cardinalities: Sequence[int], axes: Sequence[int]) -> Matrix:
    """Return the matrix of the axes in the order given, the last axis innermost.

    For every prime, the innermost levels are filled from the last axis first. Where the axes need not share
    levels this is the usual order of ranks, in which neighbours differ in the last axis.

    Args:
        cardinalities: Cardinality of each level, outermost first.
        axes: Sizes of the axes.

    Raises:
        ScenarioError: A number is not positive, or the products differ.
    """
    check_axes(cardinalities, axes)
    left = list(axes)
    matrix = [[1] * len(cardinalities) for _ in axes]
    for level in reversed(range(len(cardinalities))):
        for prime in reversed(_primes(cardinalities[level])):
            axis = max(axis for axis, size in enumerate(left) if size % prime == 0)
            left[axis] //= prime
            matrix[axis][level] *= prime
    return tuple(map(tuple, matrix))


def check_axes(cardinalities: Sequence[int], axes: Sequence[int]) -> None:
    """Check that axes fit the levels.

    Args:
        cardinalities: Cardinality of each level, outermost first.
        axes: Sizes of the axes.

    Raises:
        ScenarioError: There are no axes, a number is not positive, or the products differ.
    """
    for key, sizes in (("levels", cardinalities), ("axes", axes)):
        if not sizes or any(size < 1 for size in sizes):
            raise ScenarioError("<placement>", key, list(sizes), "one or more whole numbers, each at least 1")
    devices, product = math.prod(cardinalities), math.prod(axes)
    if devices != product:
        raise ScenarioError(
            "<placement>",
            "axes",
            f"{_times(axes)} = {product}",
            f"axes whose product is {devices}, the number of devices ({_times(cardinalities)})",
        )


def check_matrix(matrix: Matrix, cardinalities: Sequence[int], axes: Sequence[int]) -> None:
    """Check that a matrix places these axes on these levels.

    Args:
        matrix: Rows are axes, columns are levels.
        cardinalities: Cardinality of each level, outermost first.
        axes: Sizes of the axes.

    Raises:
        ScenarioError: The shape, an entry or a product is wrong; names the row or column.
    """
    check_axes(cardinalities, axes)
    if len(matrix) != len(axes) or any(len(row) != len(cardinalities) for row in matrix):
        expected = f"{len(axes)} rows (axes) of {len(cardinalities)} numbers (levels)"
        raise ScenarioError("<placement>", "matrix", [list(row) for row in matrix], expected)
    for axis, row in enumerate(matrix):
        key = f"matrix[{axis}]"
        if any(factor < 1 for factor in row):
            raise ScenarioError("<placement>", key, list(row), "factors of at least 1")
        if math.prod(row) != axes[axis]:
            expected = f"a row whose product is {axes[axis]}, the size of axis {axis}"
            raise ScenarioError("<placement>", key, f"{_times(row)} = {math.prod(row)}", expected)
    for level, column in enumerate(zip(*matrix, strict=True)):
        if math.prod(column) != cardinalities[level]:
            raise ScenarioError(
                "<placement>",
                f"matrix, column {level}",
                f"{_times(column)} = {math.prod(column)}",
                f"a column whose product is {cardinalities[level]}, the cardinality of level {level}",
            )


def device_coordinates(cardinalities: Sequence[int], matrix: Matrix) -> NDArray[np.int32]:
    """Return every device's index along every axis, int32 [n_devices, n_axes].

    Args:
        cardinalities: Cardinality of each level, outermost first.
        matrix: Rows are axes, columns are levels.

    Raises:
        ScenarioError: The matrix does not fit the levels.
    """
    digits = _digits(cardinalities, matrix)
    coordinates = np.zeros((digits.shape[0], len(matrix)), np.int32)
    for level in range(len(cardinalities)):
        for axis, row in enumerate(matrix):
            coordinates[:, axis] = coordinates[:, axis] * row[level] + digits[:, level, axis]
    return coordinates


def reduction_groups(
    cardinalities: Sequence[int], matrix: Matrix, reduce_axes: Sequence[int]
) -> NDArray[np.int32]:
    """Return the groups of devices that reduce with each other, int32 [n_groups, group_size].

    A group holds the devices that agree in every axis but the reduced ones. Its members are in the order of
    their digits of the reduced axes, outermost level first, which is the order of their ids; groups are in
    the order of their first members.

    Args:
        cardinalities: Cardinality of each level, outermost first.
        matrix: Rows are axes, columns are levels.
        reduce_axes: Indices of the axes that are reduced.

    Raises:
        ScenarioError: The matrix does not fit the levels, or there is no such axis.
    """
    reduced = check_reduce_axes(len(matrix), reduce_axes)
    coordinates = device_coordinates(cardinalities, matrix)
    sizes = [math.prod(row) for row in matrix]
    group = np.zeros(len(coordinates), np.int64)
    for axis, size in enumerate(sizes):
        if axis not in reduced:
            group = group * size + coordinates[:, axis]
    members = math.prod(sizes[axis] for axis in reduced)
    # A stable sort keeps ids inside a group in ascending order.
    groups = np.argsort(group, kind="stable").reshape(-1, members)
    return np.ascontiguousarray(groups[np.argsort(groups[:, 0])], np.int32)


def reduction_factors(matrix: Matrix, reduce_axes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the hierarchy that a reduction group spans, as (level, factor), outermost first.

    Factors of one level are multiplied over the reduced axes, and factors of 1 are left out. Programs are
    synthesized on this hierarchy. The product of the factors is the size of a group.

    Args:
        matrix: Rows are axes, columns are levels.
        reduce_axes: Indices of the axes that are reduced.

    Raises:
        ScenarioError: There is no such axis.
    """
    reduced = check_reduce_axes(len(matrix), reduce_axes)
    factors = [math.prod(column) for column in zip(*(matrix[axis] for axis in reduced), strict=True)]
    return tuple((level, factor) for level, factor in enumerate(factors) if factor > 1)


def check_reduce_axes(n_axes: int, reduce_axes: Sequence[int]) -> tuple[int, ...]:
    """Return the reduced axes in ascending order.

    Args:
        n_axes: Number of axes.
        reduce_axes: Indices of the axes that are reduced.

    Raises:
        ScenarioError: There are no axes, an axis is given twice, or an axis does not exist.
    """
    axes = tuple(sorted(reduce_axes))
    if not axes or len(set(axes)) < len(axes) or axes[0] < 0 or axes[-1] >= n_axes:
        expected = f"one or more different axes from 0 to {n_axes - 1}"
        raise ScenarioError("<placement>", "reduce_axes", list(reduce_axes), expected)
    return axes


def prime_steps(cardinalities: Sequence[int]) -> tuple[Step, ...]:
    """Return (level, prime) for every prime factor of every level, outermost level first, primes ascending.

    Assigning them to axes one by one builds a matrix; see :func:`allowed_axes`.

    Args:
        cardinalities: Cardinality of each level, outermost first.
    """
    return tuple((level, prime) for level, size in enumerate(cardinalities) for prime in _primes(size))


def allowed_axes(
    cardinalities: Sequence[int], axes: Sequence[int], chosen: Sequence[int]
) -> NDArray[np.bool_]:
    """Return which axes the next prime may go to, bool [n_axes]; none after the last prime.

    An axis may take a prime that divides its remaining size. Equal primes of one level go to axes in
    non-descending order, and an axis is allowed only if it and the axes after it can take the remaining equal
    primes. Therefore every sequence ends in a matrix, and every matrix has exactly one sequence.

    Args:
        cardinalities: Cardinality of each level, outermost first.
        axes: Sizes of the axes.
        chosen: The axis of each of the first steps of :func:`prime_steps`.

    Raises:
        ScenarioError: The choices so far do not divide the axes' sizes.
    """
    steps = prime_steps(cardinalities)
    allowed = np.zeros(len(axes), np.bool_)
    left = _left(axes, steps, chosen)
    if len(chosen) >= len(steps):
        return allowed
    step = steps[len(chosen)]
    equal = steps[len(chosen) :].count(step)
    first = chosen[-1] if chosen and steps[len(chosen) - 1] == step else 0
    room = 0
    for axis in reversed(range(first, len(axes))):
        multiplicity = _multiplicity(left[axis], step[1])
        room += multiplicity
        allowed[axis] = multiplicity > 0 and room >= equal
    return allowed


def matrix_of_steps(cardinalities: Sequence[int], n_axes: int, chosen: Sequence[int]) -> Matrix:
    """Return the matrix in which each prime of :func:`prime_steps` is on the axis chosen for it.

    Primes without a choice yet are left out, so a shorter sequence gives an incomplete matrix.

    Args:
        cardinalities: Cardinality of each level, outermost first.
        n_axes: Number of axes.
        chosen: The axis of each of the first steps.
    """
    matrix = [[1] * len(cardinalities) for _ in range(n_axes)]
    for (level, prime), axis in zip(prime_steps(cardinalities), chosen, strict=False):
        matrix[axis][level] *= prime
    return tuple(map(tuple, matrix))


def steps_of_matrix(matrix: Matrix) -> tuple[int, ...]:
    """Return the axis of each step of :func:`prime_steps` that builds a matrix.

    Args:
        matrix: Rows are axes, columns are levels.
    """
    chosen: list[int] = []
    for column in zip(*matrix, strict=True):
        primes = [(prime, axis) for axis, factor in enumerate(column) for prime in _primes(factor)]
        chosen += [axis for _, axis in sorted(primes)]
    return tuple(chosen)


def _columns(cardinalities: tuple[int, ...], axes: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    if not cardinalities:
        yield ()
        return
    for column in _factorisations(cardinalities[0], axes):
        rest = tuple(size // factor for size, factor in zip(axes, column, strict=True))
        for columns in _columns(cardinalities[1:], rest):
            yield (column, *columns)


@functools.lru_cache(maxsize=4096)
def _factorisations(number: int, limits: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the ordered factorisations of a number whose factors divide the limits."""
    if not limits:
        return ((),) if number == 1 else ()
    shared = math.gcd(number, limits[0])
    return tuple(
        (factor, *rest)
        for factor in range(1, shared + 1)
        if shared % factor == 0
        for rest in _factorisations(number // factor, limits[1:])
    )


def _digits(cardinalities: Sequence[int], matrix: Matrix) -> NDArray[np.int32]:
    """Return every device's digit of every level and axis, int32 [n_devices, n_levels, n_axes]."""
    check_matrix(matrix, cardinalities, [math.prod(row) for row in matrix])
    radices = [row[level] for level in range(len(cardinalities)) for row in matrix]
    digits = np.unravel_index(np.arange(math.prod(cardinalities)), radices)
    return np.stack(digits, axis=-1).astype(np.int32).reshape(-1, len(cardinalities), len(matrix))


def _left(axes: Sequence[int], steps: Sequence[Step], chosen: Sequence[int]) -> list[int]:
    left = list(axes)
    for index, ((_, prime), axis) in enumerate(zip(steps, chosen, strict=False)):
        if not 0 <= axis < len(left) or left[axis] % prime:
            expected = f"an axis that still needs the factor {prime}"
            raise ScenarioError("<placement>", f"step {index}", axis, expected)
        left[axis] //= prime
    return left


@functools.lru_cache(maxsize=4096)
def _primes(number: int) -> tuple[int, ...]:
    """Return the prime factors of a positive number, ascending, with repetition."""
    primes, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            primes.append(divisor)
            number //= divisor
        divisor += 1
    return (*primes, number) if number > 1 else tuple(primes)


def _multiplicity(number: int, prime: int) -> int:
    return _primes(number).count(prime)


def _times(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))
