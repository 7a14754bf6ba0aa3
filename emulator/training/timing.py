"""Durations of operations as a replay needs them, from when they ran in a trace."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import FloatArray, Operations, TrainingTrace

CLOCK_ERROR_S = 0.01
"""A member of a group that ends so long before the last one starts has a wrong clock; its time is 0."""

REPEATING = 0.5
"""Largest range of a launch gap over the steps, as a share of its median."""


def durations_s(trace: TrainingTrace, graph: Graph) -> FloatArray:
    """Return the time of every operation in every step, without waiting for others, float64 [n_steps, n].

    The duration of a send, receive or collective in a trace contains the waiting for the other ranks. Its
    own time begins when the last member of its group has started.
    """
    of_places = trace.start_s[:, graph.operation_at]
    last_start = np.maximum.reduceat(of_places, graph.first_place[:-1], axis=1)
    found = trace.end_s - last_start[:, graph.group_of]
    found[found < -CLOCK_ERROR_S] = 0.0
    return found


def gaps_s(trace: TrainingTrace, graph: Graph) -> FloatArray:
    """Return the time from the last predecessor's end to every start, float64 [n_steps, n].

    An operation without predecessors has its start as its gap. Gaps can be negative by errors of clocks.
    """
    found = trace.start_s.copy()
    place_of = graph.place_of
    for operation in range(graph.n_operations):
        place = place_of[operation]
        first, stop = graph.first_predecessor[place], graph.first_predecessor[place + 1]
        if first < stop:
            before = graph.operation_at[graph.predecessors[first:stop]]
            found[:, operation] -= trace.end_s[:, before].max(axis=1)
    return found


def learned_gaps_s(trace: TrainingTrace, graph: Graph) -> FloatArray:
    """Return the launch gap of every operation, float64 [n].

    It is the median gap over the steps if that repeats itself: if the range from the 5th to the 95th
    percentile is at most half of it. A gap that varies is no launch but waiting for something that is not
    recorded, and counts as 0.
    """
    low, median, high = np.percentile(gaps_s(trace, graph), (5.0, 50.0, 95.0), axis=0)
    return np.where((median > 0.0) & (high - low <= REPEATING * median), median, 0.0)


def ideal_durations_s(operations: Operations, durations: FloatArray) -> FloatArray:
    """Return the durations without stragglers, float64 [n].

    All computations that do the same work take the mean over ranks, microbatches and steps, and such
    communications the median (Lin et al., OSDI 2025, section 3). In a pipeline, the work is the kind.
    """
    ideal = np.empty(len(operations))
    by_work = np.argsort(operations.work, kind="stable")
    bounds = np.flatnonzero(np.diff(operations.work[by_work])) + 1
    for same in np.split(by_work, bounds):
        values = durations[:, same]
        ideal[same] = values.mean() if operations.computes[same[0]] else np.median(values)
    return ideal
