"""Synthetic traces: steps of a job with pipeline and data parallelism, with stragglers that are known.

The truth is the replayer's own model with noise, so such traces test attribution, loaders and pictures, and
say nothing about the accuracy of a replay.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sysgym.emulator.training.operations import (
    ALL_GATHER,
    BACKWARD,
    CLIP,
    EMBEDDING,
    FORWARD,
    GARBAGE,
    LAYERNORM,
    OPTIMIZER,
    REDUCE_SCATTER,
    TrainingTrace,
)
from sysgym.emulator.training.replay import replay
from sysgym.emulator.training.schedules import schedule_graph, step_operations

TYPICAL_S = {
    ALL_GATHER: 0.02,
    FORWARD: 0.065,
    BACKWARD: 0.138,
    GARBAGE: 0.0,
    LAYERNORM: 4e-5,
    EMBEDDING: 0.01,
    REDUCE_SCATTER: 0.05,
    CLIP: 0.005,
    OPTIMIZER: 0.04,
}
"""Durations, rounded from the published trace ST of Lin et al. (OSDI 2025)."""
TRANSFER_S = 6e-4
"""Duration of the other kinds, sends and receives, as in that trace."""


def synthetic_trace(
    seed: int,
    *,
    n_stages: int = 4,
    n_data_ranks: int = 2,
    n_microbatches: int = 4,
    n_steps: int = 10,
    schedule: str = "1f1b",
    noise: float = 0.02,
    slow_ranks: Mapping[int, float] | None = None,
) -> TrainingTrace:
    """Return a trace whose stragglers are known.

    Args:
        seed: Seed of the noise.
        n_stages: Pipeline stages.
        n_data_ranks: Data-parallel ranks.
        n_microbatches: Microbatches of a step.
        n_steps: Steps.
        schedule: One of :data:`~sysgym.emulator.training.schedules.SCHEDULES`.
        noise: Standard deviation of the logarithm of every duration.
        slow_ranks: Rank -> factor of its computations' durations.
    """
    operations = step_operations(n_stages, n_data_ranks, n_microbatches)
    graph = schedule_graph(operations, schedule)
    typical_s = np.array([TYPICAL_S.get(str(kind), TRANSFER_S) for kind in operations.kind])
    for rank, factor in (slow_ranks or {}).items():
        typical_s[operations.computes & (operations.rank == rank)] *= factor
    rng = np.random.default_rng(seed)
    durations = typical_s * np.exp(noise * rng.standard_normal((n_steps, len(operations))))
    replayed = [replay(graph, of_step) for of_step in durations]
    return TrainingTrace(
        f"synthetic-{seed}",
        operations,
        np.arange(n_steps),
        np.array([one.start_s for one in replayed]),
        np.array([one.end_s for one in replayed]),
    )
