"""Survey of P2's problem: effect of placement, effect of programs, and accuracy of the cost model's ranking.

A row is a system with axes of parallelism and the axes that are reduced; a case is a row under one placement.
Systems and axes are similar to those of P2 (Xie et al., MLSys 2022, arXiv 2110.10548): two and four nodes of
16 A100 or of 8 V100. P2 measured hardware. Here, the closed-form cost model computes the cost of programs,
and the flow-level simulation shows how well this model ranks them. The survey therefore does not repeat P2's
experiment.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import prod
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from sysgym.bench.run.pool import SAFE_IMPORTS, environment
from sysgym.bench.surveys import Page, Progress
from sysgym.emulator.accelerators.cost.model import CostModel, synthesis_space
from sysgym.emulator.accelerators.flows.collective import program_time_s
from sysgym.emulator.accelerators.matrices import Matrix, enumerate_matrices, reduction_factors
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.problem import Reduction
from sysgym.emulator.accelerators.programs import (
    enumerate_programs,
    format_program,
    program_times,
)

SIZE_BYTES = 1e9
"""Vector size for comparing placements and programs."""
RANKED_SIZES_BYTES = (1e5, 1e7, 1e9)
"""Vector sizes for comparing the model's ranking with the simulation; latency dominates small ones."""
STEPS = 5
IMPROVES = 1.02
"""Minimum speed-up for a program to count as faster than the all-reduce."""
SAME = 1e-3
"""Simulated times that differ by less than this share count as ties."""
TOPS = (1, 3, 10)

AXES: dict[tuple[str, int], tuple[tuple[int, ...], ...]] = {
    ("p2-a100", 2): ((2, 16), (4, 8), (8, 4), (16, 2), (2, 2, 8), (4, 2, 4), (8, 2, 2)),
    ("p2-a100", 4): ((4, 16), (8, 8), (16, 4), (2, 32), (4, 4, 4), (8, 2, 4), (16, 2, 2)),
    ("p2-v100", 2): ((4, 4), (8, 2), (2, 8), (4, 2, 2)),
    ("p2-v100", 4): ((8, 4), (4, 8), (16, 2), (2, 16), (8, 2, 2), (4, 4, 2)),
}
"""Axes of parallelism by preset and number of nodes."""


class Placed(NamedTuple):
    """System, reduced axes and placement, which determine the time of a reduction."""

    preset: str
    nodes: int
    reduced: tuple[int, ...]
    matrix: Matrix

    @property
    def geometry(self) -> Hashable:
        """Key that is equal for placements whose groups use the links in the same way."""
        merged: list[tuple[tuple[bool, int], ...]] = []
        for column in zip(*self.matrix, strict=True):
            digits = [(axis in self.reduced, factor) for axis, factor in enumerate(column) if factor > 1]
            runs = itertools.groupby(digits, key=lambda digit: digit[0])
            merged.append(tuple((kind, prod(factor for _, factor in run)) for kind, run in runs))
        return (self.preset, self.nodes, *merged)


@dataclass(frozen=True)
class Case:
    """Results of a reduction under one placement.

    Attributes:
        all_reduce_s: Time of a single all-reduce.
        best_s: Time of the best program.
        best: Best program as text.
        ranks: For each of the ranked sizes, rank (from 0) in the model of the program that is the fastest in
            the simulation; None if all simulated times count as ties.
        errors: For each of the ranked sizes, ratio of the model's to the simulated time, for the program that
            the model ranks first.
    """

    all_reduce_s: float
    best_s: float
    best: str
    ranks: tuple[int | None, ...]
    errors: tuple[float, ...]

    @property
    def speedup(self) -> float:
        """Time of the all-reduce divided by that of the best program."""
        return self.all_reduce_s / self.best_s


@dataclass(frozen=True)
class Row:
    """System, axes and reduced axes, with a case for every placement."""

    preset: str
    nodes: int
    axes: tuple[int, ...]
    reduced: tuple[int, ...]
    cases: tuple[Case, ...]

    @property
    def range(self) -> float:
        """Time of the slowest placement divided by that of the fastest, for a single all-reduce."""
        times_s = [case.all_reduce_s for case in self.cases]
        return max(times_s) / min(times_s)


def row_keys() -> Iterator[tuple[str, int, tuple[int, ...], tuple[int, ...]]]:
    """Yield preset, nodes, axes and reduced axes of every row: each axis, and the outer two of three."""
    for (preset, nodes), all_axes in AXES.items():
        for axes in all_axes:
            for axis in range(len(axes)):
                yield preset, nodes, axes, (axis,)
            if len(axes) > 2:
                yield preset, nodes, axes, (0, 2)


def study_case(placed: Placed) -> Case:
    """Return the results of one case."""
    hierarchy = get_preset(placed.preset, placed.nodes)
    model, matrix = CostModel(hierarchy), placed.matrix
    reduction = Reduction(placed.reduced, SIZE_BYTES)
    n_levels = len(reduction_factors(matrix, placed.reduced))
    best, best_s = model.best_program(matrix, reduction, STEPS)
    ranked = [_rank(model, placed, size_bytes) for size_bytes in RANKED_SIZES_BYTES]
    ranks, errors = zip(*ranked, strict=True)
    return Case(
        model.all_reduce_time_s(matrix, reduction), best_s, format_program(best, n_levels), ranks, errors
    )


def _rank(model: CostModel, placed: Placed, size_bytes: float) -> tuple[int | None, float]:
    reduction = Reduction(placed.reduced, size_bytes)
    space = synthesis_space(len(reduction_factors(placed.matrix, placed.reduced)), STEPS)
    programs = list(enumerate_programs(space, STEPS))
    times_s = program_times(space, model.edge_times_s(placed.matrix, reduction, space), STEPS)
    # Equal times differ in their last bits, so they are rounded; among them, shorter programs come first.
    order = sorted(range(len(programs)), key=lambda index: (float(f"{times_s[index]:.9e}"), index))
    simulated_s = [
        program_time_s(model.hierarchy, placed.matrix, reduction, programs[index]) for index in order
    ]
    fastest_s, slowest_s = min(simulated_s), max(simulated_s)
    rank = next(place for place, time_s in enumerate(simulated_s) if time_s <= fastest_s * (1.0 + SAME))
    error = float(times_s[order[0]]) / simulated_s[0]
    return (rank if slowest_s > fastest_s * (1.0 + SAME) else None), error


def survey(_folder: Path, n_workers: int, progress: Progress) -> list[Page]:
    """Compute all rows and return the tables.

    Args:
        _folder: Not used: the work is short.
        n_workers: Number of processes.
        progress: Callback with the number of finished cases and of all cases; equivalent cases are computed
            once.
    """
    placed_of_row: dict[tuple[str, int, tuple[int, ...], tuple[int, ...]], list[Placed]] = {}
    for preset, nodes, axes, reduced in row_keys():
        matrices = enumerate_matrices(get_preset(preset, nodes).cardinalities, axes)
        placed_of_row[preset, nodes, axes, reduced] = [
            Placed(preset, nodes, reduced, matrix) for matrix in matrices
        ]
    distinct = {one.geometry: one for placed in placed_of_row.values() for one in placed}
    cases: dict[Hashable, Case] = {}
    with environment(SAFE_IMPORTS), ProcessPoolExecutor(n_workers, mp_context=get_context("spawn")) as pool:
        for geometry, case in zip(distinct, pool.map(study_case, distinct.values()), strict=True):
            cases[geometry] = case
            progress(len(cases), len(distinct))
    rows = [Row(*key, tuple(cases[one.geometry] for one in placed)) for key, placed in placed_of_row.items()]
    return [summary(rows), ranking(list(cases.values())), details(rows)]


def summary(rows: Sequence[Row]) -> Page:
    """Return the figures of P2's abstract, computed from these rows, beside those of P2."""
    cases = [case for row in rows for case in row.cases]
    better = [case.speedup for case in cases if case.speedup >= IMPROVES]
    widest = max(rows, key=lambda row: row.range)
    lines = [
        ("rows (system, axes, reduced axes)", str(len(rows)), "–"),
        ("cases (row under one placement)", str(len(cases)), "–"),
        ("slowest over fastest placement, maximum", f"{widest.range:.0f} x", "448 x"),
        ("... median row", f"{median([row.range for row in rows]):.1f} x", "–"),
        ("cases in which a program beats the all-reduce", f"{100 * len(better) / len(cases):.0f} %", "69 %"),
        ("... maximum speed-up", f"{max(better):.2f} x", "2.04 x"),
        ("... mean speed-up in these cases", f"{fmean(better):.2f} x", "1.27 x"),
    ]
    text = (
        f"Vectors of {SIZE_BYTES / 1e9:g} GB, rings, programs of up to {STEPS} collectives; a program beats "
        f"the all-reduce if it is at least {IMPROVES:g} times as fast. P2's figures are from its abstract "
        "and were measured on two systems; these are from the closed-form cost model. The NIC's rate "
        "(8.4 GB/s per node) was chosen so that the range agrees with P2's: that figure is no evidence."
    )
    return Page("P2's problem", text, ("", "here", "P2 (abstract)"), tuple(lines))


def ranking(cases: Sequence[Case]) -> Page:
    """Return a table of how often the simulation's fastest program is among the model's first programs."""
    lines = []
    for index, size_bytes in enumerate(RANKED_SIZES_BYTES):
        ranked = [case.ranks[index] for case in cases]
        places = [rank for rank in ranked if rank is not None]
        errors = [case.errors[index] for case in cases]
        lines.append(
            (
                f"{size_bytes / 1e6:g} MB",
                str(len(places)),
                *(f"{100 * sum(rank < top for rank in places) / len(places):.0f} %" for top in TOPS),
                f"{min(errors):.3f} to {max(errors):.3f}",
            )
        )
    text = (
        "Cases in which the fastest program in the flow-level simulation is among the first of the "
        "closed-form model's ranking of all programs (P2: top 10 in over 90 %, its simulator against "
        "hardware); equivalent cases are counted once. Last column: ratio of the model's to the simulated "
        "time for the model's first program. Both models assume the same bandwidths, so they agree more than "
        "either would with hardware."
    )
    columns = ("vector", "cases", *(f"top {top}" for top in TOPS), "model over simulation")
    return Page("Ranking by the cost model", text, columns, tuple(lines))


def details(rows: Sequence[Row]) -> Page:
    """Return a table with one line per row."""
    lines = []
    for row in rows:
        fast = min(row.cases, key=lambda case: case.all_reduce_s)
        slow = max(row.cases, key=lambda case: case.all_reduce_s)
        gain = max(row.cases, key=lambda case: case.speedup)
        lines.append(
            (
                f"{row.nodes} x {row.preset}, {' x '.join(map(str, row.axes))}, "
                f"reduce {' and '.join(map(str, row.reduced))}",
                str(len(row.cases)),
                f"{1e3 * fast.all_reduce_s:.4g}",
                f"{1e3 * slow.all_reduce_s:.4g}",
                f"{row.range:.1f}",
                f"{sum(case.speedup >= IMPROVES for case in row.cases)}",
                f"{gain.speedup:.2f}",
                gain.best if gain.speedup >= IMPROVES else "all:AR",
            )
        )
    columns = (
        "row",
        "placements",
        "fastest (ms)",
        "slowest (ms)",
        "ratio",
        "cases improved",
        "maximum (x)",
        "by",
    )
    return Page(
        "Rows",
        "Times of a single all-reduce under the fastest and the slowest placement.",
        columns,
        tuple(lines),
    )
