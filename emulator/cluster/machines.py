"""Machines: slowness of each resource of each machine, load of other jobs, and interference.

Three resources: CPU, memory bandwidth, disk. All times are in measuring windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from sysgym.emulator.cluster.job import FloatArray
from sysgym.scenarios.schema.stragglers import Cluster, GeneratedJobs

CPU, MEMORY, DISK = 0, 1, 2
N_RESOURCES = 3

MEDIANS_OF_LOAD = 12
"""Load on the machines is drawn for this many medians and then repeats."""

_MEAN_DEMAND = 0.4
"""Mean demand of one background job on the resource that it uses most, as a share of its capacity."""
_DURATION_LOG_SD = 1.0
_NEVER = 1e-12
"""Rates below this count as zero: no number of jobs would show them."""

_Draw = Callable[[int], FloatArray]


class Slowness(NamedTuple):
    """Slowness of machines over time.

    Attributes:
        total: Factor by which the time per unit of work grows, shape (n_machines, n_windows, N_RESOURCES).
        own: Part of that factor that is the machine's own, without load, shape (n_machines, N_RESOURCES).
    """

    total: FloatArray
    own: FloatArray


def draw_machines(cluster: Cluster, rng: Generator) -> FloatArray:
    """Return the slowness of each resource of each machine, relative to a normal machine.

    The distributions follow measurements of 43,617 short-lived virtual machines (TUNA, EuroSys 2025; data of
    Azure/AzurePublicDataset, vm-noise-data, CC-BY 4.0): CPU speed is almost the same everywhere, memory
    bandwidth has a second mode at 1.5 to 1.7 in one or two machines of a hundred, and disks differ widely.
    The scenario's slow machines are added.

    Returns:
        Factors around 1, shape (machines, N_RESOURCES).
    """
    n = cluster.machines
    own = np.empty((n, N_RESOURCES))
    own[:, CPU] = np.exp(0.002 * rng.standard_normal(n))
    own[:, MEMORY] = np.exp(0.05 * rng.standard_normal(n))
    second_mode = rng.random(n) < 0.015
    own[:, MEMORY] *= np.where(second_mode, rng.uniform(1.5, 1.7, n), 1.0)
    own[:, DISK] = np.exp(0.3 * rng.standard_normal(n))
    slow = rng.random(n) < cluster.slow_machine_fraction
    # Throttled CPUs and failing disks are the usual cases; slow memory is rarest.
    resource = rng.choice(N_RESOURCES, size=n, p=(0.5, 0.2, 0.3))
    factor = rng.uniform(cluster.slow_machine_factor_min, cluster.slow_machine_factor_max, n)
    own[slow, resource[slow]] *= factor[slow]
    return own


def draw_slowness(jobs: GeneratedJobs, own: FloatArray, strength: float, rng: Generator) -> Slowness:
    """Return the slowness of machines over time: their own slowness, other jobs' load, and episodes.

    Args:
        jobs: The scenario's jobs.
        own: Slowness of the machines themselves, shape (n_machines, N_RESOURCES).
        strength: Sensitivity of this job to load.
        rng: Stream of this attempt.
    """
    n_machines, per_median = len(own), jobs.windows_per_median
    n_windows = MEDIANS_OF_LOAD * per_median
    cluster = jobs.cluster
    duration = cluster.background_duration * per_median
    # Load = arrivals per window x duration x demand.
    load = _occupancy(
        (n_machines, n_windows),
        cluster.background_load / (duration * _MEAN_DEMAND),
        cluster.burstiness,
        lambda n: duration * np.exp(_DURATION_LOG_SD * rng.standard_normal(n) - 0.5 * _DURATION_LOG_SD**2),
        lambda n: rng.exponential(_MEAN_DEMAND, n),
        rng,
    )
    low, high = math.log(jobs.interference_factor_min), math.log(jobs.interference_factor_max)
    episodes = _occupancy(
        (n_machines, n_windows),
        jobs.interference_rate / (per_median * N_RESOURCES),
        1.0,
        lambda n: rng.exponential(jobs.interference_duration * per_median, n),
        lambda n: rng.uniform(low, high, n),
        rng,
    )
    return Slowness(own[:, None, :] * (1.0 + strength * _contention(load)) * np.exp(episodes), own)


def _contention(load: FloatArray) -> FloatArray:
    """Return the slowdown of each resource by load, before the job's own sensitivity; changes ``load``."""
    # Cores are shared in proportion. Memory latency stays flat until bandwidth runs short. A disk queues: the
    # time in an M/M/1 queue grows as load / (1 - load); closed loops keep it finite.
    load[..., MEMORY] **= 2
    load[..., DISK] /= 1.0 - np.minimum(load[..., DISK], 0.75)
    return load


def _occupancy(
    shape: tuple[int, int],
    rate: float,
    burstiness: float,
    draw_duration: _Draw,
    draw_height: _Draw,
    rng: Generator,
) -> FloatArray:
    """Return the mean over each window of the sum of the heights of random events.

    Events arrive at random times, occupy one resource of a machine for a while, and leave. Time is circular,
    so that the first windows are like all others.

    Args:
        shape: Numbers of machines and windows.
        rate: Arrivals on each resource of a machine per window.
        burstiness: Coefficient of variation of the time between arrivals; above 1 it is hyperexponential
            with balanced means.
        draw_duration: Returns durations in windows for n arrivals.
        draw_height: Returns heights for n arrivals.
        rng: Stream of the arrival times.

    Returns:
        Shape (machines, windows, N_RESOURCES).
    """
    n_machines, n_windows = shape
    if rate < _NEVER:
        return np.zeros((n_machines, n_windows, N_RESOURCES))
    square = burstiness**2
    mean_count = rate * n_windows
    most = math.ceil(mean_count + 4.0 * math.sqrt(square * mean_count)) + 4
    often = 0.5 * (1.0 + math.sqrt((square - 1.0) / (square + 1.0)))
    probability = np.full(most, often)
    # Time does not begin with an arrival: either kind of gap is under way with the same probability.
    probability[0] = 0.5
    is_short = rng.random((n_machines * N_RESOURCES, most)) < probability
    gaps = rng.standard_exponential(is_short.shape)
    gaps /= np.where(is_short, 2.0 * often * rate, 2.0 * (1.0 - often) * rate)
    times = np.cumsum(gaps, axis=1)
    series, _ = within = np.nonzero(times < n_windows)
    start = times[within]
    end = start + np.minimum(draw_duration(len(start)), n_windows)
    height = draw_height(len(start))
    # Events that are active at the end of the circle are active at its beginning.
    wraps = end >= n_windows
    end[wraps] -= n_windows
    # A step at time x raises the mean of its own window by the part after x, and all later ones by 1.
    length = n_windows + 1
    cells, weights = [series[wraps] * length], [height[wraps]]
    for time, rise in ((start, height), (end, -height)):
        window = time.astype(np.int64)
        part = time - window
        # A step at the very end of the circle raises nothing.
        window = series * length + np.minimum(window, n_windows - 1)
        cells += [window, window + 1]
        weights += [rise * (1.0 - part), rise * part]
    steps = np.bincount(
        np.concatenate(cells), np.concatenate(weights), minlength=n_machines * N_RESOURCES * length
    )
    mean = steps.reshape(n_machines, N_RESOURCES, length)[..., :n_windows].cumsum(axis=2)
    # Sums that should return to zero are subject to rounding.
    positive: FloatArray = np.maximum(mean, 0.0).transpose(0, 2, 1).copy()
    return positive
