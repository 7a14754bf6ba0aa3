"""Google's cluster trace of 2011 (ClusterData2011_2): task_usage for windows, task_events and job_events.

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

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.counters import GOOGLE_2011
from sysgym.emulator.cluster.job import FloatArray
from sysgym.emulator.cluster.traces.cache import TraceCache, unpacked
from sysgym.emulator.cluster.traces.google_jobs import Bounds, lived
from sysgym.emulator.cluster.traces.google_reading import Tables, read_into
from sysgym.emulator.cluster.traces.google_rows import stored_column, stored_rows
from sysgym.emulator.cluster.traces.google_tables import (
    EVENT_COLUMNS,
    EVENTS_TITLE,
    EVICT,
    FAIL,
    JOB_COLUMNS,
    JOBS_TITLE,
    MEASURED,
    USAGE_COLUMNS,
    USAGE_TITLE,
    WINDOW_US,
    Events,
    Usage,
)
from sysgym.emulator.cluster.traces.reading import Tally, columns_of, wrong_format
from sysgym.emulator.cluster.traces.source import FirstAttempts, Origin, TraceSource
from sysgym.emulator.trace_errors import TraceError

NAMES = tuple(counter.name for counter in GOOGLE_2011)
_MEASURED = len(MEASURED)
_IS_MAXIMUM = np.array([name.startswith("max_") for name in MEASURED])
_US = 1e6


class GoogleTrace(TraceSource):
    """Jobs of Google's trace, named by their ids.

    Jobs are replayed if they have a scheduling class other than 0 and a parallelism (largest task index + 1,
    from task_events) of ``tasks_min`` to ``tasks_max``; NURD takes 100 and more. In addition, ``tasks_min``
    tasks must have usage, and all must begin and end within the files, because the latency of a task that is
    cut off is unknown. Pass task_events and task_usage of the same, consecutive parts.

    The trace is read once; the rows in use are kept in the cache (``cache.py``), and jobs come from there.

    Args:
        files: Parts of task_events and task_usage, recognized by their columns, and of job_events, which
            tells the programs of jobs.
        tasks_min: Fewest tasks of a job.
        tasks_max: Most tasks of a job.
        median_min_s: Least median latency of a job, s.

    Raises:
        TraceError: A file is empty, damaged or of another table, or one of the tables is missing.
        StorageError: The cache cannot be written.
    """

    def __init__(self, files: list[Path], *, tasks_min: int, tasks_max: int, median_min_s: float) -> None:
        bounds = Bounds(tasks_min, tasks_max, median_min_s)
        self._cache = TraceCache(files, {"format": "google-2011", **vars(bounds)})
        index = self._cache.index()
        if index is None:
            tables = _sorted_out(files)
            with self._cache.locked():
                index = self._cache.index() or read_into(self._cache, tables, bounds)
        counts = unpacked(index["counts"])
        begin_s, end_s = index["submit_us"] / _US, index["end_us"] / _US
        super().__init__(
            tuple(map(str, index["job"].tolist())),
            NAMES,
            Tally.from_data(counts["tally"]),
            counts["left_out_jobs"],
            origins=[
                Origin(begin, end, user, program)
                for begin, end, user, program in zip(
                    begin_s.tolist(),
                    end_s.tolist(),
                    index["user"].tolist(),
                    index["program"].tolist(),
                    strict=True,
                )
            ],
            span_s=(float(index["span_us"][0]) / _US, float(index["span_us"][1]) / _US),
        )
        self._usage, self._events, self._submit_us = index["usage"], index["events"], index["submit_us"]

    def _durations_s(self, index: int) -> FloatArray:
        rows = slice(*self._usage[index].tolist())
        task, start_us, end_us = (
            stored_column(self._cache, Usage, n, rows) for n in ("task", "start_us", "end_us")
        )
        tasks, place = np.unique(task, return_inverse=True)
        return np.bincount(place, end_us - start_us, len(tasks)) / _US

    def _first_attempts(self, index: int) -> FirstAttempts:
        usage = stored_rows(self._cache, Usage, slice(*self._usage[index].tolist()))
        events = stored_rows(self._cache, Events, slice(*self._events[index].tolist()))
        tasks, first, task = np.unique(usage.task, return_index=True, return_inverse=True)
        length_us = usage.end_us - usage.start_us
        lived_us = lived(length_us, first, task)
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
            start_s=(usage.start_us[first] - self._submit_us[index]) / _US,
            duration_s=duration_us / _US,
            counters=counters,
        )


def _sorted_out(files: list[Path]) -> Tables:
    """Return the files of each table."""
    tables: dict[int, list[Path]] = {EVENT_COLUMNS: [], USAGE_COLUMNS: [], JOB_COLUMNS: []}
    for path in files:
        n_columns = columns_of(path)
        if n_columns not in tables:
            raise wrong_format(path, f"{EVENTS_TITLE}, {USAGE_TITLE}, or {JOBS_TITLE}")
        tables[n_columns].append(path)
    for n_columns, title in ((EVENT_COLUMNS, EVENTS_TITLE), (USAGE_COLUMNS, USAGE_TITLE)):
        if not tables[n_columns]:
            raise TraceError(
                ", ".join(map(str, files)) or "jobs.paths",
                "one of the two tables is not there",
                title,
                "name its parts, or their folder, in jobs.paths too",
            )
    return Tables(tables[EVENT_COLUMNS], tables[USAGE_COLUMNS], tables[JOB_COLUMNS])


def _life_at(
    time_us: int, start_us: NDArray[np.int64], end_us: NDArray[np.int64], lived_us: NDArray[np.int64]
) -> int:
    """Return how long a task had lived at a time; its records are sorted by time."""
    record = int(np.searchsorted(start_us, time_us, side="right")) - 1
    if record < 0:
        return 0
    return int(lived_us[record]) - max(int(end_us[record]) - time_us, 0)
