"""Dependencies of the operations of a step by layers, with data, tensor and pipeline parallelism.

A rank computes one layer after another. A layer that tensor parallelism divides is followed by an
all-reduce, for which the next computation waits. A *pass* is the forward or backward computation of one
microbatch through one part of the model. It waits for its receive, and its last operation is followed by its
send. A rank has two buffers for receives: a receive is posted when the pass two before its own is done. The
gradients of a bucket are reduced when its lowest layer has computed its last backward pass and the bucket
before has been reduced; the optimizer waits for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from sysgym.emulator.training.graph import Edge, Graph
from sysgym.emulator.training.operations import (
    BACKWARD,
    BACKWARD_RECV,
    BACKWARD_REDUCE,
    BACKWARD_SEND,
    FORWARD,
    FORWARD_RECV,
    FORWARD_REDUCE,
    FORWARD_SEND,
    GRADIENTS,
    OPTIMIZER,
    FloatArray,
    Operations,
)

N_BUFFERS = 2
"""Buffers of a rank for receives."""

REDUCE_OF = {FORWARD: FORWARD_REDUCE, BACKWARD: BACKWARD_REDUCE}
"""Kind of the all-reduce after a computation of each kind."""

TRANSFERS_OF = {FORWARD: (FORWARD_RECV, FORWARD_SEND), BACKWARD: (BACKWARD_RECV, BACKWARD_SEND)}
"""Kinds of the receive before a pass of each kind, and of the send after it."""


class _Row(NamedTuple):
    operation: int
    kind: str
    microbatch: int
    chunk: int
    layer: int
    start_s: float

    @property
    def passed(self) -> tuple[str, int, int]:
        """Kind, microbatch and part of the model of its pass."""
        return self.kind, self.microbatch, self.chunk


def layered_graph(operations: Operations, start_s: FloatArray) -> Graph:
    """Return the dependencies of the operations of a step.

    Args:
        operations: The operations, with their parts.
        start_s: Start of each, which gives the order of a rank's computations and of its buckets, [n].

    Raises:
        SysgymError: If operations wait for each other in a circle.
    """
    parts = operations.parts
    assert parts is not None
    columns = (operations.kind, parts.microbatch, parts.chunk, parts.layer, start_s)
    by_rank: dict[int, list[_Row]] = defaultdict(list)
    rows = zip(operations.rank.tolist(), *(column.tolist() for column in columns), strict=True)
    for operation, (rank, *row) in enumerate(rows):
        by_rank[rank].append(_Row(operation, *row))
    edges = [edge for rows_of_rank in by_rank.values() for edge in _edges_of_rank(rows_of_rank)]
    return Graph.of(len(operations), edges, _groups(operations))


def _edges_of_rank(rows: list[_Row]) -> list[Edge]:
    rows = sorted(rows, key=lambda row: row.start_s)
    computing = [row for row in rows if row.kind in REDUCE_OF]
    reduces = {(*row.passed, row.layer): row.operation for row in rows if row.kind in REDUCE_OF.values()}
    transfers = {row.passed: row.operation for row in rows if row.kind in _TRANSFERS}
    edges: list[Edge] = []
    done: dict[int, int] = {}
    for row in computing:
        reduced = reduces.get((REDUCE_OF[row.kind], row.microbatch, row.chunk, row.layer))
        done[row.operation] = row.operation if reduced is None else reduced
        if reduced is not None:
            edges.append((row.operation, reduced))
    edges += [(done[one.operation], after.operation) for one, after in pairwise(computing)]
    ends: list[int] = []
    for (kind, microbatch, chunk), of_pass in groupby(computing, lambda row: row.passed):
        layers = list(of_pass)
        receive, send = (transfers.get((one, microbatch, chunk)) for one in TRANSFERS_OF[kind])
        if receive is not None:
            edges.append((receive, layers[0].operation))
            if len(ends) >= N_BUFFERS:
                edges.append((ends[-N_BUFFERS], receive))
        ends.append(done[layers[-1].operation])
        if send is not None:
            edges.append((ends[-1], send))
    # A layer's last backward computation of the step is the one that completes its gradients.
    backward = {(row.chunk, row.layer): row.operation for row in computing if row.kind == BACKWARD}
    buckets = [row for row in rows if row.kind == GRADIENTS]
    edges += [(backward[row.chunk, row.layer], row.operation) for row in buckets]
    edges += [(one.operation, after.operation) for one, after in pairwise(buckets)]
    for row in rows:
        if row.kind == OPTIMIZER:
            edges += [(before, row.operation) for before in ends[-1:]]
            edges += [(before.operation, row.operation) for before in buckets[-1:]]
    return edges


_TRANSFERS = frozenset(kind for kinds in TRANSFERS_OF.values() for kind in kinds)


def _groups(operations: Operations) -> list[list[int]]:
    """Return the operations that meet; a send comes before its receive, members of a collective by rank."""
    parts = operations.parts
    assert parts is not None
    n_stages = int(operations.stage.max()) + 1
    found: dict[tuple[object, ...], list[int]] = defaultdict(list)
    columns = (
        operations.kind, operations.stage, operations.data_rank, parts.tensor_rank, parts.microbatch,
        parts.chunk, parts.layer,
    )  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for one, (kind, stage, data_rank, tensor_rank, microbatch, chunk, layer) in enumerate(rows):
        part = chunk * n_stages + stage
        if kind in (FORWARD_SEND, FORWARD_RECV):
            before = part - (kind == FORWARD_RECV)
            found["forward", before, data_rank, tensor_rank, microbatch].append(one)
        elif kind in (BACKWARD_SEND, BACKWARD_RECV):
            before = part - (kind == BACKWARD_SEND)
            found["backward", before, data_rank, tensor_rank, microbatch].append(one)
        elif kind in (FORWARD_REDUCE, BACKWARD_REDUCE):
            found[kind, stage, data_rank, chunk, layer, microbatch].append(one)
        elif kind == GRADIENTS:
            found[kind, stage, tensor_rank, chunk, layer].append(one)
    sends = np.isin(operations.kind, (FORWARD_SEND, BACKWARD_SEND)).tolist()
    ranks = operations.rank.tolist()
    return [
        sorted(group, key=lambda one: (not sends[one], ranks[one]))
        for group in found.values()
        if len(group) > 1
    ]
