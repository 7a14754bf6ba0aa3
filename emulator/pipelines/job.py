"""The job: layers of a transformer with their times and memory, lengths of microbatches, hidden factors.

Operations of a block's forward pass: Narayanan et al., Efficient Large-Scale Language Model Training on GPU
Clusters Using Megatron-LM, SC 2021. Bytes of activations: Korthikanti et al., Reducing Activation
Recomputation in Large Transformer Models, 2022. 16 bytes of states for each parameter: Rajbhandari et al.,
ZeRO, SC 2020.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.cost.ring import ALL_GATHER as RING_ALL_GATHER
from sysgym.emulator.accelerators.cost.ring import ring_time_s
from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import Operations
from sysgym.emulator.training.schedules import schedule_graph, step_operations
from sysgym.scenarios.schema.pipelines import PipelineJob, PipelineScenario

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

STREAM = 0x919E
"""Random stream of jobs."""

BACKWARD_FACTOR = 2.0
"""Operations of a backward pass over those of a forward pass."""
STATE_BYTES = 16.0
"""Bytes of a parameter, its gradient and the states of Adam in mixed precision."""
HALF_BYTES = 2.0


class Layers(NamedTuple):
    """Layers of a transformer: the embedding, the blocks, the head. Arrays have shape (n_layers,).

    Attributes:
        forward_s: Time of a forward pass with a microbatch of mean length.
        parameters: Parameters.
        activation_bytes: Activations of a microbatch that the backward pass needs.
        input_bytes: Input of a microbatch, all that recomputation keeps.
    """

    forward_s: FloatArray
    parameters: FloatArray
    activation_bytes: FloatArray
    input_bytes: FloatArray


class Pipeline(NamedTuple):
    """A job.

    Attributes:
        scenario: The drawn scenario.
        layers: The layers, as the profile has them.
        lengths: Length of each microbatch over the mean, shape (n_data_ranks * n_microbatches,).
        operations: Operations of a step.
        graph: Their dependencies.
    """

    scenario: PipelineScenario
    layers: Layers
    lengths: FloatArray
    operations: Operations
    graph: Graph


class Truth(NamedTuple):
    """What the profile leaves out.

    Attributes:
        layers: Factor of each layer's time, shape (n_layers,).
        operations: Factors of operations in each measured step, shape (n_steps, n_operations).
    """

    layers: FloatArray
    operations: FloatArray


def layers_of(scenario: PipelineScenario) -> Layers:
    """Return the layers by the formulas."""
    job, machine = scenario.job, scenario.machine
    tokens, h = float(job.sequence * job.sequences), float(job.hidden)
    block_flops = tokens * (24.0 * h * h + 4.0 * job.sequence * h)
    head_flops = tokens * 2.0 * h * job.vocabulary
    block_bytes = tokens * h * (34.0 + 5.0 * job.sequence / job.head_size)
    input_bytes = HALF_BYTES * tokens * h
    ends = job.vocabulary * h

    def column(first: float, block: float, last: float) -> FloatArray:
        return np.array([first, *[block] * job.blocks, last])

    return Layers(
        column(0.0, block_flops, head_flops) / machine.flops_per_s,
        column(ends + job.sequence * h, 12.0 * h * h + 13.0 * h, ends),
        column(input_bytes, block_bytes, HALF_BYTES * tokens * job.vocabulary + input_bytes),
        column(0.0, input_bytes, input_bytes),
    )


def draw_job(scenario: PipelineScenario, episode_seed: int) -> tuple[Pipeline, Truth]:
    """Return the job of an episode, and what its profile leaves out.

    Args:
        scenario: The drawn scenario.
        episode_seed: Seed of lengths and factors.
    """
    rng = np.random.default_rng([STREAM, episode_seed])
    job, truth = scenario.job, scenario.truth
    operations, graph = _graph(job.schedule, job.stages, job.data_ranks, job.microbatches)
    lengths = np.exp(rng.normal(0.0, job.length_log_sd, job.data_ranks * job.microbatches))
    pipeline = Pipeline(scenario, layers_of(scenario), lengths / lengths.mean(), operations, graph)
    workers = np.exp(rng.normal(0.0, truth.worker_log_sd, len(operations.ranks)))
    jitter = np.exp(rng.normal(0.0, truth.jitter_log_sd, (truth.steps, len(operations))))
    of_layers = np.exp(rng.normal(0.0, truth.layer_log_sd, job.blocks + 2))
    factors = np.where(operations.computes, workers[operations.rank], 1.0) * jitter
    return pipeline, Truth(of_layers, factors)


def as_thought(pipeline: Pipeline) -> Truth:
    """Return what the profile says of the rest: nothing."""
    return Truth(np.ones(len(pipeline.layers.parameters)), np.ones((1, len(pipeline.operations))))


def gather_s(job: PipelineJob, pipeline: Pipeline, parameters: float) -> float:
    """Return the time in which the data-parallel ranks of a stage gather parameters, or scatter gradients."""
    if job.data_ranks == 1:
        return 0.0
    machine = pipeline.scenario.machine
    size_bytes = HALF_BYTES * parameters
    bandwidth = machine.bandwidth_bps / 8.0
    return float(ring_time_s(RING_ALL_GATHER, job.data_ranks, size_bytes, bandwidth, machine.latency_s))


@lru_cache(maxsize=16)
def _graph(schedule: str, stages: int, data_ranks: int, microbatches: int) -> tuple[Operations, Graph]:
    operations = step_operations(stages, data_ranks, microbatches)
    return operations, schedule_graph(operations, schedule)
