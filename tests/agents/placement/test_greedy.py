"""Greedy rules, compared with results computed by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.agents.placement.greedy import inner_first
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.matrices import check_matrix, default_matrix
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction


def problem(
    axes: tuple[int, ...], *reductions: tuple[tuple[int, ...], float], nodes: int = 4
) -> PlacementProblem:
    return PlacementProblem(
        get_preset("p2-a100", nodes), axes, tuple(Reduction(*each) for each in reductions)
    )


@pytest.mark.parametrize(
    ("reductions", "expected"),
    [
        # The axis of 4 is inside a node, the other takes the other four GPUs and the nodes.
        ([((0,), 1e9)], ((1, 4), (4, 4))),
        ([((1,), 1e9)], ((4, 1), (1, 16))),
        # 2 * 3/4 * 1 GB against 2 * 15/16 * 0.7 GB, then 0.9 GB.
        ([((0,), 1e9), ((1,), 0.7e9)], ((1, 4), (4, 4))),
        ([((0,), 1e9), ((1,), 0.9e9)], ((4, 1), (1, 16))),
        # Over both axes: the second sends more, as it is larger.
        ([((0, 1), 1e9)], ((4, 1), (1, 16))),
    ],
)
def test_what_reduces_most_lies_inside(
    reductions: list[tuple[tuple[int, ...], float]], expected: tuple[tuple[int, ...], ...]
) -> None:
    assert inner_first(problem((4, 16), *reductions)) == expected


def test_axes_that_reduce_nothing_lie_as_in_the_default() -> None:
    nothing = problem((2, 8, 4), ((0,), 0.0))
    assert inner_first(nothing) == default_matrix(nothing.hierarchy.cardinalities, nothing.axes)


def test_an_axis_takes_only_the_primes_that_it_needs() -> None:
    odd = Hierarchy("odd", (Level("node", 2, 1e9, 1e-5), Level("gpu", 6, 1e11, 1e-6)))
    # An axis of 4 wants two twos: one inside, one across; the three inside is the other's.
    assert inner_first(PlacementProblem(odd, (3, 4), (Reduction((1,), 1e9),))) == ((1, 3), (2, 2))


@given(
    st.permutations([2, 4, 8]),
    st.lists(st.tuples(st.integers(0, 2), st.floats(0.0, 1e12)), min_size=1, max_size=4),
)
def test_it_is_always_a_placement(axes: list[int], reductions: list[tuple[int, float]]) -> None:
    drawn = problem(tuple(axes), *(((axis,), size) for axis, size in reductions))
    check_matrix(inner_first(drawn), drawn.hierarchy.cardinalities, drawn.axes)
