"""Time of an iteration by method, in closed form, after Agarwal et al. (MLSys 2022, arXiv 2103.00543).

Without compression the gradient is exchanged in buckets while the backward pass runs, and only the last
bucket is left after it: ``T = max(g C, (k - 1) AR(b)) + AR(b_last)`` for a backward pass of C seconds, k
buckets of b bytes, and an overlap that slows the backward pass by a factor g; a single bucket overlaps
nothing, and g is 1. So it is with 16 bits a value.
Every other method encodes when the backward pass has ended, exchanges, and decodes:
``T = C + E + exchange``. PowerSGD sums two factors by all-reduces; the values and indices of Top-K, and the
signs, differ between workers and are gathered from all, which takes longer the more there are.

The collectives are rings, with the costs of :mod:`sysgym.emulator.accelerators.cost.ring`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.cost.ring import ALL_GATHER, ALL_REDUCE, ring_time_s
from sysgym.emulator.compiling import cached_kernel
from sysgym.scenarios.schema.compression import METHODS, CompressionScenario

FloatArray = NDArray[np.float64]

NONE, HALF_PRECISION, POWERSGD_1, POWERSGD_4, POWERSGD_8, POWERSGD_16, TOP_K_1, TOP_K_10, SIGN = range(9)
N_METHODS = len(METHODS)
FIRST_WITH_ERROR_FEEDBACK = POWERSGD_1
"""First of the methods that keep what they have not sent; all after it do so too."""

FIRST_GATHERED = TOP_K_1

_VALUE_BYTES = 4.0
_INDEX_BYTES = 4.0


class Job(NamedTuple):
    """What the time of an iteration depends on beside bandwidth, workers and the backward pass.

    ``sent_bytes`` and ``encoding_s``, [n methods], are the bytes that a worker contributes to the exchange,
    and the time of encoding and decoding. A bucket has ``bucket_share`` of the gradient.
    """

    forward_s: float
    overlap_slowdown: float
    bucket_share: float
    latency_s: float
    sent_bytes: FloatArray
    encoding_s: FloatArray


def job_of(scenario: CompressionScenario) -> Job:
    """Return the job of a drawn scenario."""
    job, encoding = scenario.job, scenario.encoding
    values = job.gradient_bytes / _VALUE_BYTES
    half = 0.5 * job.gradient_bytes
    rank_1 = job.gradient_bytes / (4.0 * encoding.rank_4_ratio)
    sent = [
        half if job.half_precision else job.gradient_bytes,
        half,
        *(rank * rank_1 for rank in (1, 4, 8, 16)),
        *(share * values * (_VALUE_BYTES + _INDEX_BYTES) for share in (0.01, 0.10)),
        values / 8.0,
    ]
    scale = encoding.scale * job.gradient_bytes / encoding.gradient_bytes
    times = [0.0, *(scale * getattr(encoding, f"{method}_s") for method in METHODS[1:])]
    if job.half_precision:
        times[HALF_PRECISION] = 0.0
    return Job(
        job.forward_s,
        job.overlap_slowdown,
        min(job.bucket_bytes / job.gradient_bytes, 1.0),
        scenario.network.latency_s,
        np.array(sent),
        np.array(times),
    )


@cached_kernel("sysgym.emulator.accelerators")
def iteration_times_s(
    job: Job, goodput_bps: FloatArray, workers: NDArray[np.int64], backward_s: FloatArray
) -> FloatArray:
    """Return the time of an iteration by each method under n conditions, float64 [n, n methods].

    Args:
        job: The job.
        goodput_bps: Bandwidth that a worker's link has left, bit/s, [n].
        workers: Number of workers, [n].
        backward_s: Backward pass of the slowest worker, [n].
    """
    times_s = np.empty((goodput_bps.size, N_METHODS))
    for index in range(goodput_bps.size):
        for method in range(N_METHODS):
            times_s[index, method] = iteration_time_s(
                job, method, goodput_bps[index], workers[index], backward_s[index]
            )
    return times_s


@cached_kernel("sysgym.emulator.accelerators")
def iteration_time_s(job: Job, method: int, goodput_bps: float, workers: int, backward_s: float) -> float:
    """Return the time of an iteration by one method."""
    bandwidth = goodput_bps / 8.0
    size_bytes, encoding_s = job.sent_bytes[method], job.encoding_s[method]
    if method < FIRST_WITH_ERROR_FEEDBACK:
        buckets = math.ceil(1.0 / job.bucket_share - 1e-9)
        bucket_bytes = job.bucket_share * size_bytes
        bucket_s = ring_time_s(ALL_REDUCE, workers, bucket_bytes, bandwidth, job.latency_s)
        last_bytes = size_bytes - (buckets - 1) * bucket_bytes
        last_s = ring_time_s(ALL_REDUCE, workers, last_bytes, bandwidth, job.latency_s)
        slowdown = job.overlap_slowdown if buckets > 1 else 1.0
        overlapped_s = max(slowdown * backward_s, (buckets - 1) * bucket_s)
        return float(job.forward_s + overlapped_s + last_s + encoding_s)
    after_s = encoding_s + exchange_s(job, method, goodput_bps, workers)
    return float(job.forward_s + backward_s + after_s)


@cached_kernel("sysgym.emulator.accelerators")
def exchange_s(job: Job, method: int, goodput_bps: float, workers: int) -> float:
    """Return how long a method's exchange occupies the links in one iteration."""
    bandwidth = goodput_bps / 8.0
    size_bytes = job.sent_bytes[method]
    if method < FIRST_WITH_ERROR_FEEDBACK:
        buckets = math.ceil(1.0 / job.bucket_share - 1e-9)
        link_s = ring_time_s(ALL_REDUCE, workers, size_bytes, bandwidth, 0.0)
        return link_s + buckets * ring_time_s(ALL_REDUCE, workers, 0.0, bandwidth, job.latency_s)
    if method < FIRST_GATHERED:
        # Its two factors are summed one after the other.
        return 2.0 * ring_time_s(ALL_REDUCE, workers, 0.5 * size_bytes, bandwidth, job.latency_s)
    # The vector that everyone has at the end is the contributions of all; Top-K gathers values and indices.
    parts = 1.0 if method == SIGN else 2.0
    return parts * ring_time_s(ALL_GATHER, workers, workers * size_bytes / parts, bandwidth, job.latency_s)
