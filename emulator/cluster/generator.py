"""Jobs drawn from causes: machines, contention, data skew, interference and faults.

A task has an amount of work. In every window it progresses at a rate that follows from the current slowness
of its machine's resources. It ends when its work is done, and its counters are derived from the same causes.
No quantity is drawn without a cause: neither the duration nor its correlates. Another attempt has the same
work, and its own machine, stalls and noise.

Every part draws from its own stream of the job's seed, so that attempt 1 does not depend on the number of
attempts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from sysgym.emulator.cluster.causes import draw_faults, draw_work, name_causes, running_share
from sysgym.emulator.cluster.counters import counter_names
from sysgym.emulator.cluster.job import FloatArray, Job
from sysgym.emulator.cluster.machines import MEDIANS_OF_LOAD, Slowness, draw_machines, draw_slowness
from sysgym.emulator.cluster.measurement import Moments, draw_meter, measure
from sysgym.scenarios.schema.stragglers import GeneratedJobs

IntArray = NDArray[np.int64]

_SIZE, _MACHINES, _WORK, _METER, _ATTEMPT = range(5)
"""Random streams of a job's seed."""
_PLACEMENT, _LUCK, _FAULTS, _NOISE = range(4)
"""Random streams of an attempt."""

_SHARES = (5.0, 1.2, 0.4)
"""Dirichlet parameters of a job's time on CPU, memory and disk."""


class Attempts(NamedTuple):
    """One attempt of every task: its machine, rate and duration.

    Attributes:
        machine: Machine of each, shape (n_tasks,).
        duration: Windows until the work is done, shape (n_tasks,).
        task: Task of each window of an attempt's life; all lives are concatenated, shape (K,).
        window: Its index in the life, shape (K,).
        length: Part of the window in which the attempt lives, in (0, 1], shape (K,).
        rate: Work done in that time per window, shape (K,); 1 is the job's typical rate.
        slowness: Slowness of the machine's resources, shape (K, N_RESOURCES).
        running: Share of the window without stalls, shape (K,).
        stalls_begin: Number of stalls that begin in the window, shape (K,).
        stalled: Total stall time of each attempt in windows, shape (n_tasks,).
    """

    machine: IntArray
    duration: FloatArray
    task: IntArray
    window: IntArray
    length: FloatArray
    rate: FloatArray
    slowness: FloatArray
    running: FloatArray
    stalls_begin: FloatArray
    stalled: FloatArray


class World(NamedTuple):
    """A job and its machines, before any attempt.

    Attributes:
        n_tasks: Number of tasks.
        base_s: Latency of the typical task, s.
        start: Start of first attempts, in medians after submission, shape (n_tasks,).
        strength: Sensitivity of the job to load.
        shares: Share of time that its tasks spend on each resource, shape (N_RESOURCES,).
        work: Work of each task, in units of the typical task's, shape (n_tasks,).
        own: Slowness of the machines, shape (machines, N_RESOURCES).
    """

    n_tasks: int
    base_s: float
    start: FloatArray
    strength: float
    shares: FloatArray
    work: FloatArray
    own: FloatArray


def generate_job(jobs: GeneratedJobs, seed: int, attempts: int = 1) -> Job:
    """Return the job of a seed.

    Args:
        jobs: Parameters of the jobs.
        seed: Seed of the job; the same seed gives the same bytes in every process.
        attempts: Number of attempts drawn for every task, at least 1.
    """
    world = draw_world(jobs, seed)
    lives = [simulate_attempt(jobs, world, seed, attempt) for attempt in range(attempts)]
    meter = draw_meter(
        jobs.profile,
        world.n_tasks,
        jobs.counter_noise,
        jobs.informativeness,
        world.shares,
        _stream(seed, _METER),
    )
    names = counter_names(jobs.profile)
    n_windows = max(int(life.window.max()) + 1 for life in lives)
    # Zeros that are never written take no memory.
    counters = np.zeros((world.n_tasks, attempts, n_windows, len(names)), dtype=np.float32)
    for attempt, life in enumerate(lives):
        moments = _moments(world, life, jobs.windows_per_median)
        noise = _stream(seed, _ATTEMPT, attempt, _NOISE)
        counters[life.task, attempt, life.window] = measure(meter, moments, noise)
    window_s = world.base_s / jobs.windows_per_median
    return Job(
        name=f"{jobs.profile}-{seed}",
        window_s=window_s,
        counter_names=names,
        start_s=world.start * world.base_s,
        duration_s=np.stack([life.duration for life in lives], axis=1) * window_s,
        counters=counters,
        cause=_causes(world, lives[0]),
    )


def draw_world(jobs: GeneratedJobs, seed: int) -> World:
    """Return a job's size, kind, work and machines.

    Args:
        jobs: Parameters of the jobs.
        seed: Seed of the job.
    """
    rng = _stream(seed, _SIZE)
    low, high = math.log(jobs.tasks_min), math.log(jobs.tasks_max + 1)
    n_tasks = min(int(math.exp(rng.uniform(low, high))), jobs.tasks_max)
    base_s = math.exp(rng.normal(jobs.base_time_log_mean, jobs.base_time_log_sd))
    strength = math.exp(rng.normal(jobs.contention_log_mean, jobs.contention_log_sd))
    shares = rng.dirichlet(_SHARES)
    start = jobs.start_spread * rng.random(n_tasks)
    work = draw_work(jobs, n_tasks, _stream(seed, _WORK))
    own = draw_machines(jobs.cluster, _stream(seed, _MACHINES))
    return World(n_tasks, base_s, start, strength, shares, work, own)


def simulate_attempt(jobs: GeneratedJobs, world: World, seed: int, attempt: int) -> Attempts:
    """Return the course of one attempt of every task if it is left alone.

    Args:
        jobs: Parameters of the jobs.
        world: Result of :func:`draw_world` with the same seed.
        seed: Seed of the job.
        attempt: Number of the attempt; 0 is the first.
    """
    machine = _place(jobs, world.n_tasks, seed, attempt)
    used, place = np.unique(machine, return_inverse=True)
    luck = _stream(seed, _ATTEMPT, attempt, _LUCK)
    slowness = draw_slowness(jobs, world.own[used], world.strength, luck)
    faults = draw_faults(jobs, world.n_tasks, _stream(seed, _ATTEMPT, attempt, _FAULTS))
    # First attempts have known starts; a later one's start is not known, so it sees the load from window 0
    # on.
    first_window = np.zeros(world.n_tasks, dtype=np.int64)
    if attempt == 0:
        first_window += (world.start * jobs.windows_per_median).astype(np.int64)
    return _run(jobs, world, machine, place, first_window, slowness, faults)


def _run(
    jobs: GeneratedJobs,
    world: World,
    machine: IntArray,
    place: IntArray,
    first_window: IntArray,
    slowness: Slowness,
    faults: tuple[FloatArray, FloatArray],
) -> Attempts:
    """Simulate attempts window by window until their work is done, and return their lives."""
    per_median = jobs.windows_per_median
    period = MEDIANS_OF_LOAD * per_median
    time = slowness.total @ world.shares
    typical = float(np.median(time))
    fault_start, fault_end = faults
    left = world.work * per_median
    duration = np.zeros(world.n_tasks)
    alive = np.arange(world.n_tasks)
    block = 2 * per_median
    parts: list[tuple[NDArray[np.generic], ...]] = []
    begin = 0
    while len(alive):
        windows = np.arange(begin, begin + block)
        at = (first_window[alive, None] + windows) % period
        running = np.ones(at.shape)
        stalling = np.flatnonzero((fault_start[alive] < begin + block).any(axis=1))
        if len(stalling):
            which = alive[stalling, None]
            running[stalling] = running_share(
                windows.astype(np.float64), fault_start[which], fault_end[which]
            )
        rate = running * typical / time[place[alive, None], at]
        done = np.cumsum(rate, axis=1)
        ends = done[:, -1] >= left[alive]
        last = np.where(ends, (done < left[alive, None]).sum(axis=1), block - 1)
        row = np.arange(len(alive))
        before = done[row, last] - rate[row, last]
        length = np.ones(at.shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.where(ends, (left[alive] - before) / rate[row, last], 1.0)
        # Rounding must not give a window of no length.
        length[row, last] = np.clip(part, 1e-9, 1.0)
        duration[alive[ends]] = begin + last[ends] + length[row, last][ends]
        lived = windows - begin <= last[:, None]
        index, offset = np.nonzero(lived)
        parts.append((alive[index], windows[offset], length[lived], rate[lived], running[lived], at[lived]))
        left[alive] -= done[:, -1]
        alive = alive[~ends]
        begin += block
    task, window, length, rate, running, at = (np.concatenate(part) for part in zip(*parts, strict=True))
    stalls_begin = np.zeros(len(task))
    hit = np.flatnonzero((fault_start[:, 0] < duration)[task])
    stalls_begin[hit] = (np.floor(fault_start[task[hit]]) == window[hit, None]).sum(axis=1)
    stalled = np.maximum(np.minimum(fault_end, duration[:, None]) - fault_start, 0.0).sum(axis=1)
    return Attempts(
        machine,
        duration,
        task,
        window,
        length,
        rate,
        slowness.total[place[task], at],
        running,
        stalls_begin,
        stalled,
    )


def _place(jobs: GeneratedJobs, n_tasks: int, seed: int, attempt: int) -> IntArray:
    """Return the machine of each task's attempt: random, and never the machine of the first attempt.

    First attempts fill slots. A later attempt may get any other machine, even that of another later attempt:
    the policy decides how many run at a time, and its spare machines are limited elsewhere.
    """
    machines, slots = jobs.cluster.machines, jobs.cluster.slots_per_machine
    first = _stream(seed, _ATTEMPT, 0, _PLACEMENT).permutation(machines * slots)[:n_tasks] // slots
    if attempt == 0:
        return first
    return (first + _stream(seed, _ATTEMPT, attempt, _PLACEMENT).integers(1, machines, n_tasks)) % machines


def _moments(world: World, life: Attempts, per_median: int) -> Moments:
    middle = life.window + 0.5 * life.length
    work = life.rate * life.length / per_median
    # Rows are grouped by blocks of windows, not by task: sort them for running sums.
    order = np.lexsort((life.window, life.task))
    total = np.cumsum(work[order])
    first = np.flatnonzero(np.diff(life.task[order], prepend=-1))
    before = (total - work[order])[first]
    done = np.empty_like(total)
    done[order] = total - np.repeat(before, np.diff(first, append=len(order))) - 0.5 * work[order]
    return Moments(
        task=life.task,
        slowness=life.slowness,
        running=life.running,
        elapsed=middle / per_median,
        done=np.maximum(done, 0.0),
        work=world.work[life.task],
        stalls_begin=life.stalls_begin,
    )


def _causes(world: World, life: Attempts) -> NDArray[np.int8]:
    slow = np.log(world.own[life.machine] @ world.shares)
    moving = life.duration - life.stalled
    fault = np.log(life.duration / np.maximum(moving, 1e-9))
    # The part of a life's length that its work, machine and stalls do not explain.
    rest = np.log(np.maximum(moving, 1e-9) / world.work) - slow
    return name_causes(np.log(world.work), slow, rest, fault)


def _stream(seed: int, *key: int) -> Generator:
    return np.random.default_rng(SeedSequence(seed, spawn_key=key))
