"""Lower bounds on the times of collectives, by what must leave an instance and by rounds."""

from __future__ import annotations

import math
from collections.abc import Callable

from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.matrices import Matrix, check_matrix, reduction_factors
from sysgym.emulator.accelerators.problem import Reduction
from sysgym.emulator.accelerators.programs.patterns import Collective

from .closed_forms import ALL_TO_ALL, ceil_log2

_SENT_FRACTIONS: dict[str, Callable[[int], float]] = {
    Collective.ALL_REDUCE: lambda n: 2 * (n - 1) / n,
    Collective.REDUCE_SCATTER: lambda n: (n - 1) / n,
    Collective.ALL_GATHER: lambda n: (n - 1) / n,
    Collective.REDUCE: lambda n: 1.0,
    Collective.BROADCAST: lambda n: 1.0,
    ALL_TO_ALL: lambda n: (n - 1) / n,
}


def collective_bound_s(
    collective: str, n: int, size_bytes: float, bandwidth_bytes_per_s: float, latency_s: float = 0.0
) -> float:
    """Return the least time of a collective among n ranks that are all alike.

    Some rank must send (n-1)/n of the vector, twice that for an all-reduce, all of it for Reduce and
    Broadcast; and what one rank knows reaches at most twice as many in a round.

    Args:
        collective: ``AR``, ``RS``, ``AG``, ``R``, ``B`` or ``A2A``.
        n: Ranks, at least 1.
        size_bytes: Of the full vector.
        bandwidth_bytes_per_s: Of each rank and direction.
        latency_s: Of a round.
    """
    factor = _SENT_FRACTIONS[collective](n)
    if n == 1:
        return 0.0
    rounds = 1 if collective == ALL_TO_ALL else ceil_log2(n)
    return max(factor * size_bytes / bandwidth_bytes_per_s, rounds * latency_s)


def reduction_bound_s(hierarchy: Hierarchy, matrix: Matrix, reduction: Reduction) -> float:
    """Return the least time of a reduction under a placement, whatever the program.

    An all-reduce over a instances of a level makes one of them send 2 (a-1)/a of the vector for each of the
    groups that share it, through all of its uplinks. Rounds: as many as the doublings that reach all members,
    at least one of them at the outermost level of a group. From a ring's instance a group that spans the
    ring's parent may also leave by the uplinks further out; they count as its own.

    Args:
        hierarchy: The devices and their links.
        matrix: The placement.
        reduction: Axes and size.

    Raises:
        ScenarioError: The matrix or the axes do not fit.
    """
    check_matrix(matrix, hierarchy.cardinalities, [math.prod(row) for row in matrix])
    factors = dict(reduction_factors(matrix, reduction.axes))
    if not factors:
        return 0.0
    n, outermost = math.prod(factors.values()), min(factors)
    inner_latency_s = min(hierarchy.levels[level].latency_s for level in factors)
    latency_s = hierarchy.levels[outermost].latency_s + (ceil_log2(n) - 1) * inner_latency_s
    bound_s, inside = latency_s, 1
    for level in reversed(range(outermost, hierarchy.n_levels)):
        instances = n // inside
        sharing = hierarchy.devices_inside(level) // inside
        sent_bytes = sharing * 2.0 * (instances - 1) / instances * reduction.size_bytes
        bound_s = max(bound_s, sent_bytes / _capacity_bytes_per_s(hierarchy, level, outermost))
        inside *= factors.get(level, 1)
    return bound_s


def _capacity_bytes_per_s(hierarchy: Hierarchy, level: int, outermost: int) -> float:
    """Return what the uplinks of an instance can send together, to siblings and further out."""
    capacity = 0.0
    for further in range(level, outermost - 1, -1):
        uplinks = hierarchy.levels[further]
        capacity += uplinks.uplinks * uplinks.bandwidth_bytes_per_s
        if uplinks.network == "switch":
            break
    return capacity
