"""Clocks of ranks: their offsets, from operations that must end at the same time."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np

from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import LATE_START, FloatArray, TrainingTrace

_MOST_COMPARED = 64


def clock_offsets_s(trace: TrainingTrace, graph: Graph) -> FloatArray:
    """Return by how much each rank's clock is ahead of the first rank's, float64 [n_ranks].

    The members of a group end together, but for differences of their own that are as often positive as
    negative. The offset between two ranks is estimated as the median difference of the ends of their common
    groups over all steps, those of all ranks by least squares over the pairs. Ranks that meet nobody have
    the offset 0. Of groups with more than 64 members, only neighbours are compared.
    """
    ranks = trace.operations.ranks
    number = np.searchsorted(ranks, trace.operations.rank)
    differences: dict[tuple[int, int], list[FloatArray]] = {}
    for group in graph.groups():
        members = sorted(group)
        pairs = combinations(members, 2) if len(members) <= _MOST_COMPARED else pairwise(members)
        for one, other in pairs:
            pair = (int(number[one]), int(number[other]))
            differences.setdefault(pair, []).append(trace.end_s[:, other] - trace.end_s[:, one])
    equations = np.zeros((len(differences) + 1, len(ranks)))
    medians = np.zeros(len(differences) + 1)
    for row, ((one, other), found) in enumerate(differences.items()):
        equations[row, one], equations[row, other] = -1.0, 1.0
        medians[row] = np.median(np.concatenate(found))
    equations[-1, 0] = 1.0
    return np.linalg.lstsq(equations, medians, rcond=None)[0].astype(np.float64)


def aligned(trace: TrainingTrace, offsets_s: FloatArray) -> TrainingTrace:
    """Return the trace with the offsets of its ranks' clocks removed."""
    own = offsets_s[np.searchsorted(trace.operations.ranks, trace.operations.rank)]
    start_s, end_s = trace.start_s - own, trace.end_s - own
    late = trace.operations.kind == LATE_START
    if late.any():
        # It begins when the first rank begins its step, by whose clock ever.
        start_s[:, late] = end_s[:, late].min(axis=1)[:, None]
    return replace(trace, start_s=start_s, end_s=end_s)
