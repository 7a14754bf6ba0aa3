"""Lower bounds: known values."""

from __future__ import annotations

import pytest

from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.problem import Reduction

from .lower_bounds import collective_bound_s, reduction_bound_s


def test_of_one_collective() -> None:
    assert collective_bound_s("AR", 8, 1e9, 25e9) == pytest.approx(0.07)
    assert collective_bound_s("RS", 8, 1e9, 25e9) == pytest.approx(0.035)
    assert collective_bound_s("B", 8, 1e9, 25e9) == pytest.approx(0.04)
    assert collective_bound_s("AG", 9, 0.0, 25e9, 5e-6) == pytest.approx(20e-6)
    assert collective_bound_s("A2A", 9, 0.0, 25e9, 5e-6) == pytest.approx(5e-6)
    assert collective_bound_s("AR", 1, 1e9, 25e9, 5e-6) == 0.0


@pytest.mark.parametrize("nodes", [2, 4])
@pytest.mark.parametrize("inner", [16, 8, 4, 2, 1])
def test_of_a_reduction_over_nodes_that_share_a_nic(nodes: int, inner: int) -> None:
    matrix = ((nodes, inner), (1, 16 // inner))
    bound_s = reduction_bound_s(get_preset("p2-a100", nodes), matrix, Reduction((0,), 1e9))
    n, sharing = nodes * inner, 16 // inner
    inside_s = 2 * (n - 1) / n * 1e9 / 235e9
    across_s = sharing * 2 * (nodes - 1) / nodes * 1e9 / 8.4e9
    assert bound_s == pytest.approx(max(inside_s, across_s))
    inside_only = reduction_bound_s(get_preset("p2-a100", nodes), matrix, Reduction((1,), 1e9))
    other = 16 // inner
    assert inside_only == pytest.approx(2 * (other - 1) / other * 1e9 / 235e9)


def test_of_rounds() -> None:
    system = get_preset("p2-a100", 4)
    # 32 devices: five doublings, one of them between nodes.
    assert reduction_bound_s(system, ((2, 16), (2, 1)), Reduction((0,), 0.0)) == pytest.approx(26e-6)
    assert reduction_bound_s(system, ((2, 16), (2, 1)), Reduction((1,), 0.0)) == pytest.approx(14e-6)
    assert reduction_bound_s(system, ((1, 1), (4, 16)), Reduction((0,), 1e9)) == 0.0


def test_in_a_ring_what_leaves_its_parent_may_leave_by_the_parent() -> None:
    torus = get_preset("tpu-v3", 4)
    # Down a column: a device sends 2 * 3/4 GB with 160 GB/s.
    assert reduction_bound_s(torus, ((4, 1), (1, 8)), Reduction((0,), 1e9)) == pytest.approx(1.5 / 160)
    # All 32: a device has 160 GB/s in its row, and all its row's columns to leave by; a row sends 2 * 3/4 GB
    # through its eight columns.
    assert reduction_bound_s(torus, ((4, 8),), Reduction((0,), 1e9)) == pytest.approx(
        max(2 * 31 / 32 / (160 + 8 * 160), 1.5 / (8 * 160))
    )


def test_of_a_single_device() -> None:
    assert reduction_bound_s(get_preset("single", 1), ((1,),), Reduction((0,), 1e9)) == 0.0
