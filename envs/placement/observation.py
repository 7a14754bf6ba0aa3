"""Observations of a problem: tables of fixed shape, padded with zeros.

Quantities are decimal logarithms, so a factor of ten is a difference of 1. Times of actions and candidates
are natural logarithms of their ratio to the time of the default, like the reward.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.candidates import Candidates
from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.matrices import Matrix
from sysgym.emulator.accelerators.problem import PlacementProblem
from sysgym.emulator.accelerators.programs import Collective, ProgramSpace
from sysgym.envs.observations import Column, Columns
from sysgym.scenarios.schema.placement import (
    MOST_AXES,
    MOST_LEVELS,
    MOST_PROGRAM_LEVELS,
    MOST_REDUCTIONS,
)

Array = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
Observation = dict[str, Array]

COLLECTIVE_NAMES = {
    Collective.ALL_REDUCE: "all-reduces",
    Collective.REDUCE_SCATTER: "reduce-scatters",
    Collective.ALL_GATHER: "all-gathers",
    Collective.REDUCE: "reduces",
    Collective.BROADCAST: "broadcasts",
}

LARGEST = 40.0
"""Bound to which logarithms are clipped."""

MOST_HOLDERS = 2**MOST_PROGRAM_LEVELS
"""Number of devices of the smallest group that spans all levels; its state represents all groups."""

MOST_SPENT = 1e6
"""Bound to which the time spent is clipped, in multiples of the all-reduce's time."""

_LEAST_LATENCY_S = 1e-10
_LEAST_BYTES = 1.0
_LEAST_TIME_S = 1e-15


def _flag(meaning: str) -> Column:
    return Column(meaning, "0 or 1", 0.0, 1.0)


def _share(meaning: str, of: str) -> Column:
    return Column(meaning, f"share of {of}", 0.0, 1.0)


def _log10(meaning: str, unit: str = "") -> Column:
    return Column(meaning, f"log10 {unit}".strip(), -LARGEST, LARGEST)


def _ln(meaning: str, of: str) -> Column:
    return Column(meaning, f"ln of {of}", -LARGEST, LARGEST)


LEVEL_COLUMNS: Columns = {
    "exists": _flag("the system has this level"),
    "cardinality": _log10("instances inside one of the level above"),
    "bandwidth": _log10("of each uplink of an instance, one direction", "GB/s"),
    "latency": _log10("of one hop between siblings", "us"),
    "uplinks": _log10("parallel uplinks of an instance"),
    "devices": _log10("devices inside an instance"),
    "ring": _flag("siblings are joined in a ring, not by a switch"),
}
"""Columns of ``levels``, rows outermost level first."""

AXIS_COLUMNS: Columns = {
    "exists": _flag("the problem has this axis"),
    "size": _log10("its size"),
    "left": _log10("part of its size that is not placed yet"),
    "load": _share("bytes of the reductions over it", "all reductions' bytes"),
}
"""Columns of ``axes``."""

REDUCTION_COLUMNS: Columns = {
    "exists": _flag("the problem has this reduction"),
    "size": _log10("the vector on each device", "MB"),
    **{f"axis_{axis}": _flag(f"axis {axis} is reduced") for axis in range(MOST_AXES)},
}
"""Columns of ``reductions``."""

NEXT_COLUMNS: Columns = {
    **{f"level_{level}": _flag(f"the next prime is one of level {level}") for level in range(MOST_LEVELS)},
    "prime": _log10("the next prime"),
    "equal": _log10("equal primes of this level that are left, the next one included"),
    "left": _share("primes that are left, the next one included", "all primes"),
}
"""Columns of ``next``, the next decision."""

SPAN_COLUMNS: Columns = {
    "exists": _flag("the reduction spans this level"),
    "factor": _log10("members of a group at this level"),
    "bandwidth": LEVEL_COLUMNS["bandwidth"],
    "latency": LEVEL_COLUMNS["latency"],
    "sharing": _log10("reduction groups that share an uplink of an instance; below 0: uplinks to a group"),
    "ring": LEVEL_COLUMNS["ring"],
}
"""Columns of ``levels`` where a program is built: the levels that the reduction spans, outermost first."""

PROGRESS_COLUMNS: Columns = {
    "size": REDUCTION_COLUMNS["size"],
    "steps_left": Column("collectives that may still follow", "count", 0.0, LARGEST),
    "spent": Column("time of the collectives so far", "multiples of the all-reduce's time", 0.0, MOST_SPENT),
}
"""Columns of ``progress``."""

CANDIDATE_COLUMNS: Columns = {
    "exists": _flag("there is a candidate in this row"),
    "nominal": _ln("time by the nominal bandwidths", "the ratio to the default's nominal time"),
    **{
        f"level_{level}": _share(f"nominal time limited by the links of level {level}", "the nominal time")
        for level in range(MOST_LEVELS)
    },
    **{
        one.value: _share(f"nominal time that links carry {name}", "the nominal time")
        for one, name in COLLECTIVE_NAMES.items()
    },
    "latency": _share("nominal time that is latency", "the nominal time"),
    "measured": Column("number of measurements", "count", 0.0, 1e5),
    "mean": _ln("mean logarithm of the measured times; 0: none", "the ratio to the default's nominal time"),
    "sd": Column("standard deviation of these logarithms; 0: fewer than two", "ln", 0.0, LARGEST),
}
"""Columns of ``candidates``."""

BUDGET_COLUMNS: Columns = {
    "left": Column("measurements that are left", "count", 0.0, 1e5),
    "share_left": _share("the same", "the budget"),
    "price": Column("price of a measurement", "reward", 0.0, 10.0),
    "noise": Column("standard deviation of a measurement's noise", "ln", 0.0, 3.0),
    "level_error": Column(
        "standard deviation of a level's true bandwidth over the nominal one", "ln", 0.0, 3.0
    ),
    "collective_error": Column(
        "standard deviation of the share that a kind of collective reaches", "ln", 0.0, 3.0
    ),
    "background": _share("mean traffic of others on every uplink", "its bandwidth"),
    "background_sd": _share("standard deviation of the same between measurements", "the bandwidth"),
}
"""Columns of ``budget``."""


def logs_space(*shape: int) -> gym.spaces.Box:
    """Return the space of an array of logarithms."""
    return gym.spaces.Box(-LARGEST, LARGEST, shape, np.float32)


def log_ratio(time_s: Any, to_s: Any) -> Any:
    """Return the natural logarithm of a ratio of times, clipped to the bounds; 0 where both are 0.

    Args:
        time_s: Time or array of times.
        to_s: Time that it is compared with.
    """
    ratio = np.maximum(time_s, _LEAST_TIME_S) / np.maximum(to_s, _LEAST_TIME_S)
    return np.clip(np.log(ratio), -LARGEST, LARGEST)


def gigabytes(size_bytes: float) -> float:
    """Return log10 of a bandwidth in GB/s, or of a size in GB."""
    return math.log10(max(size_bytes, _LEAST_BYTES)) - 9.0


def megabytes(size_bytes: float) -> float:
    """Return log10 of a size in MB."""
    return math.log10(max(size_bytes, _LEAST_BYTES)) - 6.0


def microseconds(time_s: float) -> float:
    """Return log10 of a time in microseconds."""
    return math.log10(max(time_s, _LEAST_LATENCY_S)) + 6.0


@functools.lru_cache(maxsize=1024)
def levels_table(hierarchy: Hierarchy) -> Array:
    """Return the levels of a system as a read-only array, shape (MOST_LEVELS, columns).

    Raises:
        ValueError: If the system has more levels than the table has rows.
    """
    _fits("levels", hierarchy.n_levels, MOST_LEVELS)
    table = np.zeros((MOST_LEVELS, len(LEVEL_COLUMNS)), np.float32)
    for index, level in enumerate(hierarchy.levels):
        table[index] = (
            1.0,
            math.log10(level.cardinality),
            gigabytes(level.bandwidth_bytes_per_s),
            microseconds(level.latency_s),
            math.log10(level.uplinks),
            math.log10(hierarchy.devices_inside(index)),
            level.network == "ring",
        )
    return table


@functools.lru_cache(maxsize=1024)
def reductions_table(problem: PlacementProblem) -> Array:
    """Return the reductions of a problem as a read-only array, shape (MOST_REDUCTIONS, columns).

    Raises:
        ValueError: If the problem has more reductions or axes than the table has room for.
    """
    _fits("reductions", len(problem.reductions), MOST_REDUCTIONS)
    _fits("axes", problem.n_axes, MOST_AXES)
    table = np.zeros((MOST_REDUCTIONS, len(REDUCTION_COLUMNS)), np.float32)
    for index, reduction in enumerate(problem.reductions):
        table[index, :2] = 1.0, megabytes(reduction.size_bytes)
        table[index, [2 + axis for axis in reduction.axes]] = 1.0
    return table


def axes_table(problem: PlacementProblem, matrix: Matrix) -> Array:
    """Return the axes of a problem, shape (MOST_AXES, columns).

    Args:
        problem: The axes and reductions.
        matrix: Matrix of the factors placed so far.
    """
    table = np.zeros((MOST_AXES, len(AXIS_COLUMNS)), np.float32)
    total = sum(reduction.size_bytes for reduction in problem.reductions)
    for axis, size in enumerate(problem.axes):
        over = sum(reduction.size_bytes for reduction in problem.reductions if axis in reduction.axes)
        left = size // math.prod(matrix[axis])
        table[axis] = 1.0, math.log10(size), math.log10(left), over / total if total else 0.0
    return table


def matrix_table(matrix: Matrix) -> Array:
    """Return log10 of the factors of a matrix, shape (MOST_AXES, MOST_LEVELS)."""
    table = np.zeros((MOST_AXES, MOST_LEVELS), np.float32)
    table[: len(matrix), : len(matrix[0])] = np.log10(matrix)
    return table


def next_table(steps: Sequence[tuple[int, int]], n_chosen: int) -> Array:
    """Return the next decision, shape (columns,); zeros after the last.

    Args:
        steps: All decisions, pairs of (level, prime).
        n_chosen: Number of decisions taken.
    """
    table = np.zeros(len(NEXT_COLUMNS), np.float32)
    if n_chosen < len(steps):
        level, prime = steps[n_chosen]
        table[level] = 1.0
        table[MOST_LEVELS:] = (
            math.log10(prime),
            math.log10(steps[n_chosen:].count((level, prime))),
            1.0 - n_chosen / len(steps),
        )
    return table


def _fits(what: str, found: int, most: int) -> None:
    if found > most:
        raise ValueError(f"{found} {what}, more than the {most} that observations have room for")


def span_table(hierarchy: Hierarchy, factors: Sequence[tuple[int, int]]) -> Array:
    """Return the levels that a reduction spans, shape (MOST_PROGRAM_LEVELS, columns).

    Args:
        hierarchy: The system.
        factors: (level, factor) of the reduction, outermost first.
    """
    table = np.zeros((MOST_PROGRAM_LEVELS, len(SPAN_COLUMNS)), np.float32)
    for row, (index, factor) in enumerate(factors):
        level = hierarchy.levels[index]
        members = math.prod(inner for other, inner in factors if other > index)
        groups = hierarchy.devices_inside(index) / members
        table[row] = (
            1.0,
            math.log10(factor),
            gigabytes(level.bandwidth_bytes_per_s),
            microseconds(level.latency_s),
            math.log10(groups / level.uplinks),
            level.network == "ring",
        )
    return table


@functools.lru_cache(maxsize=8)
def holds_table(space: ProgramSpace) -> Array:
    """Return the data that devices hold in every node, shape (n_nodes, MOST_HOLDERS, MOST_HOLDERS**2).

    The array is read-only.
    """
    n_nodes, k, _ = space.states.shape
    table = np.zeros((n_nodes, MOST_HOLDERS, MOST_HOLDERS, MOST_HOLDERS), np.float32)
    table[:, :k, :k, :k] = space.states[..., None] >> np.arange(k, dtype=space.states.dtype) & 1
    return table.reshape(n_nodes, MOST_HOLDERS, MOST_HOLDERS**2)


def candidates_table(candidates: Candidates, order: IntArray, rows: int) -> Array:
    """Return the candidates as known before any measurement, shape (rows, columns).

    Args:
        candidates: K candidates.
        order: Index of the candidate in each of the first K rows.
        rows: Number of rows of the table.
    """
    times, default_s = candidates.times, float(candidates.default_times.nominal_s[0])
    table = np.zeros((rows, len(CANDIDATE_COLUMNS)), np.float32)
    n_levels = times.level_shares.shape[1]
    _fits("levels", n_levels, MOST_LEVELS)
    known = np.zeros((len(candidates), len(CANDIDATE_COLUMNS)))
    known[:, 0] = 1.0
    known[:, 1] = log_ratio(times.nominal_s, default_s)
    known[:, 2 : 2 + n_levels] = times.level_shares
    known[:, 2 + MOST_LEVELS : 2 + MOST_LEVELS + len(Collective)] = times.collective_shares
    known[:, 2 + MOST_LEVELS + len(Collective)] = times.latency_share
    table[: len(order)] = known[order]
    return table
