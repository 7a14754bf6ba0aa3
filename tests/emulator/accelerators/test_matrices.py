"""Parallelism matrices: known counts, groups, and properties that hold for every system."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.accelerators.matrices import (
    Matrix,
    allowed_axes,
    check_matrix,
    default_matrix,
    device_coordinates,
    enumerate_matrices,
    matrix_of_steps,
    prime_steps,
    reduction_factors,
    reduction_groups,
    steps_of_matrix,
)
from sysgym.scenarios.errors import ScenarioError

COUNTS = [
    ((1, 2, 2, 4), (4, 4), 4),
    *(((2, 16), axes, 2) for axes in [(2, 16), (4, 8), (8, 4), (16, 2)]),
    *(((2, 16), axes, 3) for axes in [(2, 2, 8), (4, 2, 4), (8, 2, 2)]),
    *(((2, 8), axes, 2) for axes in [(4, 4), (8, 2), (2, 8)]),
    ((2, 8), (4, 2, 2), 3),
    *(((4, 8), axes, 3) for axes in [(8, 4), (4, 8)]),
    *(((4, 8), axes, 2) for axes in [(16, 2), (2, 16)]),
    ((4, 8), (8, 2, 2), 4),
    ((4, 8), (4, 4, 2), 5),
    ((2, 2, 8), (4, 8), 4),
    ((2, 6), (3, 4), 1),
    *(((4, 16), axes, 3) for axes in [(4, 16), (16, 4), (8, 8)]),
    ((4, 16), (2, 32), 2),
    ((4, 16), (16, 2, 2), 4),
    ((4, 16), (8, 2, 4), 5),
    ((4, 16), (4, 4, 4), 6),
    ((8, 4, 8), (32, 8), 9),
    ((8, 8, 8), (64, 8), 10),
    ((8, 8, 8), (8, 8, 8), 55),
    ((16, 8, 8), (16, 8, 8), 65),
    ((2, 3, 4), (6, 4), 2),
    ((3, 5), (5, 3), 1),
    ((4, 16), (64,), 1),
    ((1,), (1,), 1),
    ((7,), (1, 7), 1),
]

EXAMPLE = (1, 2, 2, 4)
GROUPS: dict[Matrix, tuple[list[list[int]], list[list[int]]]] = {
    ((1, 1, 1, 4), (1, 2, 2, 1)): (
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]],
        [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]],
    ),
    ((1, 1, 2, 2), (1, 2, 1, 2)): (
        [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]],
        [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15]],
    ),
    ((1, 2, 1, 2), (1, 1, 2, 2)): (
        [[0, 2, 8, 10], [1, 3, 9, 11], [4, 6, 12, 14], [5, 7, 13, 15]],
        [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]],
    ),
    ((1, 2, 2, 1), (1, 1, 1, 4)): (
        [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]],
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]],
    ),
}


@st.composite
def placements(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Levels, and axes of the same number of devices."""
    levels = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4).filter(lambda x: math.prod(x) <= 512))
    n_axes = draw(st.integers(1, 4))
    axes = [1] * n_axes
    for _, prime in prime_steps(levels):
        axes[draw(st.integers(0, n_axes - 1))] *= prime
    return tuple(levels), tuple(axes)


def brute_force(cardinalities: Sequence[int], axes: Sequence[int]) -> list[Matrix]:
    """Every table of numbers up to the cardinalities, kept if all products are right."""
    shape = [range(1, cardinality + 1) for _ in axes for cardinality in cardinalities]
    found = []
    for entries in itertools.product(*shape):
        rows = tuple(tuple(row) for row in np.reshape(entries, (len(axes), -1)).tolist())
        columns_fit = all(
            math.prod(column) == cardinality
            for column, cardinality in zip(zip(*rows, strict=True), cardinalities, strict=True)
        )
        if columns_fit and all(math.prod(row) == size for row, size in zip(rows, axes, strict=True)):
            found.append(rows)
    return sorted(found)


def sequences(
    cardinalities: Sequence[int], axes: Sequence[int], chosen: tuple[int, ...] = ()
) -> Iterator[tuple[int, ...]]:
    """Yield all that following the mask can lead to."""
    allowed = allowed_axes(cardinalities, axes, chosen)
    if len(chosen) == len(prime_steps(cardinalities)):
        assert not allowed.any()
        yield chosen
        return
    assert allowed.any(), f"a dead end after {chosen}"
    for axis in np.flatnonzero(allowed):
        yield from sequences(cardinalities, axes, (*chosen, int(axis)))


@pytest.mark.parametrize(("cardinalities", "axes", "count"), COUNTS)
def test_known_counts(cardinalities: tuple[int, ...], axes: tuple[int, ...], count: int) -> None:
    matrices = enumerate_matrices(cardinalities, axes)
    assert len(matrices) == count
    assert matrices == sorted(set(matrices))
    for matrix in matrices:
        check_matrix(matrix, cardinalities, axes)


def test_the_four_matrices_of_the_example() -> None:
    assert enumerate_matrices(EXAMPLE, (4, 4)) == list(GROUPS)


@pytest.mark.parametrize(
    ("cardinalities", "axes"),
    [((1, 2, 2, 4), (4, 4)), ((2, 6), (3, 4)), ((2, 3, 4), (6, 4)), ((4, 6), (2, 4, 3)), ((12,), (2, 6))],
)
def test_enumeration_is_what_brute_force_finds(cardinalities: Sequence[int], axes: Sequence[int]) -> None:
    assert enumerate_matrices(cardinalities, axes) == brute_force(cardinalities, axes)


@pytest.mark.parametrize("matrix", GROUPS)
@pytest.mark.parametrize("axis", [0, 1])
def test_groups_of_the_example(matrix: Matrix, axis: int) -> None:
    assert reduction_groups(EXAMPLE, matrix, (axis,)).tolist() == GROUPS[matrix][axis]
    assert reduction_groups(EXAMPLE, matrix, (0, 1)).tolist() == [list(range(16))]


def test_coordinates_of_the_example() -> None:
    coordinates = device_coordinates(EXAMPLE, ((1, 1, 2, 2), (1, 2, 1, 2)))
    assert coordinates.shape == (16, 2)
    assert coordinates.dtype == np.int32
    # Device 13 is server 1, CPU 1, GPU 1: digits (0,1), (1,0), (0,1) of axes 0 and 1.
    assert coordinates[13].tolist() == [2, 3]
    # A group along axis 0 has its members in the order of their index there.
    assert coordinates[[0, 2, 4, 6], 0].tolist() == [0, 1, 2, 3]


@settings(deadline=None)
@given(placements())
def test_products_of_rows_and_columns(placement: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    cardinalities, axes = placement
    matrices = enumerate_matrices(cardinalities, axes)
    assert matrices == sorted(set(matrices))
    assert default_matrix(cardinalities, axes) in matrices
    for matrix in matrices:
        assert tuple(math.prod(row) for row in matrix) == axes
        assert tuple(math.prod(column) for column in zip(*matrix, strict=True)) == cardinalities


@settings(deadline=None, max_examples=60)
@given(placements(), st.data())
def test_groups_partition_the_devices(
    placement: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject
) -> None:
    cardinalities, axes = placement
    matrix = data.draw(st.sampled_from(enumerate_matrices(cardinalities, axes)))
    reduced = data.draw(st.sets(st.integers(0, len(axes) - 1), min_size=1))
    groups = reduction_groups(cardinalities, matrix, tuple(reduced))
    others = [size for axis, size in enumerate(axes) if axis not in reduced]
    assert groups.shape == (math.prod(others), math.prod(axes[axis] for axis in reduced))
    assert groups.dtype == np.int32
    assert sorted(groups.ravel().tolist()) == list(range(math.prod(cardinalities)))
    assert (np.diff(groups, axis=1) > 0).all()  # Member order is the order of the ids.
    assert (np.diff(groups[:, 0]) > 0).all()
    coordinates = device_coordinates(cardinalities, matrix)
    for axis, size in enumerate(axes):
        inside = coordinates[groups, axis]
        if axis not in reduced:
            assert (inside == inside[:, :1]).all()
        assert set(coordinates[:, axis].tolist()) == set(range(size))
    # No two devices have the same place in the grid of the axes.
    assert len({tuple(row) for row in coordinates.tolist()}) == len(coordinates)
    factors = reduction_factors(matrix, tuple(reduced))
    assert math.prod(factor for _, factor in factors) == groups.shape[1]
    assert [level for level, _ in factors] == sorted({level for level, _ in factors})
    assert all(factor > 1 for _, factor in factors)


@settings(deadline=None, max_examples=60)
@given(placements(), st.data())
def test_members_are_mixed_radix_over_the_levels(
    placement: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject
) -> None:
    """Inside an instance of a level a group has as many members as the factors further in say."""
    cardinalities, axes = placement
    matrix = data.draw(st.sampled_from(enumerate_matrices(cardinalities, axes)))
    axis = data.draw(st.integers(0, len(axes) - 1))
    groups = reduction_groups(cardinalities, matrix, (axis,))
    for level in range(len(cardinalities)):
        inside, members = math.prod(cardinalities[level + 1 :]), math.prod(matrix[axis][level + 1 :])
        instances = groups // inside
        assert (instances.reshape(len(groups), -1, members) == instances[:, ::members, None]).all()
        assert all(len(set(row)) == groups.shape[1] // members for row in instances.tolist())


@settings(deadline=None, max_examples=60)
@given(placements())
def test_sequences_of_primes_are_in_bijection_with_the_matrices(
    placement: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    cardinalities, axes = placement
    found = list(sequences(cardinalities, axes))
    built = [matrix_of_steps(cardinalities, len(axes), chosen) for chosen in found]
    assert sorted(built) == enumerate_matrices(cardinalities, axes)
    assert [steps_of_matrix(matrix) for matrix in built] == found


def test_steps_of_a_system() -> None:
    assert prime_steps((4, 6, 1, 7)) == ((0, 2), (0, 2), (1, 2), (1, 3), (3, 7))
    assert prime_steps((1,)) == ()
    assert list(sequences((1,), (1, 1))) == [()]
    assert matrix_of_steps((4, 6), 2, (1, 0)) == ((2, 1), (2, 1))


def test_equal_primes_do_not_go_back() -> None:
    # One of the two factors of the node must stay for axis 0, and it comes first.
    assert allowed_axes((4, 1), (2, 2), ()).tolist() == [True, False]
    assert allowed_axes((4, 1), (2, 2), (0,)).tolist() == [False, True]


@pytest.mark.parametrize("chosen", [(2,), (-1,), (0, 0)])
def test_a_choice_that_no_axis_can_take(chosen: tuple[int, ...]) -> None:
    with pytest.raises(ScenarioError, match="an axis that still needs the factor 2"):
        allowed_axes((4,), (2, 2), chosen)


@pytest.mark.parametrize(
    ("cardinalities", "axes", "matrix"),
    [
        ((4, 16), (4, 16), ((4, 1), (1, 16))),
        ((4, 16), (16, 4), ((4, 4), (1, 4))),
        ((4, 16), (2, 2, 16), ((2, 1), (2, 1), (1, 16))),
        ((2, 16), (4, 8), ((2, 2), (1, 8))),
        ((2, 3, 4), (6, 4), ((2, 3, 1), (1, 1, 4))),
        ((2, 6), (3, 4), ((1, 3), (2, 2))),
        ((1, 2, 2, 4), (4, 4), ((1, 2, 2, 1), (1, 1, 1, 4))),
        ((1,), (1,), ((1,),)),
    ],
)
def test_default_puts_the_last_axis_innermost(
    cardinalities: tuple[int, ...], axes: tuple[int, ...], matrix: Matrix
) -> None:
    assert default_matrix(cardinalities, axes) == matrix


def test_factors_of_several_axes_are_collapsed() -> None:
    matrix = ((2, 1, 2), (1, 1, 2), (2, 3, 1))
    assert reduction_factors(matrix, (0,)) == ((0, 2), (2, 2))
    assert reduction_factors(matrix, (0, 1)) == ((0, 2), (2, 4))
    assert reduction_factors(matrix, (2, 1, 0)) == ((0, 4), (1, 3), (2, 4))
    assert reduction_factors(((1, 1),), (0,)) == ()


@pytest.mark.parametrize(
    ("cardinalities", "axes", "key", "expected"),
    [
        ((4, 16), (4, 8), "axes", "product is 64, the number of devices (4 x 16)"),
        ((4, 16), (4, 32), "axes", "product is 64"),
        ((4, 0), (4,), "levels", "each at least 1"),
        ((4, -2), (4,), "levels", "each at least 1"),
        ((), (1,), "levels", "one or more"),
        ((4,), (), "axes", "one or more"),
        ((4,), (0, 4), "axes", "each at least 1"),
        ((4,), (-2, -2), "axes", "each at least 1"),
    ],
)
def test_axes_that_do_not_fit(
    cardinalities: tuple[int, ...], axes: tuple[int, ...], key: str, expected: str
) -> None:
    for function in (enumerate_matrices, default_matrix):
        with pytest.raises(ScenarioError) as caught:
            function(cardinalities, axes)
        assert caught.value.key == key
        assert expected in caught.value.expected


def test_the_message_names_both_products() -> None:
    with pytest.raises(ScenarioError) as caught:
        enumerate_matrices((4, 16), (4, 8))
    assert "4 x 8 = 32" in str(caught.value)
    assert "64, the number of devices (4 x 16)" in str(caught.value)


@pytest.mark.parametrize(
    ("matrix", "key", "expected"),
    [
        (((4, 1),), "matrix", "2 rows (axes) of 2 numbers (levels)"),
        (((4,), (1,)), "matrix", "2 rows (axes) of 2 numbers"),
        (((4, 1), (1, 8)), "matrix[1]", "product is 16, the size of axis 1"),
        (((1, 4), (1, 16)), "matrix, column 0", "product is 4, the cardinality of level 0"),
        (((4, 1), (-1, -16)), "matrix[1]", "at least 1"),
    ],
)
def test_a_matrix_that_does_not_fit(matrix: Matrix, key: str, expected: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        check_matrix(matrix, (4, 16), (4, 16))
    assert caught.value.key == key
    assert expected in caught.value.expected


@pytest.mark.parametrize("reduce_axes", [(), (2,), (-1,), (0, 0)])
def test_axes_that_cannot_be_reduced(reduce_axes: tuple[int, ...]) -> None:
    matrix = ((4, 1), (1, 16))
    with pytest.raises(ScenarioError, match="different axes from 0 to 1"):
        reduction_groups((4, 16), matrix, reduce_axes)
    with pytest.raises(ScenarioError, match="different axes from 0 to 1"):
        reduction_factors(matrix, reduce_axes)


def test_a_thousand_devices() -> None:
    matrices = enumerate_matrices((16, 8, 8), (16, 8, 8))
    for matrix in matrices:
        assert reduction_groups((16, 8, 8), matrix, (0,)).shape == (64, 16)
