"""Choice of the jobs of Google's trace of 2011 that can be replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.job import BoolArray
from sysgym.emulator.cluster.traces.cache import Arrays
from sysgym.emulator.cluster.traces.google_tables import (
    SCHEDULE,
    SUBMIT,
    TERMINAL,
    WINDOW_US,
    Events,
    Usage,
)
from sysgym.emulator.cluster.traces.reading import Tally
from sysgym.emulator.cluster.traces.source import (
    MOST_WINDOWS,
    TOO_FEW_TASKS,
    TOO_MANY_TASKS,
    TOO_MANY_WINDOWS,
    TOO_SHORT,
)

OVERLAP = "overlaps an earlier record of its task"
FREE_CLASS = "scheduling class is 0 or unknown"
TOO_LITTLE_PARALLELISM = "largest task index + 1 is less than tasks_min"
NOT_WITHIN = "has tasks that do not begin and end within the files"

_US = 1e6
_AFTER_THE_TRACE_US = np.iinfo(np.int64).max
"""Time of events after the trace's end; those before its begin have the time 0."""


@dataclass(frozen=True)
class Bounds:
    """Jobs that are replayed: number of tasks, and least median latency in s."""

    tasks_min: int
    tasks_max: int
    median_min_s: float


def wide_jobs(parts: Sequence[Arrays], bounds: Bounds, left_out: Counter[str]) -> NDArray[np.int64]:
    """Return the ids of jobs with the required scheduling class and parallelism, sorted; count the others."""
    jobs, job = np.unique(np.concatenate([part["job"] for part in parts]), return_inverse=True)
    scheduling_class = np.full(len(jobs), -1, np.int64)
    np.maximum.at(scheduling_class, job, np.concatenate([part["scheduling_class"] for part in parts]))
    last_task = np.zeros(len(jobs), np.int64)
    np.maximum.at(last_task, job, np.concatenate([part["last_task"] for part in parts]))
    paid = scheduling_class > 0
    wide = last_task + 1 >= bounds.tasks_min
    too_wide = last_task + 1 > bounds.tasks_max
    left_out[FREE_CLASS] += int(np.count_nonzero(~paid))
    left_out[TOO_LITTLE_PARALLELISM] += int(np.count_nonzero(paid & ~wide))
    left_out[TOO_MANY_TASKS] += int(np.count_nonzero(paid & too_wide))
    return jobs[paid & wide & ~too_wide]


def begins_and_ends(events: Events) -> bool:
    """Return whether all tasks that ran begin and end within the files, as far as events tell."""
    tasks, first, row = np.unique(events.task, return_index=True, return_inverse=True)
    last = np.append(first[1:], len(events.task)) - 1
    # A task that was there before the files has another first event, or the time 0.
    begins = np.isin(events.kind[first], (SUBMIT, SCHEDULE))
    scheduled = np.flatnonzero(events.kind == SCHEDULE)
    ran = np.zeros(len(tasks), np.bool_)
    ran[row[scheduled]] = True
    early = np.zeros(len(tasks), np.bool_)
    early[row[scheduled[events.time_us[scheduled] == 0]]] = True
    ends = np.isin(events.kind[last], TERMINAL) & (events.time_us[last] < _AFTER_THE_TRACE_US)
    return bool((begins & ~early & (ends | ~ran)).all())


def without_overlaps(usage: Usage, tally: Tally) -> Usage:
    """Drop records that begin before an earlier one of their task has ended, as one of them is wrong."""
    n = len(usage.task)
    if n == 0:
        return usage
    new_task = np.ones(n, np.bool_)
    new_task[1:] = usage.task[1:] != usage.task[:-1]
    bad: BoolArray = np.zeros(n, np.bool_)
    bad[1:] = ~new_task[1:] & (usage.start_us[1:] < usage.end_us[:-1])
    if not bad.any():
        return usage
    # A rare case: walk through the tasks concerned, because a dropped record overlaps nothing any more.
    for task in np.unique(usage.task[bad]):
        end_us = np.int64(0)
        for i in np.flatnonzero(usage.task == task):
            bad[i] = usage.start_us[i] < end_us
            end_us = end_us if bad[i] else usage.end_us[i]
    tally.malformed[OVERLAP] += int(np.count_nonzero(bad))
    return usage.take(np.flatnonzero(~bad))


def reason_against(mine: Usage, seen: Events, span_us: NDArray[np.int64], bounds: Bounds) -> str | None:
    """Return why a job is not replayed; None if it is replayed."""
    tasks, first, task = np.unique(mine.task, return_index=True, return_inverse=True)
    if len(tasks) < bounds.tasks_min:
        return TOO_FEW_TASKS
    length_us = mine.end_us - mine.start_us
    if np.median(np.bincount(task, length_us, len(tasks))) < bounds.median_min_s * _US:
        return TOO_SHORT
    relevant = seen.take(np.flatnonzero(np.isin(seen.task, tasks)))
    row = np.searchsorted(tasks, relevant.task)
    begins_us = np.full(len(tasks), -1, np.int64)
    scheduled = np.flatnonzero(relevant.kind == SCHEDULE)[::-1]  # by time: the first is written last
    begins_us[row[scheduled]] = relevant.time_us[scheduled]
    last_kind = np.full(len(tasks), -1, np.int64)
    last_us = np.full(len(tasks), -1, np.int64)
    last_kind[row], last_us[row] = relevant.kind, relevant.time_us
    begin_us, end_us = span_us
    if not (
        (begins_us >= begin_us).all() and np.isin(last_kind, TERMINAL).all() and (last_us <= end_us).all()
    ):
        return NOT_WITHIN
    if (lived(length_us, first, task).max() - 1) // WINDOW_US >= MOST_WINDOWS:
        return TOO_MANY_WINDOWS
    return None


def lived(
    length_us: NDArray[np.int64], first: NDArray[np.int64], task: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how long each record's task had lived when the record ended; records sorted by task and time."""
    total_us = np.cumsum(length_us)
    before_us = total_us[first] - length_us[first]
    return total_us - before_us[task]
