"""Jobs: durations and gradients of layers, the network as it is thought to be, and what it really does."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.training.generated.models import MODELS
from sysgym.scenarios.schema.tuning import TuningScenario

FloatArray = NDArray[np.float64]

STREAM = 0x7A9E
"""Random stream of jobs."""

GRADIENT_BYTES = 4.0
"""Bytes of a parameter's gradient."""

BACKWARD = 2.0
"""Backward time over forward time: two products of matrices instead of one."""

_N_JITTER = 512
_N_PHASES = 64


class Profile(NamedTuple):
    """What is known of a job. Layers are in the order in which gradients are ready, the last one first.

    Attributes:
        backward_s: Backward time of each layer, shape (n_layers,).
        forward_s: Forward time, likewise.
        gradient_bytes: Gradients, likewise.
        n_workers: Workers.
        bandwidth_bytes_per_s: Bandwidth of a worker.
        latency_s: Latency of a hop of the ring.
    """

    backward_s: FloatArray
    forward_s: FloatArray
    gradient_bytes: FloatArray
    n_workers: int
    bandwidth_bytes_per_s: float
    latency_s: float

    @property
    def compute_s(self) -> float:
        """Time of a step without communication."""
        return float(self.backward_s.sum() + self.forward_s.sum())


class Truth(NamedTuple):
    """What the profile leaves out.

    Attributes:
        chunk_bytes: Transfers can be overtaken after so many bytes.
        launch_s: Time that each bucket takes from computing.
        overlap_slowdown: How much longer computing takes while gradients are sent.
        jitter: Factors of the times of chunks, in the order in which they are sent, shape (n,).
        background: Share of the bandwidth that others use, by phase, shape (n_phases,).
        phase_s: Duration of a phase.
    """

    chunk_bytes: float
    launch_s: float
    overlap_slowdown: float
    jitter: FloatArray
    background: FloatArray
    phase_s: float


def draw_job(scenario: TuningScenario, episode_seed: int) -> tuple[Profile, Truth]:
    """Return the job of an episode; layers have factors drawn with ``job.spread_log_sd``."""
    job, network = scenario.job, scenario.network
    rng = np.random.default_rng([STREAM, episode_seed])
    layers = MODELS[job.model][::-1]
    parameters, flops = np.array([(layer.parameters, layer.forward_flops) for layer in layers]).T
    forward_s = job.batch * flops / job.flops_per_s * np.exp(rng.normal(0.0, job.spread_log_sd, len(flops)))
    profile = Profile(
        BACKWARD * forward_s,
        forward_s,
        parameters * GRADIENT_BYTES,
        job.workers,
        network.bandwidth_bps / 8.0,
        network.latency_s,
    )
    truth = scenario.truth
    busy = rng.random(_N_PHASES) < truth.background_probability
    phases = Truth(
        truth.chunk_bytes,
        truth.launch_s,
        truth.overlap_slowdown,
        np.exp(rng.normal(0.0, truth.jitter_log_sd, _N_JITTER)),
        np.where(busy, truth.background_share, 0.0),
        truth.background_s,
    )
    return profile, phases


def as_thought(profile: Profile) -> Truth:
    """Return what the profile says of the rest: nothing; transfers cannot be overtaken."""
    return Truth(float(np.inf), 0.0, 0.0, np.ones(1), np.zeros(1), 1.0)
