"""The job: layers with their times and memory, lengths of microbatches, and what the profile leaves out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.cost.ring import ALL_GATHER as RING_ALL_GATHER
from sysgym.emulator.accelerators.cost.ring import ring_time_s
from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import Operations
from sysgym.scenarios.schema.pipelines import PipelineJob, PipelineScenario

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

STATE_BYTES = 16.0
"""Bytes of a parameter, its gradient and the states of Adam in mixed precision (Rajbhandari et al., ZeRO, SC
2020)."""
HALF_BYTES = 2.0


class Layers(NamedTuple):
    """Layers of a model. Arrays have shape (n_layers,).

    Attributes:
        forward_s: Time of a forward pass with a microbatch of mean length.
        backward_s: Time of a backward pass, likewise, if activations are kept.
        parameters: Parameters.
        activation_bytes: Activations of a microbatch that the backward pass needs.
        input_bytes: Input of a microbatch, all that recomputation keeps.
    """

    forward_s: FloatArray
    backward_s: FloatArray
    parameters: FloatArray
    activation_bytes: FloatArray
    input_bytes: FloatArray


class Spans(NamedTuple):
    """Sums and maxima over consecutive layers, 0 where there are none.

    Arrays have shape (n_layers + 1, n_layers): the number of the layer after the last one, and the first one.

    Attributes:
        parameters: Sum of the layers' parameters.
        activation_bytes: Sum of their activations.
        input_bytes: Sum of their inputs.
        largest_bytes: Activations of the layer with the largest ones.
    """

    parameters: FloatArray
    activation_bytes: FloatArray
    input_bytes: FloatArray
    largest_bytes: FloatArray


def spans_of(layers: Layers) -> Spans:
    """Return the sums and maxima over all spans of layers: searches compare thousands of plans."""
    n_layers = len(layers.parameters)
    within = np.tri(n_layers + 1, n_layers, -1)
    parameters, activation_bytes, input_bytes = (
        np.cumsum((within * column)[:, ::-1], axis=1)[:, ::-1]
        for column in (layers.parameters, layers.activation_bytes, layers.input_bytes)
    )
    largest_bytes = np.maximum.accumulate((within * layers.activation_bytes)[:, ::-1], axis=1)[:, ::-1]
    return Spans(parameters, activation_bytes, input_bytes, largest_bytes)


class Pipeline(NamedTuple):
    """A job.

    Attributes:
        scenario: The drawn scenario; of a recorded job with its numbers of stages, ranks and microbatches.
        layers: The layers, as the profile has them; of a recorded job one for each stage.
        spans: Sums and maxima over them.
        lengths: Length of each microbatch over the mean, shape (n_data_ranks * n_microbatches,).
        operations: Operations of a step.
        graph: Their dependencies.
        fixed_s: Durations of all but forward and backward passes by the profile, shape (n_operations,); None:
            they follow from the layers.
    """

    scenario: PipelineScenario
    layers: Layers
    spans: Spans
    lengths: FloatArray
    operations: Operations
    graph: Graph
    fixed_s: FloatArray | None = None


class Truth(NamedTuple):
    """What the profile leaves out.

    Attributes:
        layers: Factor of each layer's time, shape (n_layers,).
        operations: Factors of operations in each measured step, shape (n_steps, n_operations).
        passes: Factors of forward and backward passes that go with a microbatch, shape (2, n_stages,
            n_microbatches of all data-parallel ranks); None: all 1.
    """

    layers: FloatArray
    operations: FloatArray
    passes: FloatArray | None = None


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
