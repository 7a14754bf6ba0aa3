"""Every kind of edge and of group of a pipeline-parallel step."""

from __future__ import annotations

import numpy as np
import pytest

from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import Operations, TrainingTrace
from sysgym.emulator.training.pipeline import graph_of, pipeline_graph
from sysgym.emulator.training.schedules import schedule_graph, step_operations

N_STAGES, N_DATA, N_MICROBATCHES = 3, 2, 4


@pytest.fixture(scope="module")
def operations() -> Operations:
    return step_operations(N_STAGES, N_DATA, N_MICROBATCHES)


@pytest.fixture(scope="module")
def graph(operations: Operations) -> Graph:
    return schedule_graph(operations, "1f1b")


def named(operations: Operations, pairs: set[tuple[int, int]], rank: int) -> set[tuple[str, str]]:
    """Edges of a rank, by names."""

    def name(one: int) -> str:
        return f"{operations.kind[one]} {operations.index[one]}"

    return {(name(a), name(b)) for a, b in pairs if operations.rank[a] == operations.rank[b] == rank}


EDGES_OF_THE_MIDDLE = {
    ("params-all-gather 0", "forward-recv 0"),
    ("params-all-gather 0", "forward-compute 0"),
    ("params-all-gather 0", "grads-reduce-scatter 0"),
    *((f"{way}-recv {i}", f"{way}-compute {i}") for way in ("forward", "backward") for i in range(4)),
    *((f"{way}-compute {i}", f"{way}-send {i}") for way in ("forward", "backward") for i in range(4)),
    # One warm-up forward; then forward and backward in turns.
    ("forward-compute 0", "forward-compute 1"),
    ("forward-compute 1", "backward-compute 0"),
    ("backward-compute 0", "forward-compute 2"),
    ("forward-compute 2", "backward-compute 1"),
    ("backward-compute 1", "forward-compute 3"),
    ("forward-compute 3", "backward-compute 2"),
    ("backward-compute 2", "backward-compute 3"),
    # Receives are posted after the computation before the one that needs them.
    ("forward-compute 0", "forward-recv 1"),
    ("forward-compute 1", "backward-recv 0"),
    ("backward-compute 0", "forward-recv 2"),
    ("forward-compute 2", "backward-recv 1"),
    ("backward-compute 1", "forward-recv 3"),
    ("forward-compute 3", "backward-recv 2"),
    ("backward-compute 2", "backward-recv 3"),
    ("backward-compute 3", "gc 0"),
    ("gc 0", "layernorm-grads-all-reduce 0"),
    ("layernorm-grads-all-reduce 0", "grads-reduce-scatter 0"),
    ("grads-reduce-scatter 0", "optimizer-clip-main-grad 0"),
    ("optimizer-clip-main-grad 0", "optimizer 0"),
}


def test_the_edges_of_a_rank_in_the_middle(operations: Operations, graph: Graph) -> None:
    for rank in (2, 3):
        assert named(operations, graph.edges(), rank) == EDGES_OF_THE_MIDDLE


def test_ranks_are_joined_by_groups_alone(operations: Operations, graph: Graph) -> None:
    assert all(operations.rank[before] == operations.rank[after] for before, after in graph.edges())


def test_the_first_and_the_last_stage_reduce_the_embedding(operations: Operations, graph: Graph) -> None:
    around = {
        ("layernorm-grads-all-reduce 0", "embedding-grads-all-reduce 0"),
        ("embedding-grads-all-reduce 0", "grads-reduce-scatter 0"),
    }
    for rank in (0, 1, 4, 5):
        edges = named(operations, graph.edges(), rank)
        assert around < edges
        assert ("layernorm-grads-all-reduce 0", "grads-reduce-scatter 0") not in edges


def test_receives_as_in_the_published_analysis(operations: Operations) -> None:
    """A receive follows the computation before of its kind; the first backward one, a warm-up."""
    starts = np.arange(float(len(operations)))
    number = operations.number()
    order = [("forward-compute", i) for i in range(4)] + [("backward-compute", i) for i in range(4)]
    for rank in range(N_STAGES * N_DATA):
        for place, (kind, index) in enumerate(order):
            starts[number[rank, kind, index]] = place
    edges = named(operations, pipeline_graph(operations, starts, "same-kind").edges(), 2)
    into = {after: before for before, after in edges if "recv" in after}
    assert into == {
        "forward-recv 0": "params-all-gather 0",
        **{f"forward-recv {i}": f"forward-compute {i - 1}" for i in (1, 2, 3)},
        "backward-recv 0": "forward-compute 2",
        **{f"backward-recv {i}": f"backward-compute {i - 1}" for i in (1, 2, 3)},
    }


def test_who_meets_whom(operations: Operations, graph: Graph) -> None:
    def rank_of(stage: int, data_rank: int) -> int:
        return stage * N_DATA + data_rank

    number = operations.number()
    expected = {frozenset(number[rank, "optimizer-clip-main-grad", 0] for rank in range(N_STAGES * N_DATA))}
    for stage in range(N_STAGES):
        for kind in ("params-all-gather", "grads-reduce-scatter"):
            expected.add(frozenset(number[rank_of(stage, d), kind, 0] for d in range(N_DATA)))
    for d in range(N_DATA):
        ends = (rank_of(0, d), rank_of(N_STAGES - 1, d))
        expected.add(frozenset(number[rank, "embedding-grads-all-reduce", 0] for rank in ends))
        for stage in range(N_STAGES - 1):
            here, there = rank_of(stage, d), rank_of(stage + 1, d)
            for i in range(N_MICROBATCHES):
                expected.add(frozenset({number[here, "forward-send", i], number[there, "forward-recv", i]}))
                expected.add(frozenset({number[here, "backward-recv", i], number[there, "backward-send", i]}))
    assert graph.groups() == expected


def test_the_graph_of_a_trace_is_that_of_its_schedule(trace: TrainingTrace) -> None:
    found, expected = graph_of(trace), schedule_graph(trace.operations, "1f1b")
    assert found.groups() == expected.groups()
    computes = trace.operations.computes

    def chains(graph: Graph) -> set[tuple[int, int]]:
        return {(a, b) for a, b in graph.edges() if computes[a] and computes[b]}

    assert chains(found) == chains(expected)
