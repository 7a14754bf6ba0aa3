"""Layer tables of a job: time by GPU count, activations, parameters; and what a change of the count costs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.bursts.models import MODELS, REFERENCE_BATCH
from sysgym.scenarios.schema.bursts import BurstScenario

FloatArray = NDArray[np.float64]

STREAM = 0xB0757
"""Random stream of the layers."""

GRADIENT_BYTES = 4.0
"""Bytes of a parameter's gradient."""


class Layers(NamedTuple):
    """Layers of a job on 1, 2, 4 ... GPUs.

    Attributes:
        gpus: GPU counts, ascending, shape (n_counts,).
        compute_s: Forward and backward time of a layer, shape (n_layers, n_counts).
        activation_bytes: Output of a layer for the whole batch, shape (n_layers,).
        parameter_bytes: Gradients of a layer, shape (n_layers,).
    """

    gpus: FloatArray
    compute_s: FloatArray
    activation_bytes: FloatArray
    parameter_bytes: FloatArray

    @property
    def one_gpu_s(self) -> float:
        """Time of an iteration on one GPU."""
        return float(self.compute_s[:, 0].sum())


def gpu_counts(most: int) -> FloatArray:
    """Return the powers of two up to a number."""
    return np.exp2(np.arange(most.bit_length(), dtype=np.float64))


def draw_layers(scenario: BurstScenario, episode_seed: int) -> tuple[Layers, Layers]:
    """Return the layers of an episode as they are, and as their profile has them.

    Stages have factors of their own, drawn with ``job.spread_log_sd``; every entry of the profile has an
    error with ``job.profile_log_sd``. GPU counts beyond the batch take as long as the batch's.
    """
    job = scenario.job
    rng = np.random.default_rng([STREAM, episode_seed])
    stages = MODELS[job.model]
    counts = np.array([stage.layers for stage in stages])
    time_s, fixed = (
        np.array([getattr(stage, name) for stage in stages])
        * np.exp(rng.normal(0.0, job.spread_log_sd, len(stages)))
        for name in ("time_s", "fixed")
    )
    floor, activation_bytes, parameters = (
        np.array([getattr(stage, name) for stage in stages])
        for name in ("floor", "activation_bytes", "parameters")
    )
    fixed = np.minimum(fixed, 0.95)
    gpus = gpu_counts(job.gpus)
    share = np.maximum(job.batch / gpus, 1.0) / REFERENCE_BATCH
    stage_s = (time_s / counts)[:, None] * np.maximum(
        floor[:, None], fixed[:, None] + (1.0 - fixed[:, None]) * share
    )
    compute_s = np.repeat(stage_s, counts, axis=0)
    layers = Layers(
        gpus,
        compute_s,
        np.repeat(activation_bytes * job.batch, counts),
        np.repeat(parameters * GRADIENT_BYTES, counts),
    )
    error = np.exp(rng.normal(0.0, job.profile_log_sd, compute_s.shape))
    return layers, layers._replace(compute_s=compute_s * error)


def step_times_s(layers: Layers, scenario: BurstScenario) -> FloatArray:
    """Return the time that each layer adds to an iteration, shape (n_layers, n_counts before, n_counts).

    It computes, sends the gradients of its parameters if it has several GPUs, and if their number changes,
    receives its input and returns the gradient of it: as many bytes as one GPU has to send or to receive. The
    input of the first layer is everywhere.

    Reference: Park et al., MLSys 2022, section 4; DeepPool, ``parallelizationPlanner.py``.
    """
    bytes_a_s, latency_s = scenario.network.bandwidth_bps / 8.0, scenario.network.latency_s
    gpus = layers.gpus
    synchronise_s = np.where(gpus > 1.0, layers.parameter_bytes[:, None] / bytes_a_s, 0.0)
    moved = np.abs(1.0 / gpus[:, None] - 1.0 / gpus[None, :])
    changes = gpus[:, None] != gpus[None, :]
    inputs = np.concatenate([[0.0], layers.activation_bytes[:-1]])
    move_s = 2.0 * (latency_s * changes + inputs[:, None, None] * moved / bytes_a_s)
    move_s[0] = 0.0
    return np.asarray(move_s + (layers.compute_s + synchronise_s)[:, None, :])
