"""Google's cluster trace of 2011 (ClusterData2011_2): task_usage for windows and task_events for the rest.

A task's life is the sequence of its usage records, joined end to end. Its latency is the sum of their
lengths, as in NURD (Ding et al., MLSys 2022). The time between an eviction and the next start does not count,
and resubmissions belong to the same life.

Records are 300 s long or less, and the first is cut at the next multiple of 300 s of the trace's clock, so
records and windows of the life do not coincide. A window shows the records that ended in it: means are
weighted by length, and maxima are the largest. A record that reaches into the next window is shown there, and
never before it was complete. Every window but the last of a life has such a record, because no record is
longer than a window.

Evictions and failures are counted from task_events, in the window of the life in which they happened.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.counters import GOOGLE_2011
from sysgym.emulator.cluster.job import BoolArray
from sysgym.emulator.cluster.traces.errors import TraceError
from sysgym.emulator.cluster.traces.google_tables import (
    EVENT_COLUMNS,
    EVENTS_TITLE,
    EVICT,
    FAIL,
    SCHEDULE,
    SUBMIT,
    TERMINAL,
    USAGE_COLUMNS,
    USAGE_TITLE,
    WINDOW_US,
    Events,
    Usage,
    read_events,
    read_usage,
)
from sysgym.emulator.cluster.traces.reading import Tally, columns_of, wrong_format
from sysgym.emulator.cluster.traces.source import (
    MOST_WINDOWS,
    TOO_FEW_TASKS,
    TOO_MANY_TASKS,
    TOO_MANY_WINDOWS,
    TOO_SHORT,
    FirstAttempts,
    TraceSource,
)

OVERLAP = "overlaps an earlier record of its task"
FREE_CLASS = "scheduling class is 0 or unknown"
TOO_LITTLE_PARALLELISM = "largest task index + 1 is less than tasks_min"
NOT_WITHIN = "has tasks that do not begin and end within the files"
OTHER_JOBS = "usage of jobs that are left out"

NAMES = tuple(counter.name for counter in GOOGLE_2011)
_MEASURED = len(NAMES) - 2
"""Number of counters from task_usage; evictions and failures follow."""
_IS_MAXIMUM = np.array([name.startswith("max_") for name in NAMES[:_MEASURED]])

_US = 1e6


@dataclass(frozen=True)
class _Run:
    """Location of a job's rows, and the time of its submission."""

    usage: slice
    events: slice
    submit_us: int


class GoogleTrace(TraceSource):
    """Jobs of Google's trace, named by their ids.

    Jobs are replayed if they have a scheduling class other than 0 and a parallelism (largest task index + 1,
    from task_events) of at least ``tasks_min``, as in NURD. In addition, ``tasks_min`` to ``tasks_max`` tasks
    must have usage, and all must begin and end within the files, because the latency of a task that is cut
    off is unknown. Pass task_events and task_usage of the same, consecutive parts.

    Args:
        files: Parts of task_events and task_usage, recognized by their columns.
        tasks_min: Fewest tasks of a job.
        tasks_max: Most tasks of a job.
        median_min_s: Least median latency of a job, s.

    Raises:
        TraceError: A file is empty, damaged or of another table, or one of the tables is missing.
    """

    def __init__(self, files: list[Path], *, tasks_min: int, tasks_max: int, median_min_s: float) -> None:
        tally = Tally()
        left_out: Counter[str] = Counter()
        events_files, usage_files = _sorted_out(files)
        events = read_events(events_files, tally)
        wanted = _wanted(events, tasks_min, left_out)
        events = events.take(np.flatnonzero(np.isin(events.job, wanted)))
        usage, span_us = read_usage(usage_files, wanted, tally, OTHER_JOBS)
        # A stable sort: of two overlapping records, the same one is always kept.
        usage = usage.take(np.lexsort((usage.start_us, usage.task, usage.job)))
        usage = _without_overlaps(usage, tally)
        for name, count in zip(NAMES, np.isnan(usage.counters).sum(axis=0).tolist(), strict=False):
            if count:
                tally.missing_values[name] += count
        np.nan_to_num(usage.counters, copy=False)
        events = events.take(np.lexsort((events.time_us, events.task, events.job)))
        runs: dict[str, _Run] = {}
        for job in wanted.tolist():
            run = _run(job, usage, events)
            if reason := _reason_against(usage, events, run, span_us, (tasks_min, tasks_max), median_min_s):
                left_out[reason] += 1
            else:
                runs[str(job)] = run
        super().__init__(tuple(sorted(runs)), NAMES, tally, left_out)
        self._usage, self._events = usage, events
        self._runs = [runs[name] for name in self.names]

    def _first_attempts(self, index: int) -> FirstAttempts:
        run = self._runs[index]
        usage, events = self._usage.take(run.usage), self._events.take(run.events)
        tasks, first, task = np.unique(usage.task, return_index=True, return_inverse=True)
        length_us = usage.end_us - usage.start_us
        lived_us = _lived(length_us, first, task)
        window = (lived_us - 1) // WINDOW_US
        duration_us = np.bincount(task, length_us, len(tasks)).astype(np.int64)
        shape = (len(tasks), int(window.max()) + 1)
        counters = np.zeros((*shape, len(NAMES)), np.float32)
        weight = np.zeros(shape)
        np.add.at(weight, (task, window), length_us)
        total = np.zeros((*shape, _MEASURED))
        np.add.at(total, (task, window), usage.counters * length_us[:, None])
        largest = np.zeros((*shape, _MEASURED))
        np.maximum.at(largest, (task, window), usage.counters)
        mean = total / np.where(weight > 0, weight, 1.0)[:, :, None]
        counters[:, :, :_MEASURED] = np.where(_IS_MAXIMUM, largest, mean)
        bounds = np.append(first, len(task))
        for counter, kind in ((_MEASURED, EVICT), (_MEASURED + 1, FAIL)):
            happened = np.flatnonzero((events.kind == kind) & np.isin(events.task, tasks))
            for row, time_us in zip(
                np.searchsorted(tasks, events.task[happened]), events.time_us[happened].tolist(), strict=True
            ):
                mine = slice(bounds[row], bounds[row + 1])
                at_us = _life_at(time_us, usage.start_us[mine], usage.end_us[mine], lived_us[mine])
                counters[row, max(at_us - 1, 0) // WINDOW_US, counter] += 1
        return FirstAttempts(
            window_s=WINDOW_US / _US,
            start_s=(usage.start_us[first] - run.submit_us) / _US,
            duration_s=duration_us / _US,
            counters=counters,
        )


def _sorted_out(files: list[Path]) -> tuple[list[Path], list[Path]]:
    """Return the files of task_events and of task_usage."""
    tables: dict[int, list[Path]] = {EVENT_COLUMNS: [], USAGE_COLUMNS: []}
    for path in files:
        n_columns = columns_of(path)
        if n_columns not in tables:
            raise wrong_format(path, f"{EVENTS_TITLE}, or {USAGE_TITLE}")
        tables[n_columns].append(path)
    for n_columns, title in ((EVENT_COLUMNS, EVENTS_TITLE), (USAGE_COLUMNS, USAGE_TITLE)):
        if not tables[n_columns]:
            raise TraceError(
                ", ".join(map(str, files)) or "jobs.paths",
                "one of the two tables is not there",
                title,
                "name its parts, or their folder, in jobs.paths too",
            )
    return tables[EVENT_COLUMNS], tables[USAGE_COLUMNS]


def _wanted(events: Events, tasks_min: int, left_out: Counter[str]) -> NDArray[np.int64]:
    """Return the ids of jobs with the required scheduling class and parallelism, sorted; count the others."""
    jobs, job = np.unique(events.job, return_inverse=True)
    scheduling_class = np.full(len(jobs), -1, np.int64)
    np.maximum.at(scheduling_class, job, events.scheduling_class)
    last_task = np.zeros(len(jobs), np.int64)
    np.maximum.at(last_task, job, events.task)
    paid = scheduling_class > 0
    wide = last_task + 1 >= tasks_min
    for reason, count in (
        (FREE_CLASS, np.count_nonzero(~paid)),
        (TOO_LITTLE_PARALLELISM, np.count_nonzero(paid & ~wide)),
    ):
        if count:
            left_out[reason] += int(count)
    return jobs[paid & wide]


def _without_overlaps(usage: Usage, tally: Tally) -> Usage:
    """Drop records that begin before an earlier one of their task has ended, as one of them is wrong."""
    n = len(usage.job)
    if n == 0:
        return usage
    new_task = np.ones(n, np.bool_)
    new_task[1:] = (usage.job[1:] != usage.job[:-1]) | (usage.task[1:] != usage.task[:-1])
    bad: BoolArray = np.zeros(n, np.bool_)
    bad[1:] = ~new_task[1:] & (usage.start_us[1:] < usage.end_us[:-1])
    if not bad.any():
        return usage
    # A rare case: walk through the tasks concerned, because a dropped record overlaps nothing any more.
    task_of = np.cumsum(new_task)
    for task in np.unique(task_of[bad]):
        end_us = np.int64(0)
        for i in np.flatnonzero(task_of == task):
            bad[i] = usage.start_us[i] < end_us
            end_us = end_us if bad[i] else usage.end_us[i]
    tally.malformed[OVERLAP] += int(np.count_nonzero(bad))
    return usage.take(np.flatnonzero(~bad))


def _run(job: int, usage: Usage, events: Events) -> _Run:
    of_usage, of_events = (
        slice(int(np.searchsorted(ids, job)), int(np.searchsorted(ids, job, side="right")))
        for ids in (usage.job, events.job)
    )
    submits = events.time_us[of_events][events.kind[of_events] == SUBMIT]
    # If no submission was seen, or only a later one, the job begins with its first record.
    known = np.concatenate([submits, usage.start_us[of_usage]])
    return _Run(of_usage, of_events, int(known.min(initial=np.iinfo(np.int64).max)))


def _reason_against(
    usage: Usage,
    events: Events,
    run: _Run,
    span_us: tuple[int, int],
    n_tasks: tuple[int, int],
    median_min_s: float,
) -> str | None:
    """Return why a job is not replayed; None if it is replayed."""
    mine, seen = usage.take(run.usage), events.take(run.events)
    tasks, first, task = np.unique(mine.task, return_index=True, return_inverse=True)
    if len(tasks) < n_tasks[0]:
        return TOO_FEW_TASKS
    if len(tasks) > n_tasks[1]:
        return TOO_MANY_TASKS
    length_us = mine.end_us - mine.start_us
    if np.median(np.bincount(task, length_us, len(tasks))) < median_min_s * _US:
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
    if (_lived(length_us, first, task).max() - 1) // WINDOW_US >= MOST_WINDOWS:
        return TOO_MANY_WINDOWS
    return None


def _lived(
    length_us: NDArray[np.int64], first: NDArray[np.int64], task: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how long each record's task had lived when the record ended; records sorted by task and time."""
    total_us = np.cumsum(length_us)
    before_us = total_us[first] - length_us[first]
    return total_us - before_us[task]


def _life_at(
    time_us: int, start_us: NDArray[np.int64], end_us: NDArray[np.int64], lived_us: NDArray[np.int64]
) -> int:
    """Return how long a task had lived at a time; its records are sorted by time."""
    record = int(np.searchsorted(start_us, time_us, side="right")) - 1
    if record < 0:
        return 0
    return int(lived_us[record]) - max(int(end_us[record]) - time_us, 0)
