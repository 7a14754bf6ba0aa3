"""Grader of lab 8, placement of collectives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sysgym.emulator.accelerators.cost.model import CostModel
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.matrices import Matrix, enumerate_matrices
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.labs.graders.answers import same_numbers, shown
from sysgym.labs.grades import Outcome, Part, Seeds
from sysgym.labs.sources import SubmissionError
from sysgym.labs.submissions import Submission
from sysgym.labs.thresholds import threshold

N_PROBLEMS = 30


def _ring(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("ring")
    cases = [
        (int(rng.integers(2, 64)), float(rng.uniform(1e6, 1e10)), float(rng.uniform(1e9, 1e12)))
        for _ in range(5)
    ]
    return same_numbers(
        submission, "ring_time_s", cases, lambda n, size, bandwidth: 2.0 * (n - 1) / n * size / bandwidth
    )


def _across(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("across")
    cases = [
        (float(rng.uniform(1e11, 4e11)), float(rng.uniform(5e9, 5e10)), int(rng.choice([4, 8, 16])))
        for _ in range(5)
    ]

    def truth(gpu: float, nic: float, groups: int) -> float:
        system = Hierarchy("two nodes", (Level("node", 2, nic, 0.0), Level("gpu", groups, gpu, 0.0)))
        model, data = CostModel(system), Reduction((0,), 1e9)
        inside, across = ((1, 2), (2, groups // 2)), ((2, 1), (1, groups))
        return model.all_reduce_time_s(across, data) / model.all_reduce_time_s(inside, data)

    return same_numbers(submission, "slower_across", cases, truth)


def _matrices(value: Any, n_axes: int, n_levels: int, what: str) -> list[Matrix]:
    """Check that an answer is a list of matrices, and return it."""
    if not isinstance(value, list):
        raise SubmissionError(f"{what}: expected a list of matrices, found {shown(value)}")
    return [_matrix(one, n_axes, n_levels, what) for one in value]


def _matrix(value: Any, n_axes: int, n_levels: int, what: str) -> Matrix:
    form = f"{what}: expected a matrix of {n_axes} rows with {n_levels} whole numbers, found {shown(value)}"
    if not isinstance(value, list) or len(value) != n_axes:
        raise SubmissionError(form)
    rows = []
    for row in value:
        if not isinstance(row, list) or len(row) != n_levels or not all(map(_is_whole, row)):
            raise SubmissionError(form)
        rows.append(tuple(int(one) for one in row))
    return tuple(rows)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _count(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("count")
    n_cases = 6
    for _ in range(n_cases):
        system, axes = _drawn(rng)
        cardinalities = list(system.cardinalities)
        call = f"placements({cardinalities}, {list(axes)})"
        answer = submission.call("placements", cardinalities, list(axes))
        found = _matrices(answer, len(axes), len(cardinalities), call)
        truth = enumerate_matrices(cardinalities, axes)
        if len(found) != len(set(found)):
            return Outcome(0.0, f"{call}: some placements are listed twice")
        if set(found) != set(truth):
            wrong = next(iter(set(found) ^ set(truth)))
            kind = "missing" if wrong in truth else "no placement"
            return Outcome(
                0.0, f"{call}: expected {len(truth)} placements, found {len(found)}; {list(wrong)} is {kind}"
            )
    return Outcome(1.0, f"all placements of {n_cases} hidden problems")


def _best(submission: Submission, seeds: Seeds) -> Outcome:
    rng = seeds.rng("best")
    regrets = []
    for _ in range(seeds.count(N_PROBLEMS)):
        system, axes = _drawn(rng)
        over = rng.permutation([axis for axis, size in enumerate(axes) if size > 1])[:2]
        reductions = tuple(Reduction((int(axis),), float(10.0 ** rng.uniform(8.0, 10.0))) for axis in over)
        problem = PlacementProblem(system, axes, reductions)
        answer = submission.call(
            "place",
            list(system.cardinalities),
            [level.bandwidth_bytes_per_s for level in system.levels],
            list(axes),
            [[list(one.axes), one.size_bytes] for one in reductions],
        )
        matrix = _matrix(answer, len(axes), system.n_levels, "place")
        times_s = _times_s(problem)
        if matrix not in times_s:
            sizes = f"levels {list(system.cardinalities)} and axes {list(axes)}"
            return Outcome(0.0, f"place: {shown(answer)} is no placement of {sizes}")
        regrets.append(math.log(times_s[matrix] / min(times_s.values())))
    mean, limit = float(np.mean(regrets)), threshold("placement-regret")
    best = sum(regret < 1e-3 for regret in regrets)
    message = (
        f"optimal in {best} of {len(regrets)} hidden problems, mean regret {mean:.3f}"
        f" (expected at most {limit.limit:.3f}); regret is ln(time / least time)"
    )
    return Outcome(float(limit.met(mean)), message, {"placement-regret": mean})


def _times_s(problem: PlacementProblem) -> dict[Matrix, float]:
    model = CostModel(problem.hierarchy)
    return {
        matrix: sum(model.all_reduce_time_s(matrix, one) for one in problem.reductions)
        for matrix in enumerate_matrices(problem.hierarchy.cardinalities, problem.axes)
    }


def _drawn(rng: np.random.Generator) -> tuple[Hierarchy, tuple[int, ...]]:
    """Draw a system with two or three levels, and two or three axes with more than one device each."""
    n_levels = int(rng.integers(2, 4))
    sizes = [int(rng.choice([2, 4, 8] if n_levels == 3 else [4, 8, 16])) for _ in range(n_levels)]
    bandwidths = np.sort(10.0 ** rng.uniform(9.7, 11.6, n_levels))
    levels = tuple(
        Level(f"level {index}", size, float(bandwidth), 1e-5)
        for index, (size, bandwidth) in enumerate(zip(sizes, bandwidths, strict=True))
    )
    exponent = round(math.log2(math.prod(sizes)))
    cuts = np.sort(rng.choice(np.arange(1, exponent), int(rng.integers(1, 3)), replace=False))
    axes = tuple(int(2**step) for step in np.diff([0, *cuts, exponent]))
    return Hierarchy("drawn", levels), axes


PARTS = (
    Part("one ring", 15, ("ring_time_s",), _ring, "2 (n - 1) / n times the vector, over the bandwidth"),
    Part("one NIC", 20, ("slower_across",), _across, "how many rings go through the NIC at once?"),
    Part(
        "count",
        25,
        ("placements",),
        _count,
        "a row is a list of divisors of the levels; recursion does the rest",
    ),
    Part(
        "best placement",
        40,
        ("place",),
        _best,
        "estimate every placement by its fullest uplink; take the least",
    ),
)
