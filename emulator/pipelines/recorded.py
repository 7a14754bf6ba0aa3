"""Jobs of recorded traces: their stages stay as they are, their microbatches can move.

The length of a microbatch is its computing time in all stages; in a job it would be known from its tokens.
The profile has a mean time of each stage, in proportion to the length; what a stage took longer or shorter
goes with the microbatch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sysgym.emulator.pipelines.job import Layers, Pipeline, Truth, spans_of
from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import BACKWARD, FORWARD, FloatArray, Operations
from sysgym.emulator.training.pipeline import graph_of
from sysgym.emulator.training.rebalancing import Microbatches
from sysgym.emulator.training.tables import read_trace
from sysgym.emulator.training.timing import durations_s
from sysgym.scenarios.schema.pipelines import PipelineScenario

_LEAST_S = 1e-9
"""Least time of an operation in the profile, so that factors are finite."""


USE_OTHER = 'use another trace, or a generated job: job.trace = ""'


class Recorded(NamedTuple):
    """What the steps of a trace have in common.

    Attributes:
        operations: Operations of a step; stages and data-parallel ranks are numbered from 0.
        graph: Their dependencies.
        durations_s: Their durations, float64 [n_steps, n].
        lengths_s: Computing of each microbatch, all stages, float64 [n_steps, n_data_ranks, n_microbatches].
    """

    operations: Operations
    graph: Graph
    durations_s: FloatArray
    lengths_s: FloatArray


def recorded_job(scenario: PipelineScenario, episode_seed: int) -> tuple[Pipeline, Truth]:
    """Return a step of the scenario's trace as a job: its number is the seed modulo the number of steps.

    Args:
        scenario: The drawn scenario, with a trace.
        episode_seed: Seed of the episode.

    Raises:
        TraceError: If the trace cannot be read, its microbatches cannot move, or it has more stages and ranks
            than the observation has rows.
    """
    operations, graph, durations, lengths_s = _recorded(scenario.job.trace)
    n_steps, n_data_ranks, n_microbatches = lengths_s.shape
    n_stages = int(operations.stage.max()) + 1
    rows = 1 + n_stages + n_data_ranks
    if rows > scenario.control.most_rows:
        raise TraceError(
            scenario.job.trace,
            f"{n_stages} stages and {n_data_ranks} data-parallel ranks",
            f"rows for all of them: control.most_rows is {scenario.control.most_rows}",
            f"set control.most_rows to {rows} or more",
        )
    step = episode_seed % n_steps
    lengths = lengths_s[step].ravel() / lengths_s.mean()
    place = operations.data_rank * n_microbatches + operations.index
    profile_s = np.zeros((2, n_stages))
    passes = np.ones((2, n_stages, len(lengths)))
    fixed_s = np.zeros(len(operations))
    others = np.ones(len(operations))
    for way, kind in enumerate((FORWARD, BACKWARD)):
        for stage in range(n_stages):
            here = (operations.kind == kind) & (operations.stage == stage)
            profile_s[way, stage] = max(float(durations[:, here].mean()), _LEAST_S)
            passes[way, stage, place[here]] = durations[step, here] / (
                profile_s[way, stage] * lengths[place[here]]
            )
    for kind in set(operations.kind.tolist()) - {FORWARD, BACKWARD}:
        here = operations.kind == kind
        fixed_s[here] = max(float(np.median(durations[:, here])), _LEAST_S)
        others[here] = durations[step, here] / fixed_s[here]
    job = scenario.job.model_copy(
        update={"stages": n_stages, "data_ranks": n_data_ranks, "microbatches": n_microbatches}
    )
    nothing = np.zeros(n_stages)
    layers = Layers(profile_s[0], profile_s[1], nothing, nothing, nothing)
    scenario = scenario.model_copy(update={"job": job})
    pipeline = Pipeline(scenario, layers, spans_of(layers), lengths, operations, graph, fixed_s)
    return pipeline, Truth(np.ones(n_stages), others[None], passes)


@lru_cache(maxsize=2)
def _recorded(path: str) -> Recorded:
    trace = read_trace(Path(path).expanduser(), whole_stages=True)
    graph = graph_of(trace)
    durations = np.maximum(durations_s(trace, graph), 0.0)
    _, stage = np.unique(trace.operations.stage, return_inverse=True)
    _, data_rank = np.unique(trace.operations.data_rank, return_inverse=True)
    operations = replace(trace.operations, stage=stage, data_rank=data_rank)
    try:
        lengths_s = Microbatches(operations, durations).lengths_s
    except ValueError as error:
        raise TraceError(path, str(error), "microbatches that can change places", USE_OTHER) from None
    if lengths_s.size == 0 or not (lengths_s > 0.0).all():
        raise TraceError(
            path,
            "microbatches that take no time",
            "forward and backward passes of a duration above 0",
            USE_OTHER,
        )
    return Recorded(operations, graph, durations, lengths_s)
