"""Dependencies of a step with pipeline and data parallelism.

Streams of a rank: one for computation, one for each kind of send and receive, and one for the collectives of
data parallelism. Groups that meet: a send and its receive; the ranks of a stage in an all-gather or a
reduce-scatter; the first and the last stage in the reduction of shared embeddings; all ranks in the clipping
of gradients, which is a global barrier. The reduction of layer norms does not synchronise in the traces of
Lin et al. (Understanding Stragglers in Large Model Training Using What-if Analysis, OSDI 2025).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Literal

import numpy as np

from sysgym.emulator.training.generated.layered_graph import layered_graph
from sysgym.emulator.training.graph import Edge, Graph
from sysgym.emulator.training.operations import (
    ALL_GATHER,
    BACKWARD,
    BACKWARD_RECV,
    BACKWARD_SEND,
    CLIP,
    EMBEDDING,
    FORWARD,
    FORWARD_RECV,
    FORWARD_SEND,
    GARBAGE,
    LAYERNORM,
    OPTIMIZER,
    REDUCE_SCATTER,
    FloatArray,
    Operations,
    TrainingTrace,
)

Posting = Literal["traced", "same-kind"]
"""When a receive is posted.

``"traced"``: after the last computation that began before it, as it was in the trace. ``"same-kind"``: after
the previous computation of its own kind, and the first receive of gradients after the second last forward
computation of the warm-up; the published what-if results of Lin et al. are those of this graph.
"""

AFTER_COMPUTING = (GARBAGE, LAYERNORM, EMBEDDING, REDUCE_SCATTER, CLIP, OPTIMIZER)
"""What follows the last computation of a rank, in this order."""

_TRANSFERS = ((FORWARD, FORWARD_RECV, FORWARD_SEND), (BACKWARD, BACKWARD_RECV, BACKWARD_SEND))


def graph_of(trace: TrainingTrace, posting: Posting = "traced") -> Graph:
    """Return the dependencies of a trace's operations, whose order is that of their median starts.

    Operations of layers have a way of posting receives of their own.
    """
    start_s = np.median(trace.start_s, axis=0)
    if trace.operations.parts is not None:
        return layered_graph(trace.operations, start_s)
    return pipeline_graph(trace.operations, start_s, posting)


def pipeline_graph(operations: Operations, start_s: FloatArray, posting: Posting = "traced") -> Graph:
    """Return the dependencies of the operations of a step.

    Args:
        operations: The operations.
        start_s: Start of each, which gives the order of a rank's computations and, with ``"traced"``, the
            computations after which receives are posted.
        posting: When a receive is posted.

    Raises:
        SysgymError: If operations wait for each other in a circle.
    """
    edges: list[Edge] = []
    for rank in operations.ranks.tolist():
        edges += _edges_of_rank(operations, start_s, rank, posting)
    return Graph.of(len(operations), edges, _groups(operations))


def _edges_of_rank(operations: Operations, start_s: FloatArray, rank: int, posting: Posting) -> list[Edge]:
    mine = np.flatnonzero(operations.rank == rank)
    mine = mine[np.argsort(start_s[mine], kind="stable")]
    kinds = operations.kind[mine]
    number = {
        (str(kind), int(index)): int(one)
        for one, kind, index in zip(mine, kinds, operations.index[mine], strict=True)
    }
    computing = mine[np.isin(kinds, (FORWARD, BACKWARD))].tolist()
    gather = number.get((ALL_GATHER, 0))
    edges = list(pairwise(computing))
    if gather is not None and computing:
        edges.append((gather, computing[0]))
    for compute, receive, send in _TRANSFERS:
        for index in operations.index[mine[kinds == compute]].tolist():
            here = number[compute, index]
            if (sent := number.get((send, index))) is not None:
                edges.append((here, sent))
            if (received := number.get((receive, index))) is None:
                continue
            edges.append((received, here))
            if posting == "traced":
                began = [one for one in computing if start_s[one] < start_s[received]]
                posted = began[-1] if began else gather
            elif index:
                posted = number.get((compute, index - 1))
            else:
                posted = gather if compute == FORWARD else _second_last_of_warm_up(operations, computing)
            if posted is not None:
                edges.append((posted, received))
    last = [number[kind, 0] for kind in AFTER_COMPUTING if (kind, 0) in number]
    chain = [*computing[-1:], *last]
    edges += pairwise(chain)
    scatter = number.get((REDUCE_SCATTER, 0))
    if gather is not None and scatter is not None:
        edges.append((gather, scatter))
    return edges


def _second_last_of_warm_up(operations: Operations, computing: list[int]) -> int | None:
    """Return the second last forward computation before the first backward one."""
    warm_up = []
    for one in computing:
        if operations.kind[one] != FORWARD:
            break
        warm_up.append(one)
    return warm_up[-2] if len(warm_up) > 1 else None


def _groups(operations: Operations) -> list[list[int]]:
    """Return the operations that meet."""
    found: dict[tuple[object, ...], list[int]] = defaultdict(list)
    columns = (operations.kind, operations.stage, operations.data_rank, operations.index)
    for one, (kind, stage, data_rank, index) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        if kind in (FORWARD_SEND, FORWARD_RECV):
            found["forward", stage - (kind == FORWARD_RECV), data_rank, index].append(one)
        elif kind in (BACKWARD_SEND, BACKWARD_RECV):
            found["backward", stage - (kind == BACKWARD_SEND), data_rank, index].append(one)
        elif kind in (ALL_GATHER, REDUCE_SCATTER):
            found[kind, stage, index].append(one)
        elif kind == EMBEDDING:
            found[kind, data_rank, index].append(one)
        elif kind == CLIP:
            found[kind, index].append(one)
    return [group for group in found.values() if len(group) > 1]
