"""Replay: closed forms, an event-driven reference, slack and critical paths."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import BACKWARD, FORWARD, FloatArray
from sysgym.emulator.training.replay import replay, step_times_s
from sysgym.emulator.training.schedules import SCHEDULES, schedule_graph, step_operations


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n_stages", [1, 2, 4])
@pytest.mark.parametrize("n_microbatches", [1, 3, 8])
def test_equal_stages_take_the_closed_form(schedule: str, n_stages: int, n_microbatches: int) -> None:
    """(m + p - 1)(t_f + t_b), if communication takes no time (Narayanan et al., SC 2021, section 2.2)."""
    operations = step_operations(n_stages, 2, n_microbatches)
    durations = np.where(operations.kind == FORWARD, 1.0, np.where(operations.kind == BACKWARD, 2.0, 0.0))
    replayed = replay(schedule_graph(operations, schedule), durations)
    assert replayed.step_s == (n_microbatches + n_stages - 1) * 3.0


def reference(graph: Graph, durations: FloatArray, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Starts and ends by repeated relaxation, without an order."""
    n = graph.n_operations
    before: list[list[int]] = [[] for _ in range(n)]
    for one, other in graph.edges():
        before[other].append(one)
    members = {one: [one] for one in range(n)}
    for group in graph.groups():
        members |= dict.fromkeys(group, sorted(group))
    start_s, end_s = np.zeros(n), np.zeros(n)
    for _ in range(n + 1):
        for one in range(n):
            start_s[one] = max((end_s[p] for p in before[one]), default=0.0) + gaps[one]
        for one in range(n):
            end_s[one] = max(start_s[p] for p in members[one]) + durations[one]
    return start_s, end_s


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    n = draw(st.integers(2, 12))
    # Groups of neighbours and edges between groups, so that there is no circle.
    bounds = sorted({0, n, *draw(st.lists(st.integers(0, n), max_size=6))})
    group_of = np.searchsorted(bounds, np.arange(n), side="right")
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20))
    kept = [(a, b) for a, b in edges if group_of[a] < group_of[b]]
    return Graph.of(n, kept, [np.flatnonzero(group_of == g).tolist() for g in np.unique(group_of)])


whole_times = st.lists(st.integers(0, 20).map(float), min_size=12, max_size=12)


@settings(deadline=None)
@given(graph=graphs(), durations=whole_times, gaps=whole_times)
def test_it_is_what_relaxation_finds(graph: Graph, durations: list[float], gaps: list[float]) -> None:
    duration_s, gap_s = np.array(durations[: graph.n_operations]), np.array(gaps[: graph.n_operations])
    found = replay(graph, duration_s, gap_s)
    start_s, end_s = reference(graph, duration_s, gap_s)
    assert (found.start_s == start_s).all()
    assert (found.end_s == end_s).all()
    assert step_times_s(graph, np.stack([duration_s, 2.0 * duration_s]), gap_s)[0] == found.step_s


@settings(deadline=None)
@given(graph=graphs(), durations=whole_times, data=st.data())
def test_slack_is_the_delay_that_a_step_bears(
    graph: Graph, durations: list[float], data: st.DataObject
) -> None:
    duration_s = np.array(durations[: graph.n_operations])
    found = replay(graph, duration_s)
    one = data.draw(st.integers(0, graph.n_operations - 1))
    longer = duration_s.copy()
    longer[one] += found.slack_s[one]
    assert replay(graph, longer).step_s == found.step_s
    longer[one] += 1.0
    assert replay(graph, longer).step_s == found.step_s + 1.0


@settings(deadline=None)
@given(graph=graphs(), durations=whole_times)
def test_a_critical_path_has_no_holes(graph: Graph, durations: list[float]) -> None:
    duration_s = np.array(durations[: graph.n_operations])
    found = replay(graph, duration_s)
    path = found.critical_path.tolist()
    edges, group_of = graph.edges(), graph.group_of
    assert found.end_s[path[-1]] == found.step_s
    assert found.start_s[path[0]] == 0.0
    assert not any(after == path[0] for _, after in edges)
    for before, after in pairwise(path):
        if group_of[before] == group_of[after]:
            # The last member to start is followed by the one whose end is waited for.
            assert found.start_s[before] == found.start_s[group_of == group_of[after]].max()
        else:
            assert (before, after) in edges
            assert found.start_s[after] == found.end_s[before]
    assert found.critical.sum() == len(set(path))
