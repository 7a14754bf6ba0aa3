"""Work of a job: layers, microbatches of some steps, and communications, generated or recorded."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.cost.ring import ALL_GATHER as RING_ALL_GATHER
from sysgym.emulator.accelerators.cost.ring import ring_time_s
from sysgym.emulator.pipelines.generated import Transformer, transformer_layers
from sysgym.emulator.pipelines.job import HALF_BYTES
from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.operations import (
    ALL_GATHER,
    BACKWARD,
    FORWARD,
    REDUCE_SCATTER,
    TRANSFERS,
    TrainingTrace,
)
from sysgym.emulator.training.pipeline import AFTER_COMPUTING, graph_of
from sysgym.emulator.training.rebalancing import Microbatches
from sysgym.emulator.training.tables import read_trace
from sysgym.emulator.training.timing import durations_s
from sysgym.scenarios.schema.failslow import FailSlowScenario

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

WAYS = (FORWARD, BACKWARD)
"""Forward and backward passes."""

STREAM = 0xFA1B
"""Random stream of jobs."""

_LEAST_S = 1e-9


class Work(NamedTuple):
    """Work of some steps of a job.

    Attributes:
        layers_s: Time of each layer's forward and backward pass with a microbatch of length 1, shape
            (2, n_layers).
        origin: Column of ``microbatches`` with the factors of each layer, int64 [n_layers].
        microbatches: Factor of each microbatch of all replicas in each step, by way and origin, shape
            (n_steps, 2, n_origins, n_microbatches).
        lengths: Known length of each microbatch, shape (n_steps, n_microbatches), with the mean 1.
        transfer_s: Time of a transfer between stages with a microbatch of length 1, for both ends.
        gather_s: Time in which each layer's parameters are gathered, over a healthy link, shape (n_layers,).
        scatter_s: Likewise, in which its gradients are reduced.
        latency_s: What a gather or a reduction takes for a stage, however many layers it has.
        tail_s: What follows the reduction.
        n_replicas: Data-parallel replicas.
        n_stages: Stages of each.
    """

    layers_s: FloatArray
    origin: IntArray
    microbatches: FloatArray
    lengths: FloatArray
    transfer_s: float
    gather_s: FloatArray
    scatter_s: FloatArray
    latency_s: float
    tail_s: float
    n_replicas: int
    n_stages: int


def draw_work(scenario: FailSlowScenario, episode_seed: int) -> Work:
    """Return the work of an episode's job.

    Args:
        scenario: The drawn scenario.
        episode_seed: Seed of lengths and jitter, or of the choice of recorded steps.

    Raises:
        TraceError: If the scenario's trace cannot be used.
    """
    rng = np.random.default_rng([STREAM, episode_seed])
    return recorded_work(scenario, rng) if scenario.job.trace else generated_work(scenario, rng)


def generated_work(scenario: FailSlowScenario, rng: np.random.Generator) -> Work:
    """Return the work of a transformer, by the formulas of the module of generated pipelines."""
    job, machine = scenario.job, scenario.machine
    shape = Transformer(job.blocks, job.hidden, job.head_size, job.sequence, job.vocabulary, 1)
    layers = transformer_layers(shape, machine.flops_per_s)
    n_layers, n = len(layers.parameters), job.replicas * job.microbatches
    lengths = np.exp(rng.normal(0.0, job.length_log_sd, (job.steps, n)))
    lengths /= lengths.mean(axis=1, keepdims=True)
    jitter = np.exp(rng.normal(0.0, job.jitter_log_sd, (job.steps, len(WAYS), 1, n)))
    bandwidth = machine.bandwidth_bps / 8.0
    size_bytes = HALF_BYTES * layers.parameters
    exchange_s = np.array(
        [ring_time_s(RING_ALL_GATHER, job.replicas, size, bandwidth, 0.0) for size in size_bytes]
    )
    return Work(
        np.array([layers.forward_s, layers.backward_s]),
        np.zeros(n_layers, np.int64),
        lengths[:, None, None, :] * jitter,
        lengths,
        machine.latency_s + HALF_BYTES * job.sequence * job.hidden / bandwidth,
        exchange_s,
        exchange_s,
        float(ring_time_s(RING_ALL_GATHER, job.replicas, 0.0, bandwidth, machine.latency_s)),
        0.0,
        job.replicas,
        job.stages,
    )


def recorded_work(scenario: FailSlowScenario, rng: np.random.Generator) -> Work:
    """Return the work of some steps of the scenario's trace; a stage is one layer, which cannot be divided.

    Raises:
        TraceError: If the trace cannot be read, or its microbatches cannot move.
    """
    path = scenario.job.trace
    trace, durations, lengths_s = _recorded(path)
    operations = trace.operations
    n_steps, n_replicas, n_of_replica = lengths_s.shape
    n_stages, n = int(operations.stage.max()) + 1, n_replicas * n_of_replica
    steps = np.sort(rng.choice(n_steps, min(scenario.job.steps, n_steps), replace=False))
    durations = durations[steps]
    lengths = lengths_s[steps].reshape(len(steps), n) / lengths_s[steps].mean(axis=(1, 2))[:, None]
    place = operations.data_rank * n_of_replica + operations.index
    layers_s = np.zeros((len(WAYS), n_stages))
    microbatches = np.ones((len(steps), len(WAYS), n_stages, n))
    for way, kind in enumerate(WAYS):
        for stage in range(n_stages):
            here = (operations.kind == kind) & (operations.stage == stage)
            layers_s[way, stage] = max(float(durations[:, here].mean()), _LEAST_S)
            microbatches[:, way, stage, place[here]] = durations[:, here] / layers_s[way, stage]

    def median_s(*kinds: str) -> float:
        here = np.isin(operations.kind, kinds)
        return float(np.median(durations[:, here])) if here.any() else 0.0

    def of_stages_s(kind: str) -> FloatArray:
        here = operations.kind == kind
        times_s = [durations[:, here & (operations.stage == stage)] for stage in range(n_stages)]
        return np.array([float(np.median(one)) if one.size else 0.0 for one in times_s])

    return Work(
        layers_s,
        np.arange(n_stages),
        microbatches,
        lengths,
        median_s(*TRANSFERS),
        of_stages_s(ALL_GATHER),
        of_stages_s(REDUCE_SCATTER),
        0.0,
        sum(median_s(kind) for kind in AFTER_COMPUTING if kind != REDUCE_SCATTER),
        n_replicas,
        n_stages,
    )


@lru_cache(maxsize=2)
def _recorded(path: str) -> tuple[TrainingTrace, FloatArray, FloatArray]:
    """Return a trace with stages and replicas from 0, its durations, and the lengths of its microbatches."""
    trace = read_trace(Path(path).expanduser())
    durations = np.maximum(durations_s(trace, graph_of(trace)), 0.0)
    _, stage = np.unique(trace.operations.stage, return_inverse=True)
    _, data_rank = np.unique(trace.operations.data_rank, return_inverse=True)
    operations = replace(trace.operations, stage=stage, data_rank=data_rank)
    other = 'use another trace, or a generated job: job.trace = ""'
    try:
        lengths_s = Microbatches(operations, durations).lengths_s
    except ValueError as error:
        raise TraceError(path, str(error), "microbatches that can change places", other) from None
    if lengths_s.size == 0 or not (lengths_s > 0.0).all() or lengths_s.shape[1] == 1:
        raise TraceError(
            path,
            f"{lengths_s.shape[1]} replicas, microbatches with {lengths_s.min(initial=0.0):g} s at least",
            "two replicas or more, and microbatches that take time",
            other,
        )
    return replace(trace, operations=operations), durations, lengths_s
