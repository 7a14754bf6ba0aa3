"""Placement problems: fit between problem and hierarchy."""

from __future__ import annotations

import math

import pytest

from sysgym.emulator.accelerators.cost.model import CostModel
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.scenarios.errors import ScenarioError

A100 = get_preset("p2-a100", 4)
REDUCTION = Reduction((0,), 1e9)


def test_a_problem() -> None:
    problem = PlacementProblem(A100, (4, 16), (REDUCTION, Reduction((1, 0), 5.0)))
    assert problem.n_axes == 2
    assert problem.reductions[1].axes == (0, 1)
    assert hash(problem) == hash(PlacementProblem(A100, (4, 16), problem.reductions))


def test_axes_in_another_order() -> None:
    problem = PlacementProblem(A100, (2, 4, 8), (REDUCTION, Reduction((1, 2), 5.0)))
    other = problem.reordered((2, 0, 1))
    assert other.axes == (8, 2, 4)
    assert [reduction.axes for reduction in other.reductions] == [(1,), (0, 2)]
    assert other.reordered((1, 2, 0)) == problem
    for order in [(0, 1), (0, 1, 1), (1, 2, 3)]:
        with pytest.raises(ScenarioError, match="each axis from 0 to 2 once"):
            problem.reordered(order)


@pytest.mark.parametrize(("preset", "ratio"), [("p2-v100", 1.97), ("p2-a100", 1.0), ("dgx-h100", 1.0)])
def test_on_a_ring_the_order_of_the_axes_changes_the_optimum(preset: str, ratio: float) -> None:
    """On 2 nodes axes of 2 and 8: with the small one first, its pairs meet at opposite ends of the ring."""
    system = get_preset(preset, 2)
    problem = PlacementProblem(system, (2, system.n_devices // 2), (Reduction((0,), 1.3e7),))
    times_s = [CostModel(system).best_placement(problem.reordered(order))[1] for order in [(0, 1), (1, 0)]]
    assert times_s[0] / times_s[1] == pytest.approx(ratio, abs=0.01)


def test_axes_that_do_not_fit() -> None:
    with pytest.raises(ScenarioError) as caught:
        PlacementProblem(A100, (4, 8), (REDUCTION,))
    assert caught.value.key == "axes"
    assert "4 x 8 = 32" in str(caught.value)
    assert "64, the number of devices (4 x 16)" in str(caught.value)


@pytest.mark.parametrize("size_bytes", [0.0, 1.0, 1e12])
def test_sizes_from_nothing_to_a_terabyte(size_bytes: float) -> None:
    problem = PlacementProblem(A100, (64,), (Reduction((0,), size_bytes),))
    assert problem.reductions[0].size_bytes == size_bytes


@pytest.mark.parametrize(
    ("reductions", "key", "expected"),
    [
        ((), "reductions", "at least one"),
        ((Reduction((0,), -1.0),), "reductions[0].size_bytes", "at least 0"),
        ((Reduction((0,), math.inf),), "reductions[0].size_bytes", "finite"),
        ((Reduction((0,), math.nan),), "reductions[0].size_bytes", "finite"),
        ((REDUCTION, Reduction((2,), 1.0)), "reductions[1].axes", "from 0 to 1"),
        ((Reduction((), 1.0),), "reductions[0].axes", "one or more"),
        ((Reduction((1, 1), 1.0),), "reductions[0].axes", "different axes"),
    ],
)
def test_broken_reductions(reductions: tuple[Reduction, ...], key: str, expected: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        PlacementProblem(A100, (4, 16), reductions)
    assert caught.value.key == key
    assert expected in caught.value.expected
    assert "<placement on p2-a100>" in str(caught.value)
