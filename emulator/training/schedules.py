"""Pipeline schedules: the operations of a step, and the order of each rank's computations."""

from __future__ import annotations

from itertools import product

import numpy as np

from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import (
    ALL_GATHER,
    BACKWARD,
    BACKWARD_RECV,
    BACKWARD_SEND,
    EMBEDDING,
    FORWARD,
    FORWARD_RECV,
    FORWARD_SEND,
    KINDS,
    FloatArray,
    Operations,
)
from sysgym.emulator.training.pipeline import AFTER_COMPUTING, pipeline_graph
from sysgym.scenarios.errors import UnknownName

SCHEDULES = ("gpipe", "1f1b")
"""All forward, then all backward computations (Huang et al., NeurIPS 2019); one forward, one backward after a
warm-up (PipeDream-Flush, Narayanan et al., ICML 2021)."""


def computations(schedule: str, stage: int, n_stages: int, n_microbatches: int) -> list[tuple[str, int]]:
    """Return the kind and microbatch of a stage's computations, in their order.

    Raises:
        UnknownName: If there is no such schedule.
    """
    if schedule not in SCHEDULES:
        raise UnknownName("pipeline schedule", schedule, SCHEDULES)
    n_warm_up = n_microbatches if schedule == "gpipe" else min(n_stages - stage - 1, n_microbatches)
    order = [(FORWARD, microbatch) for microbatch in range(n_warm_up)]
    for microbatch in range(n_microbatches):
        if microbatch + n_warm_up < n_microbatches:
            order.append((FORWARD, microbatch + n_warm_up))
        order.append((BACKWARD, microbatch))
    return order


def step_operations(n_stages: int, n_data_ranks: int, n_microbatches: int) -> Operations:
    """Return the operations of a step; rank ``stage * n_data_ranks + data_rank`` runs those of a stage."""
    ends = (0, n_stages - 1)
    rows = []
    for stage, data_rank in product(range(n_stages), range(n_data_ranks)):
        n_of = dict.fromkeys(KINDS, 1)
        n_of |= dict.fromkeys((FORWARD, BACKWARD), n_microbatches)
        n_of |= dict.fromkeys((FORWARD_RECV, BACKWARD_SEND), n_microbatches * (stage > 0))
        n_of |= dict.fromkeys((FORWARD_SEND, BACKWARD_RECV), n_microbatches * (stage < n_stages - 1))
        n_of[EMBEDDING] = int(stage in ends and n_stages > 1)
        rank = stage * n_data_ranks + data_rank
        rows += [(rank, stage, data_rank, kind, index) for kind in KINDS for index in range(n_of[kind])]
    rank_, stage_, data_rank_, kind_, index_ = zip(*rows, strict=True)
    return Operations(
        np.array(rank_, np.int64),
        np.array(stage_, np.int64),
        np.array(data_rank_, np.int64),
        np.array(kind_),
        np.array(index_, np.int64),
    )


def schedule_graph(operations: Operations, schedule: str) -> Graph:
    """Return the dependencies of a step under a schedule; a receive is posted when the one before is used.

    Args:
        operations: The operations, as :func:`step_operations` returns them.
        schedule: One of :data:`SCHEDULES`.
    """
    return pipeline_graph(operations, _places(operations, schedule))


def _places(operations: Operations, schedule: str) -> FloatArray:
    """Return numbers in the order of the starts; a receive comes just before the computation for it."""
    n_stages = int(operations.stage.max()) + 1
    n_microbatches = int(operations.index[operations.kind == FORWARD].max()) + 1
    places = np.zeros(len(operations))
    places[np.isin(operations.kind, AFTER_COMPUTING)] = np.inf
    places[operations.kind == ALL_GATHER] = -1.0
    for stage in range(n_stages):
        order = computations(schedule, stage, n_stages, n_microbatches)
        for place, (kind, microbatch) in enumerate(order):
            here = (operations.stage == stage) & (operations.index == microbatch)
            receive, send = (
                (FORWARD_RECV, FORWARD_SEND) if kind == FORWARD else (BACKWARD_RECV, BACKWARD_SEND)
            )
            places[here & (operations.kind == receive)] = place - 0.5
            places[here & (operations.kind == kind)] = place
            places[here & (operations.kind == send)] = place + 0.25
    return places
