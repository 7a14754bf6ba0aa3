"""Graphs: orders, groups, circles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.emulator.training.graph import Graph
from sysgym.scenarios.errors import SysgymError


@given(
    st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)).filter(lambda edge: edge[0] < edge[1])),
)
def test_edges_and_groups_come_back_and_every_predecessor_has_an_earlier_place(
    edges: list[tuple[int, int]],
) -> None:
    graph = Graph.of(22, edges, [(20, 21)])
    assert graph.edges() == set(edges)
    assert graph.groups() == {frozenset((20, 21))}
    assert sorted(graph.operation_at.tolist()) == list(range(22))
    place_of = graph.place_of
    assert all(place_of[before] < place_of[after] for before, after in edges)
    assert abs(place_of[20] - place_of[21]) == 1
    assert graph.group_of[20] == graph.group_of[21]
    assert len(np.unique(graph.group_of)) == 21


def test_operations_that_wait_for_each_other_are_an_error() -> None:
    with pytest.raises(SysgymError, match="wait for each other in a circle: "):
        Graph.of(3, [(0, 1), (1, 2), (2, 0)], [])
    with pytest.raises(SysgymError, match="wait for each other in a circle: "):
        Graph.of(3, [(0, 1)], [(0, 1)])


def test_an_operation_in_two_groups_is_an_error() -> None:
    with pytest.raises(SysgymError, match="operation 1 is in two groups"):
        Graph.of(3, [], [(0, 1), (2, 1)])
    with pytest.raises(SysgymError, match="operation 1 is in two groups"):
        Graph.of(4, [], [(1, 0), (2, 1)])
