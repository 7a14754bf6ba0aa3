"""Speed of placement and program synthesis on one core of this machine.

A cost evaluation computes the time of one all-reduce under one placement in closed form. A synthesis solves
P2's task (Xie et al., MLSys 2022) on 1,024 devices: it finds the exact best program of up to five steps for
the reduction over every axis under every placement. Only compilation is done in advance.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sysgym.emulator.accelerators.problem import PlacementProblem

SYSTEMS: dict[str, tuple[int, ...]] = {"p2-a100 4x16": (8, 8), "16x8x8": (16, 8, 8)}
"""Name -> sizes of the axes; the second system has 1,024 devices on three levels."""

LARGEST_SYSTEM = "16x8x8"

_PLACEMENTS = 20_000
"""Number of placements evaluated in one call; the few distinct placements are repeated."""

_SIZE_BYTES = 1e9


def cost_evaluations_per_s(system: str, measured_s: float) -> float:
    """Return cost evaluations per second.

    Args:
        system: One of :data:`SYSTEMS`.
        measured_s: Minimum wall time of the measurement.
    """
    import numpy as np

    from sysgym.emulator.accelerators.cost import CostModel
    from sysgym.emulator.accelerators.matrices import enumerate_matrices

    problem = _problem(system)
    matrices = np.array(enumerate_matrices(problem.hierarchy.cardinalities, problem.axes), np.int64)
    many = np.resize(matrices, (_PLACEMENTS, *matrices.shape[1:]))
    model = CostModel(problem.hierarchy)
    model.placement_times_s(problem, matrices)
    evaluations = 0
    began_s = time.perf_counter()
    while (elapsed_s := time.perf_counter() - began_s) < measured_s:
        model.placement_times_s(problem, many)
        evaluations += len(many) * len(problem.reductions)
    return evaluations / elapsed_s


def synthesis_s(system: str) -> float:
    """Return the time to find the best program for every reduction under every placement, s.

    Args:
        system: One of :data:`SYSTEMS`.
    """
    from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
    from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction

    # Compile the code, or load it from the cache.
    pair = Hierarchy("pair", (Level("gpu", 2, 300e9, 3e-6),))
    _synthesize(PlacementProblem(pair, (2,), (Reduction((0,), _SIZE_BYTES),)))
    problem = _problem(system)
    began_s = time.perf_counter()
    _synthesize(problem)
    return time.perf_counter() - began_s


def _synthesize(problem: PlacementProblem) -> None:
    from sysgym.emulator.accelerators.cost import CostModel
    from sysgym.emulator.accelerators.matrices import enumerate_matrices, reduction_factors
    from sysgym.emulator.accelerators.programs import best_program, explore

    model, cardinalities = CostModel(problem.hierarchy), problem.hierarchy.cardinalities
    spaces = [explore((2,) * n_levels) for n_levels in range(len(cardinalities) + 1)]
    for matrix in enumerate_matrices(cardinalities, problem.axes):
        for reduction in problem.reductions:
            space = spaces[len(reduction_factors(matrix, reduction.axes))]
            best_program(space, model.edge_times_s(matrix, reduction, space))


def _problem(system: str) -> PlacementProblem:
    """Return a placement problem on a system, with a reduction of 1 GB over each axis."""
    from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
    from sysgym.emulator.accelerators.presets import get_preset
    from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction

    axes = SYSTEMS[system]
    levels = (
        Level("pod", 16, 50e9, 14e-6, uplinks=8),
        Level("node", 8, 50e9, 14e-6, uplinks=8),
        Level("gpu", 8, 450e9, 3.4e-6),
    )
    hierarchy = Hierarchy(system, levels) if system == LARGEST_SYSTEM else get_preset("p2-a100", 4)
    return PlacementProblem(
        hierarchy, axes, tuple(Reduction((axis,), _SIZE_BYTES) for axis in range(len(axes)))
    )
