"""Plans made whole: the exact division of layers among stages, and microbatches by Graham's rule."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.pipelines.job import Pipeline
from sysgym.emulator.pipelines.plans import Plan, span_bytes, with_least_recomputation
from sysgym.emulator.training.rebalancing import longest_first


def balanced_stages(pipeline: Pipeline, plan: Plan) -> Plan:
    """Return the plan with the layers whose slowest stage is fastest by the profile, and fits into memory.

    Exact, by a dynamic program over stages and layers; a stage recomputes if its activations do not fit
    otherwise. Transfers are not regarded. If nothing fits, the plan is returned as it is.
    """
    job = pipeline.scenario.job
    n_layers, n_stages = len(pipeline.layers.parameters), job.stages
    layers = pipeline.layers
    forward_s, both_s = (
        np.concatenate([[0.0], np.cumsum(column)])
        for column in (layers.forward_s, layers.forward_s + layers.backward_s)
    )
    best_s = np.full((n_stages + 1, n_layers + 1), np.inf)
    best_s[0, 0] = 0.0
    came_from = np.zeros((n_stages + 1, n_layers + 1), np.int64)
    most = pipeline.scenario.machine.memory_bytes
    for stage in range(1, n_stages + 1):
        for end in range(stage, n_layers + 1):
            starts = np.arange(stage - 1, end)
            kept, recomputed = span_bytes(pipeline, stage - 1, starts, end) <= most
            again_s = np.where(kept, 0.0, np.where(recomputed, forward_s[end] - forward_s[starts], np.inf))
            took_s = np.maximum(best_s[stage - 1, starts], both_s[end] - both_s[starts] + again_s)
            came_from[stage, end] = starts[took_s.argmin()]
            best_s[stage, end] = took_s.min()
    if not np.isfinite(best_s[n_stages, n_layers]):
        return plan
    ends = [n_layers]
    for stage in range(n_stages, 1, -1):
        ends.append(int(came_from[stage, ends[-1]]))
    return with_least_recomputation(pipeline, plan._replace(ends=tuple(reversed(ends))))


def balanced_ranks(pipeline: Pipeline, plan: Plan) -> Plan:
    """Return the plan with the longest microbatches first, each on the least loaded rank that has a place."""
    job = pipeline.scenario.job
    lengths = pipeline.lengths.reshape(job.data_ranks, job.microbatches)
    return plan._replace(microbatches=tuple(longest_first(lengths).ravel().tolist()))
