"""Model of the counters: from the causes of a task's progress to its measured counters.

Time per unit of work is the sum over resources of the share that the task spends there times the slowness
there. The counters follow from it. Waiting for a core or a disk is not CPU time, so contention there lowers
the CPU rate. Waiting for memory is CPU time, and raises the cycles per instruction instead. A slow disk
raises the time in I/O. More data alone changes none of these.

Each counter is the product of a level of the job, the effect of the causes raised to the scenario's
informativeness, the task's own habit, and noise of the window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sysgym.emulator.cluster.counters import PROFILES
from sysgym.emulator.cluster.job import FloatArray
from sysgym.emulator.cluster.machines import CPU, DISK, MEMORY

Float32Array = NDArray[np.float32]


class Moments(NamedTuple):
    """Windows in the lives of attempts, one row each; K of them.

    Attributes:
        task: Task of each, shape (K,).
        slowness: Slowness of the resources there and then, shape (K, N_RESOURCES).
        running: Share of the window in which the attempt does not stall, shape (K,).
        elapsed: Time since the attempt's start in medians, at the window's middle, shape (K,).
        done: Work done by then, in units of the typical task's, shape (K,).
        work: The task's whole work, in units of the typical task's, shape (K,).
        stalls_begin: Number of faults that begin in the window, shape (K,).
    """

    task: NDArray[np.int64]
    slowness: FloatArray
    running: FloatArray
    elapsed: FloatArray
    done: FloatArray
    work: FloatArray
    stalls_begin: FloatArray


class Meter(NamedTuple):
    """Model of one job's counters.

    Attributes:
        profile: Name of the profile.
        shares: Share of time that a task spends on each resource when nothing is slow; sums to 1.
        levels: Typical value of every counter, shape (C,).
        habits: Log of the peculiar level of each task, shape (n_tasks, C).
        noise: Log standard deviation of every counter in a window, shape (C,).
        informativeness: Power to which effects of the causes are raised.
    """

    profile: str
    shares: FloatArray
    levels: FloatArray
    habits: Float32Array
    noise: FloatArray
    informativeness: float


class _Kind(NamedTuple):
    """Parameters of a counter: effect, level, spread of the level over jobs and over tasks, noise."""

    effect: str
    level: float
    over_jobs: float
    over_tasks: float
    noise: float


_HABIT = 0.03
"""Spread of irrelevant differences between tasks of one job, log standard deviation."""

_KINDS: dict[str, _Kind] = {
    # Levels are of the order seen in the traces; spreads and noise are ours.
    "cpu_rate": _Kind("cpu", 0.03, 0.7, _HABIT, 1.0),
    "canonical_memory": _Kind("memory", 0.02, 0.8, 2 * _HABIT, 0.2),
    "assigned_memory": _Kind("limit", 0.04, 0.8, 0.0, 0.0),
    "unmapped_page_cache": _Kind("cache", 0.001, 0.8, 5 * _HABIT, 0.5),
    "total_page_cache": _Kind("cache", 0.003, 0.8, 5 * _HABIT, 0.5),
    "max_memory": _Kind("memory", 0.025, 0.8, 2 * _HABIT, 0.4),
    "disk_io_time": _Kind("disk", 0.01, 0.8, 2 * _HABIT, 1.5),
    "local_disk_space": _Kind("space", 0.0002, 0.8, 3 * _HABIT, 0.2),
    "max_cpu_rate": _Kind("cpu", 0.08, 0.7, 2 * _HABIT, 1.5),
    "max_disk_io_time": _Kind("disk", 0.05, 0.8, 2 * _HABIT, 2.0),
    "cycles_per_instruction": _Kind("cpi", 1.5, 0.3, _HABIT, 0.6),
    "memory_accesses_per_instruction": _Kind("mai", 0.01, 0.5, _HABIT, 0.8),
    "sampled_cpu_rate": _Kind("cpu", 0.03, 0.7, _HABIT, 3.0),
    "evictions": _Kind("evictions", 1.0, 0.0, 0.0, 0.0),
    "failures": _Kind("failures", 1.0, 0.0, 0.0, 0.0),
    "cpu_avg": _Kind("cpu", 60.0, 0.5, _HABIT, 1.0),
    "cpu_max": _Kind("cpu", 120.0, 0.4, 2 * _HABIT, 1.5),
    "mem_avg": _Kind("memory", 0.3, 0.6, 2 * _HABIT, 0.2),
    "mem_max": _Kind("memory", 0.35, 0.6, 2 * _HABIT, 0.4),
}
_SAME_LEVEL = {"sampled_cpu_rate": "cpu_rate"}
"""Counters with the same level: a one-second sample of the CPU rate is a measurement of the CPU rate."""

_MEMORY_OF_WORK = 0.1
"""Power of a task's work in its memory."""


def draw_meter(
    profile: str,
    n_tasks: int,
    counter_noise: float,
    informativeness: float,
    shares: FloatArray,
    rng: Generator,
) -> Meter:
    """Draw the model of a job's counters: levels of the job, habits of its tasks.

    Args:
        profile: Name of the profile.
        n_tasks: Number of tasks of the job.
        counter_noise: Log standard deviation of the CPU rate in a window; others in proportion.
        informativeness: Power to which effects of the causes are raised.
        shares: Share of time that a task spends on each resource when nothing is slow, shape (N_RESOURCES,).
        rng: Stream of the job's levels and habits.
    """
    names = [counter.name for counter in PROFILES[profile]]
    kinds = [_KINDS[name] for name in names]
    jobs_spread = np.array([kind.over_jobs for kind in kinds])
    # One draw for each effect: a job with much CPU has much of all that measures CPU.
    effects = sorted({kind.effect for kind in kinds})
    normal = dict(zip(effects, rng.standard_normal(len(effects)), strict=True))
    levels = np.array([kind.level for kind in kinds]) * np.exp(
        jobs_spread * np.array([normal[kind.effect] for kind in kinds])
    )
    for name, same in _SAME_LEVEL.items():
        if name in names:
            levels[names.index(name)] = levels[names.index(same)]
    habits = rng.standard_normal((n_tasks, len(names)), dtype=np.float32)
    habits *= np.array([kind.over_tasks for kind in kinds], dtype=np.float32)
    noise = counter_noise * np.array([kind.noise for kind in kinds])
    return Meter(profile, shares, levels, habits, noise, informativeness)


def measure(meter: Meter, moments: Moments, rng: Generator) -> Float32Array:
    """Return the counters of windows.

    Args:
        meter: Model of the job's counters.
        moments: Causes in the windows.
        rng: Stream of the attempt's noise.

    Returns:
        Shape (K, C), not negative.
    """
    names = [counter.name for counter in PROFILES[meter.profile]]
    effects = _effects(meter, moments)
    shape = (len(moments.task), len(names))
    log = rng.standard_normal(shape, dtype=np.float32)
    log *= meter.noise.astype(np.float32)
    log += meter.habits[moments.task]
    values = np.exp(log, out=log)
    values *= meter.levels.astype(np.float32)
    is_eviction, is_seen = rng.random((2, shape[0]))
    events = moments.stalls_begin * (is_seen < meter.informativeness)
    for column, name in enumerate(names):
        effect = _KINDS[name].effect
        if effect == "evictions":
            values[:, column] = events * (is_eviction < 0.5)
        elif effect == "failures":
            values[:, column] = events * (is_eviction >= 0.5)
        elif effect != "limit":
            values[:, column] *= effects[effect]
    return values


def _effects(meter: Meter, moments: Moments) -> dict[str, Float32Array]:
    """Return the effects of the causes on each kind of counter: factors around 1, shape (K,) each."""
    cpu_share, memory_share = meter.shares[[CPU, MEMORY]]
    slow_cpu, slow_memory, slow_disk = (moments.slowness[:, resource] for resource in (CPU, MEMORY, DISK))
    time = moments.slowness @ meter.shares
    busy = cpu_share + memory_share
    on_cpu = (cpu_share + memory_share * slow_memory) / busy
    effects = {
        "cpu": moments.running * on_cpu / time,
        "disk": moments.running * slow_disk / time,
        # Tasks that share a core share its first caches, too.
        "cpi": (cpu_share * (1.0 + 0.1 * (slow_cpu - 1.0)) + memory_share * slow_memory) / busy,
        "mai": np.sqrt(slow_memory),
        # Larger inputs need a little more memory; it is touched in the first tenth of a typical life.
        "memory": moments.work**_MEMORY_OF_WORK * (0.7 + 0.3 * np.minimum(1.0, 10.0 * moments.elapsed)),
        "cache": 1.05 - np.exp(-2.0 * moments.done),
        "space": 0.2 + moments.done,
    }
    return {name: (factor**meter.informativeness).astype(np.float32) for name, factor in effects.items()}
