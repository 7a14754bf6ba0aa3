"""Generated jobs: transformers by the formulas, with hidden factors.

Operations of a block's forward pass: Narayanan et al., Efficient Large-Scale Language Model Training on GPU
Clusters Using Megatron-LM, SC 2021. Bytes of activations: Korthikanti et al., Reducing Activation
Recomputation in Large Transformer Models, 2022.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sysgym.emulator.pipelines.job import HALF_BYTES, FloatArray, Layers, Pipeline, Truth, spans_of
from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import Operations
from sysgym.emulator.training.schedules import schedule_graph, step_operations
from sysgym.scenarios.schema.pipelines import PipelineScenario

STREAM = 0x919E
"""Random stream of jobs."""

BACKWARD_FACTOR = 2.0
"""Operations of a backward pass over those of a forward pass."""


class Transformer(NamedTuple):
    """Sizes of a transformer and its microbatches.

    Attributes:
        blocks: Transformer blocks.
        hidden: Hidden size.
        head_size: Size of an attention head.
        sequence: Tokens of a sequence.
        vocabulary: Tokens of the vocabulary.
        sequences: Sequences of a microbatch.
    """

    blocks: int
    hidden: int
    head_size: int
    sequence: int
    vocabulary: int
    sequences: int


def layers_of(scenario: PipelineScenario) -> Layers:
    """Return the layers of a scenario by the formulas."""
    one = scenario.job
    shape = Transformer(one.blocks, one.hidden, one.head_size, one.sequence, one.vocabulary, one.sequences)
    return transformer_layers(shape, scenario.machine.flops_per_s)


def transformer_layers(job: Transformer, flops_per_s: float) -> Layers:
    """Return the layers by the formulas: the embedding, the blocks, the head.

    Args:
        job: Sizes.
        flops_per_s: Operations that an accelerator does in a second.
    """
    tokens, h = float(job.sequence * job.sequences), float(job.hidden)
    block_flops = tokens * (24.0 * h * h + 4.0 * job.sequence * h)
    head_flops = tokens * 2.0 * h * job.vocabulary
    block_bytes = tokens * h * (34.0 + 5.0 * job.sequence / job.head_size)
    input_bytes = HALF_BYTES * tokens * h
    ends = job.vocabulary * h

    def column(first: float, block: float, last: float) -> FloatArray:
        return np.array([first, *[block] * job.blocks, last])

    forward_s = column(0.0, block_flops, head_flops) / flops_per_s
    return Layers(
        forward_s,
        BACKWARD_FACTOR * forward_s,
        column(ends + job.sequence * h, 12.0 * h * h + 13.0 * h, ends),
        column(input_bytes, block_bytes, HALF_BYTES * tokens * job.vocabulary + input_bytes),
        column(0.0, input_bytes, input_bytes),
    )


def generated_job(scenario: PipelineScenario, episode_seed: int) -> tuple[Pipeline, Truth]:
    """Return a job of the scenario's sizes, and what its profile leaves out.

    Args:
        scenario: The drawn scenario.
        episode_seed: Seed of lengths and factors.
    """
    rng = np.random.default_rng([STREAM, episode_seed])
    job, truth = scenario.job, scenario.truth
    operations, graph = _graph(job.schedule, job.stages, job.data_ranks, job.microbatches)
    lengths = np.exp(rng.normal(0.0, job.length_log_sd, job.data_ranks * job.microbatches))
    layers = layers_of(scenario)
    pipeline = Pipeline(scenario, layers, spans_of(layers), lengths / lengths.mean(), operations, graph)
    workers = np.exp(rng.normal(0.0, truth.worker_log_sd, len(operations.ranks)))
    jitter = np.exp(rng.normal(0.0, truth.jitter_log_sd, (truth.steps, len(operations))))
    of_layers = np.exp(rng.normal(0.0, truth.layer_log_sd, job.blocks + 2))
    factors = np.where(operations.computes, workers[operations.rank], 1.0) * jitter
    return pipeline, Truth(of_layers, factors)


@lru_cache(maxsize=16)
def _graph(schedule: str, stages: int, data_ranks: int, microbatches: int) -> tuple[Operations, Graph]:
    operations = step_operations(stages, data_ranks, microbatches)
    return operations, schedule_graph(operations, schedule)
