"""Earliest completion of a job with known durations: a bound, or the result of a search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.execution import UNLIMITED, Execution
from sysgym.emulator.cluster.job import FloatArray, Job

SEARCH_STEPS = 8


def best_completion_s(
    job: Job, first_decision_s: float, spare_machines: int, *, copies: bool = True
) -> float:
    """Return the earliest completion found by acting at checkpoints, with all durations known.

    A checkpoint accepts one action for a task, so its second attempt can begin at the first checkpoint after
    its start, and every further one a window later. Without a limit on machines the result is reached by
    copying every task at each checkpoint; it is a bound where the scenario limits decisions or actions
    (``control.max_checkpoints``, ``mitigation.actions_per_checkpoint``), which are ignored here. With a limit
    on machines it is the best result of a search, not a bound: for a target completion time, tasks that would
    end later receive a second attempt, in the order of their latest start, and the target is found by
    bisection.

    Args:
        job: The job.
        first_decision_s: First checkpoint, after the job's submission; the others follow every window.
        spare_machines: Machines in addition to one per task; UNLIMITED (-1) for no limit.
        copies: Whether copies, and several attempts at once, are allowed; otherwise one relaunch per task.
    """
    unaided_s = job.completion_s
    if job.n_attempts < 2:
        return unaided_s
    begin_s = _first_chance_s(job, first_decision_s)
    first_end_s = job.start_s + job.duration_s[:, 0]
    others = job.duration_s[:, 1:] if copies else job.duration_s[:, 1:2]
    if spare_machines == UNLIMITED:
        waits_s = np.arange(others.shape[1]) * job.window_s
        other_end_s = begin_s + (waits_s + others).min(axis=1)
        return float(np.minimum(first_end_s, other_end_s).max())
    kinds = (True, False) if copies else (False,)
    return min(_search(job, begin_s, first_end_s, spare_machines, copy=kind) for kind in kinds)


def _first_chance_s(job: Job, first_decision_s: float) -> FloatArray:
    """Return the first checkpoint at which each task has started."""
    late = np.maximum(job.start_s - first_decision_s, 0.0)
    return first_decision_s + np.ceil(late / job.window_s) * job.window_s


def _search(
    job: Job, begin_s: FloatArray, first_end_s: FloatArray, spare_machines: int, *, copy: bool
) -> float:
    second_s = job.duration_s[:, 1]
    helps = begin_s + second_s < first_end_s
    best_s = high_s = job.completion_s
    low_s = float(np.where(helps, begin_s + second_s, first_end_s).max())
    target_s = low_s
    for _ in range(SEARCH_STEPS):
        urgency = np.argsort(target_s - second_s, kind="stable")
        chosen = urgency[(helps & (first_end_s > target_s))[urgency]]
        reached_s = _completion_s(job, begin_s, chosen, spare_machines, copy=copy)
        best_s = min(best_s, reached_s)
        if reached_s <= target_s:
            high_s = target_s
        else:
            low_s = target_s
        if high_s <= low_s:
            break
        target_s = (low_s + high_s) / 2.0
    return best_s


def _completion_s(
    job: Job, begin_s: FloatArray, chosen: NDArray[np.int64], spare_machines: int, *, copy: bool
) -> float:
    """Return the completion time if the chosen tasks, in order, get an attempt as early as possible."""
    world = Execution(job, spare_machines)
    for time_s in np.unique(begin_s[chosen]):
        world.advance_to(float(time_s))
        tasks = chosen[begin_s[chosen] == time_s]
        (world.copy if copy else world.relaunch)(tasks)
    world.run_to_end()
    return world.completion_s
