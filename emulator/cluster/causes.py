"""Causes of differences between the tasks of a job: work, faults, and the dominant cause of each task."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sysgym.emulator.cluster.job import CAUSES, FloatArray
from sysgym.scenarios.schema.stragglers import GeneratedJobs

MOST_FAULTS = 4
"""Most faults of one attempt; later ones are ignored."""

_HEAVY_TASKS = 0.1
"""Share of the tasks of a heavy-tailed job whose work is drawn from the tail."""
_MOST_WORK = 30.0
"""Largest work of a task, in units of the typical task's."""
_NEVER = 1e-12
"""Rates below this count as zero: no number of jobs would show them."""
_WORTH_NAMING = 0.05
"""A cause that makes a task slower than the median task by less than this share is not named."""


def draw_work(jobs: GeneratedJobs, n_tasks: int, rng: Generator) -> FloatArray:
    """Return the work of each task in units of the typical task's; its spread is the data's skew.

    The distribution is log-normal, with a few tasks of small or empty inputs, and a Pareto tail in some jobs.

    Args:
        jobs: The scenario's jobs.
        n_tasks: Number of tasks.
        rng: Stream of the work.

    Returns:
        Positive, shape (n_tasks,).
    """
    log_sd = np.exp(rng.normal(jobs.skew_log_sd_mean, jobs.skew_log_sd_sd))
    short_share = min(1.0, jobs.short_fraction * 0.5 * rng.standard_exponential() ** 2)
    is_heavy = rng.random() < jobs.heavy_fraction
    work = np.exp(np.clip(log_sd * rng.standard_normal(n_tasks), -4.0, 4.0))
    in_tail = is_heavy & (rng.random(n_tasks) < _HEAVY_TASKS)
    work[in_tail] *= (1.0 + rng.pareto(jobs.heavy_alpha, n_tasks))[in_tail]
    is_short = rng.random(n_tasks) < short_share
    work[is_short] *= rng.uniform(0.05, 1.0, n_tasks)[is_short]
    limited: FloatArray = np.minimum(work, _MOST_WORK)
    return limited


def draw_faults(jobs: GeneratedJobs, n_tasks: int, rng: Generator) -> tuple[FloatArray, FloatArray]:
    """Return the times at which an attempt of each task stalls.

    Args:
        jobs: The scenario's jobs.
        n_tasks: Number of attempts, one for each task.
        rng: Stream of the attempt.

    Returns:
        Start and end of each stall in windows after the attempt's start, both of shape (n_tasks,
        MOST_FAULTS), in order and without overlaps.
    """
    shape, per_median = (n_tasks, MOST_FAULTS), jobs.windows_per_median
    gaps = rng.standard_exponential(shape)
    stalls = rng.standard_exponential(shape) * (jobs.fault_duration * per_median)
    if jobs.fault_rate < _NEVER:
        never = np.full(shape, np.inf)
        return never, never
    gaps *= per_median / jobs.fault_rate
    end = np.cumsum(gaps + stalls, axis=1)
    return end - stalls, end


def running_share(windows: FloatArray, fault_start: FloatArray, fault_end: FloatArray) -> FloatArray:
    """Return the share of each window in which an attempt does not stall.

    Args:
        windows: Index of each window as a float, broadcast against the faults without their last axis.
        fault_start: Starts of the stalls; the last axis has length MOST_FAULTS.
        fault_end: Ends of the stalls, of the same shape.
    """
    first = windows[..., None]
    overlap = np.minimum(fault_end, first + 1.0) - np.maximum(fault_start, first)
    share: FloatArray = 1.0 - np.maximum(overlap, 0.0).sum(axis=-1)
    return share


def name_causes(
    skew: FloatArray, slow_machine: FloatArray, interference: FloatArray, fault: FloatArray
) -> NDArray[np.int8]:
    """Return the cause that slows each task most.

    Args:
        skew: Log of the factor by which a task's own work lengthens it, shape (n_tasks,).
        slow_machine: The same for its machine.
        interference: The same for load and episodes on that machine.
        fault: The same for stalls.

    Returns:
        Index into ``CAUSES`` of the largest excess over the job's median task; ``none`` where all are small.
    """
    logs = np.stack([skew, slow_machine, interference, fault])
    excess = logs - np.median(logs, axis=1, keepdims=True)
    names = ("skew", "slow machine", "interference", "fault")
    largest = np.array([CAUSES.index(name) for name in names], dtype=np.int8)[excess.argmax(axis=0)]
    none = np.int8(CAUSES.index("none"))
    return np.where(excess.max(axis=0) < np.log1p(_WORTH_NAMING), none, largest)
