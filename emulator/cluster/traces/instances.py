"""Traces with one row per instance and the mean of each counter over its life: Alibaba's and spar's.

A job of this package is a group of instances of one task of one job of the trace, as in NURD; its name is
``job/task``. Durations are whole seconds. The traces do not say how usage changed while an instance ran.

The counters can be shown in two ways (``static_counters``):

- ``lifetime``: every window shows the mean over the instance's life. A scheduler could only know this mean if
  usage were constant: the first window already contains information about the last one.
- ``withheld``: all windows are 0 until the instance has finished. The last window then holds the usage of the
  whole life, so that its value times its length is the mean times the life. The mean over complete windows of
  a running task is therefore 0, and the mean over the life of a finished one is right; the last window of a
  finished task is not the usage in that window.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.job import BoolArray, FloatArray
from sysgym.emulator.cluster.traces.reading import (
    END_BEFORE_START,
    MISSING_ID,
    NOT_A_NUMBER,
    Sieve,
    Tally,
    blocks,
    columns_of,
    nonempty,
    numbers,
    wrong_format,
)
from sysgym.emulator.cluster.traces.source import (
    MOST_WINDOWS,
    TOO_FEW_TASKS,
    TOO_MANY_TASKS,
    TOO_MANY_WINDOWS,
    TOO_SHORT,
    FirstAttempts,
    Origin,
    TraceSource,
    window_until_warmup,
)
from sysgym.emulator.trace_errors import TraceError

NOT_TERMINATED = "status is not Terminated"
NO_DURATION = "lasts 0 s: less than the trace's clock shows"

LIFETIME, WITHHELD = "lifetime", "withheld"

_MEMORY_INVALID = 101.0
_ROUNDING = 1e-9
"""Tolerance in windows: rounding must not add a window to a duration of whole windows."""


@dataclass(frozen=True)
class InstanceFormat:
    """Columns of a row, counted from 0.

    Attributes:
        title: Name of the format, for messages.
        n_columns: Number of columns of a row.
        job, task: Columns of the two ids.
        start, end: Columns of the timestamps in s; None where the trace has durations.
        duration: Column of the duration in s; None where the trace has timestamps.
        status: Column of the status; None where the trace has none.
        counters: Column of each counter.
    """

    title: str
    n_columns: int
    job: int
    task: int
    start: int | None
    end: int | None
    duration: int | None
    status: int | None
    counters: dict[str, int]


ALIBABA_2017 = InstanceFormat(
    title="batch_instance of Alibaba's cluster-trace-v2017: 12 columns (start_timestamp, end_timestamp,"
    " job_id, task_id, machineID, status, seq_no, total_seq_no, real_cpu_max, real_cpu_avg, real_mem_max,"
    " real_mem_avg)",
    n_columns=12,
    job=2,
    task=3,
    start=0,
    end=1,
    duration=None,
    status=5,
    counters={"cpu_avg": 9, "cpu_max": 8, "mem_avg": 11, "mem_max": 10},
)
ALIBABA_2018 = InstanceFormat(
    title="batch_instance of Alibaba's cluster-trace-v2018: 14 columns (instance_name, task_name, job_name,"
    " task_type, status, start_time, end_time, machine_id, seq_no, total_seq_no, cpu_avg, cpu_max, mem_avg,"
    " mem_max)",
    n_columns=14,
    job=2,
    task=1,
    start=5,
    end=6,
    duration=None,
    status=4,
    counters={"cpu_avg": 10, "cpu_max": 11, "mem_avg": 12, "mem_max": 13},
)
SPAR = InstanceFormat(
    title="sample_instances.csv of the package spar: 7 columns (arrival, job, task, instance, duration,"
    " cpu_avg, mem_avg)",
    n_columns=7,
    job=1,
    task=2,
    start=None,
    end=None,
    duration=4,
    status=None,
    counters={"cpu_avg": 5, "mem_avg": 6},
)


@dataclass(frozen=True)
class Rows:
    """Rows in use: group index, start (0 if the trace has none), duration, counters (rows, C)."""

    group: NDArray[np.int64]
    start_s: FloatArray
    duration_s: FloatArray
    counters: NDArray[np.float32]

    def take(self, rows: NDArray[np.int64]) -> Rows:
        """Return some rows."""
        return Rows(self.group[rows], self.start_s[rows], self.duration_s[rows], self.counters[rows])


@dataclass(frozen=True)
class Instances:
    """Content of a trace.

    Attributes:
        groups: Names of the groups, by index.
        size: Number of rows of every group.
        rows: Rows in use; those of groups that are too small or too large may be absent.
        counters: Names of the counters.
        n_known: How many of them, the first ones, are known when an instance starts.
        owners: User and program of groups by index, as in :class:`Origin`; others are unknown.
        span_s: First start and last end; nan if the trace does not tell when instances started.
    """

    groups: list[str]
    size: NDArray[np.int64]
    rows: Rows
    counters: tuple[str, ...]
    n_known: int = 0
    owners: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    span_s: tuple[float, float] = (math.nan, math.nan)


class InstanceTrace(TraceSource):
    """Groups of instances; the first of them to finish determine the group's window.

    If the trace has no start times (spar), all tasks of a job start together.

    Args:
        content: What was read.
        tally: Counts of rows.
        tasks_min: Fewest instances of a group.
        tasks_max: Most instances of a group.
        median_min_s: Least median duration of a group, s.
        warmup_windows: Windows until 4 % of the instances have finished, or ``median_min_s`` if it is later.
        static_counters: ``"lifetime"`` or ``"withheld"``.
    """

    def __init__(
        self,
        content: Instances,
        tally: Tally,
        *,
        tasks_min: int,
        tasks_max: int,
        median_min_s: float,
        warmup_windows: int,
        static_counters: str,
    ) -> None:
        if static_counters not in (LIFETIME, WITHHELD):
            raise ValueError(f'static_counters: expected "lifetime" or "withheld", got "{static_counters}"')
        self._median_min_s, self._warmup_windows = median_min_s, warmup_windows
        self._static_counters = static_counters
        self._n_known = content.n_known
        left_out: Counter[str] = Counter()
        size = content.size
        fits = (size >= tasks_min) & (size <= tasks_max)
        _count(left_out, TOO_FEW_TASKS, size < tasks_min)
        _count(left_out, TOO_MANY_TASKS, size > tasks_max)
        # Groups are now runs of rows, in the order of their index, and within a group in that of the files.
        kept = np.flatnonzero(fits[content.rows.group])
        rows = content.rows.take(kept[np.argsort(content.rows.group[kept], kind="stable")])
        groups = np.flatnonzero(fits)
        first = np.concatenate([[0], np.cumsum(size[groups])])
        has_times = not math.isnan(content.span_s[0])
        runs: dict[str, tuple[int, int]] = {}
        origins: dict[str, Origin] = {}
        for i, group in enumerate(groups.tolist()):
            run = slice(int(first[i]), int(first[i + 1]))
            duration_s = rows.duration_s[run]
            if np.median(duration_s) < median_min_s:
                left_out[TOO_SHORT] += 1
            elif _windows(duration_s, self._window_s(rows.start_s[run], duration_s)).max() > MOST_WINDOWS:
                left_out[TOO_MANY_WINDOWS] += 1
            else:
                name = content.groups[group]
                runs[name] = (run.start, run.stop)
                user, program = content.owners.get(group, ("", ""))
                begin_s, end_s = span_of(rows.start_s[run], duration_s) if has_times else content.span_s
                origins[name] = Origin(begin_s, end_s, user, program)
        names = tuple(sorted(runs))
        in_order = [origins[name] for name in names]
        super().__init__(names, content.counters, tally, left_out, in_order, content.span_s)
        self._rows = rows
        self._runs = [runs[name] for name in self.names]

    def submission(self, name: str) -> str:
        """Return the trace's job of a group of instances."""
        return name.split("/", 1)[0]

    def _window_s(self, start_s: FloatArray, duration_s: FloatArray) -> float:
        ends_s = start_s - start_s.min() + duration_s
        return window_until_warmup(ends_s, self._median_min_s, self._warmup_windows)

    def _durations_s(self, index: int) -> FloatArray:
        return self._rows.duration_s[slice(*self._runs[index])]

    def _first_attempts(self, index: int) -> FirstAttempts:
        run = slice(*self._runs[index])
        start_s, duration_s = self._rows.start_s[run], self._rows.duration_s[run].copy()
        mean = self._rows.counters[run]
        window_s = self._window_s(start_s, duration_s)
        windows = _windows(duration_s, window_s)
        window = np.arange(windows.max())
        alive = (window < windows[:, None]).astype(np.float32)
        if self._static_counters == LIFETIME:
            weight = alive
        else:
            last_s = duration_s - (windows - 1) * window_s
            bill = np.where(window == windows[:, None] - 1, (duration_s / last_s)[:, None], 0.0)
            weight = bill.astype(np.float32)
        counters = weight[:, :, None] * mean[:, None]
        known = slice(self._n_known)
        counters[:, :, known] = alive[:, :, None] * mean[:, None, known]
        return FirstAttempts(window_s, start_s - start_s.min(), duration_s, counters)


def span_of(start_s: FloatArray, duration_s: FloatArray) -> tuple[float, float]:
    """Return the first start and the last end; nan without any."""
    if not len(start_s):
        return math.nan, math.nan
    return float(start_s.min()), float((start_s + duration_s).max())


def _windows(duration_s: FloatArray, window_s: float) -> NDArray[np.int64]:
    """Return the number of windows of each duration; the last one may be shorter."""
    return np.maximum(np.ceil(duration_s / window_s - _ROUNDING), 1).astype(np.int64)


def _count(reasons: Counter[str], reason: str, which: BoolArray) -> None:
    if count := int(np.count_nonzero(which)):
        reasons[reason] += count


def read_instances(layout: InstanceFormat, files: Sequence[Path], tally: Tally) -> Instances:
    """Read all files of a trace whose rows hold all that is known of an instance.

    Args:
        layout: Format of the files.
        files: Files to read, in order.
        tally: Counts of rows, updated.

    Raises:
        TraceError: A file is empty, damaged or of another format.
    """
    index: dict[str, int] = {}
    parts: list[Rows] = []
    for path in files:
        if columns_of(path) != layout.n_columns:
            raise wrong_format(path, layout.title)
        before, malformed = tally.rows_read, tally.malformed.total()
        parts += [
            _read_block(layout, columns, index, tally) for columns in blocks(path, layout.n_columns, tally)
        ]
        if tally.rows_read - before == tally.malformed.total() - malformed:
            raise TraceError(
                path,
                f"none of the {tally.rows_read - before} rows is of the format",
                layout.title,
                "set jobs.format to what the file is, or jobs.paths to the right file",
            )
    rows = Rows(
        np.concatenate([part.group for part in parts]),
        np.concatenate([part.start_s for part in parts]),
        np.concatenate([part.duration_s for part in parts]),
        np.concatenate([part.counters for part in parts]),
    )
    size = np.bincount(rows.group, minlength=len(index))
    content = Instances(list(index), size, rows, tuple(layout.counters))
    return (
        replace(content, span_s=span_of(rows.start_s, rows.duration_s))
        if layout.start is not None
        else content
    )


def _read_block(
    layout: InstanceFormat, columns: list[tuple[str, ...]], index: dict[str, int], tally: Tally
) -> Rows:
    n = len(columns[0])
    sieve = Sieve(n)
    if layout.status is not None:
        # First, because an instance that has not ended has no valid end.
        ended = np.fromiter((text.lower() == "terminated" for text in columns[layout.status]), np.bool_, n)
        sieve.drop(~ended, tally.left_out_rows, NOT_TERMINATED)
    named = nonempty(columns[layout.job]) & nonempty(columns[layout.task])
    sieve.drop(~named, tally.malformed, MISSING_ID)
    start_s = np.zeros(n)
    if layout.start is not None and layout.end is not None:
        start_s, bad_start = numbers(columns[layout.start])
        end_s, bad_end = numbers(columns[layout.end])
        duration_s = end_s - start_s
        bad = bad_start | bad_end
    else:
        assert layout.duration is not None
        duration_s, bad = numbers(columns[layout.duration])
    counters = np.empty((n, len(layout.counters)), np.float32)
    missing: dict[str, BoolArray] = {}
    for i, (name, column) in enumerate(layout.counters.items()):
        value, bad_value = numbers(columns[column])
        bad |= bad_value
        # The traces write -1, and 101 for memory, for missing measurements.
        missing[name] = np.isnan(value) | (value < 0) | (name.startswith("mem") & (value == _MEMORY_INVALID))
        counters[:, i] = np.where(missing[name], 0.0, value)
    # An empty time is also nan, and times are required.
    sieve.drop(bad | np.isnan(duration_s), tally.malformed, NOT_A_NUMBER)
    sieve.drop(duration_s < 0, tally.malformed, END_BEFORE_START)
    sieve.drop(duration_s == 0, tally.left_out_rows, NO_DURATION)
    for name, lacking in missing.items():
        _count(tally.missing_values, name, lacking & sieve.good)
    used = np.flatnonzero(sieve.good)
    names: Iterator[str] = map("/".join, zip(columns[layout.job], columns[layout.task], strict=True))
    if len(used) < n:
        good = sieve.good.tolist()
        names = (name for name, is_good in zip(names, good, strict=True) if is_good)
    group = np.fromiter((index.setdefault(name, len(index)) for name in names), np.int64, len(used))
    return Rows(group, start_s[used], duration_s[used], counters[used])
