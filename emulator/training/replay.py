"""Replay of a step: when every operation runs if it takes a given time, compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import BoolArray, FloatArray, IntArray


class Replayed(NamedTuple):
    """Times of a replayed step.

    Attributes:
        start_s: Start of each operation, float64 [n].
        end_s: End, likewise.
        slack_s: By how much each operation could last longer without a longer step, likewise.
        critical_path: Operations of a critical path, first to last, int64. Each starts when the one before
            it ends; of a group that meets, the path has the last member to start, and the member whose end
            is waited for.
    """

    start_s: FloatArray
    end_s: FloatArray
    slack_s: FloatArray
    critical_path: IntArray

    @property
    def step_s(self) -> float:
        """Time of the step."""
        return float(self.end_s.max())

    @property
    def critical(self) -> BoolArray:
        """Whether each operation is on the critical path, bool [n]."""
        marked = np.zeros(len(self.end_s), np.bool_)
        marked[self.critical_path] = True
        return marked


def replay(graph: Graph, duration_s: FloatArray, gap_s: FloatArray | None = None) -> Replayed:
    """Replay one step.

    Args:
        graph: Dependencies of the n operations.
        duration_s: Time of each operation; of a member of a group, from the last member's start to its own
            end. float64 [n].
        gap_s: Time from the end of an operation's last predecessor to its start; None: 0.
    """
    order = graph.operation_at
    gap_s = np.zeros(graph.n_operations) if gap_s is None else gap_s
    durations, gaps = duration_s[order], gap_s[order]
    start_s, end_s = np.empty(len(order)), np.empty(len(order))
    _run(graph.first_place, graph.first_predecessor, graph.predecessors, durations, gaps, start_s, end_s)
    slack_s = np.empty(len(order))
    _slack(
        graph.first_place, graph.first_predecessor, graph.predecessors, durations, gaps, end_s.max(), end_s,
        slack_s,
    )  # fmt: skip
    path = np.empty(2 * len(order), np.int64)
    length = _trace_back(graph.first_place, graph.first_predecessor, graph.predecessors, start_s, end_s, path)
    back = graph.place_of
    return Replayed(start_s[back], end_s[back], slack_s[back], order[path[:length][::-1]])


def step_times_s(graph: Graph, duration_s: FloatArray, gap_s: FloatArray | None = None) -> FloatArray:
    """Return the times of many steps, float64 [n_cases].

    Args:
        graph: Dependencies of the n operations.
        duration_s: Times of the operations in each case, float64 [n_cases, n].
        gap_s: Gaps before the operations, the same in all cases, float64 [n]; None: 0.
    """
    gap_s = np.zeros(graph.n_operations) if gap_s is None else gap_s
    step_s = np.empty(len(duration_s))
    _run_many(
        graph.operation_at, graph.first_place, graph.first_predecessor, graph.predecessors,
        np.ascontiguousarray(duration_s), gap_s[graph.operation_at], step_s,
    )  # fmt: skip
    return step_s


@cached_kernel()
def _run(
    first_place: Any, first_predecessor: Any, predecessors: Any, durations: Any, gaps: Any, starts: Any,
    ends: Any,
) -> Any:  # fmt: skip
    """Set starts and ends, all in the order of places."""
    for group in range(len(first_place) - 1):
        last_start = 0.0
        for place in range(first_place[group], first_place[group + 1]):
            ready = 0.0
            for edge in range(first_predecessor[place], first_predecessor[place + 1]):
                ready = max(ready, ends[predecessors[edge]])
            starts[place] = ready + gaps[place]
            last_start = max(last_start, starts[place])
        for place in range(first_place[group], first_place[group + 1]):
            ends[place] = last_start + durations[place]


@cached_kernel()
def _run_many(
    operation_at: Any, first_place: Any, first_predecessor: Any, predecessors: Any, durations: Any, gaps: Any,
    step_s: Any,
) -> Any:  # fmt: skip
    """Set the time of the step in every case."""
    n = len(operation_at)
    of_case, starts, ends = np.empty(n), np.empty(n), np.empty(n)
    for case in range(len(step_s)):
        for place in range(n):
            of_case[place] = durations[case, operation_at[place]]
        _run(first_place, first_predecessor, predecessors, of_case, gaps, starts, ends)
        step_s[case] = ends.max()


@cached_kernel()
def _slack(
    first_place: Any, first_predecessor: Any, predecessors: Any, durations: Any, gaps: Any, step_s: Any,
    ends: Any, slack: Any,
) -> Any:  # fmt: skip
    """Set the slack of every place, from the last to the first."""
    latest = np.full(len(ends), step_s)
    for group in range(len(first_place) - 2, -1, -1):
        latest_start = np.inf
        for place in range(first_place[group], first_place[group + 1]):
            latest_start = min(latest_start, latest[place] - durations[place])
            slack[place] = latest[place] - ends[place]
        for place in range(first_place[group], first_place[group + 1]):
            for edge in range(first_predecessor[place], first_predecessor[place + 1]):
                before = predecessors[edge]
                latest[before] = min(latest[before], latest_start - gaps[place])


@cached_kernel()
def _trace_back(
    first_place: Any, first_predecessor: Any, predecessors: Any, starts: Any, ends: Any, path: Any
) -> Any:
    """Write the places of a critical path, last to first; return their number."""
    group_of = np.empty(len(ends), np.int64)
    for group in range(len(first_place) - 1):
        group_of[first_place[group] : first_place[group + 1]] = group
    place, length = int(np.argmax(ends)), 0
    while True:
        path[length] = place
        length += 1
        group = group_of[place]
        last = first_place[group]
        for member in range(first_place[group], first_place[group + 1]):
            if starts[member] > starts[last]:
                last = member
        if last != place:
            path[length] = last
            length += 1
        first, stop = first_predecessor[last], first_predecessor[last + 1]
        if first == stop:
            return length
        place = predecessors[first]
        for edge in range(first, stop):
            if ends[predecessors[edge]] > ends[place]:
                place = predecessors[edge]
