"""Traces of one's own: a table with a row for each measuring window of each task.

The first row names the columns: ``job``, ``task``, ``start_s``, ``end_s``, and then the counters; nothing is
quoted. A row has the mean of every counter between its two times, on any clock in seconds. A task begins with
its first row and has finished at the end of its last one.

A scheduler knows a row when the row has ended. So a window has the mean of the rows that end in it, or, where
none has the counter, what was known before; windows are as long as the table's median row. Where most
tasks of a job have a single row, only means over lives are known: they are shown as ``static_counters`` says
(see ``instances.py``), in windows that the first tasks to finish determine.

A counter that cannot be read ("nan", "NA", "-") is missing, and the times of its row count. A job with a row
of which a time cannot be read is left out, because the latency of that task is unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
    header_of,
    nonempty,
    numbers,
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

REQUIRED = ("job", "task", "start_s", "end_s")
MOST_COUNTERS = 256
TITLE = "a first row with job,task,start_s,end_s and names of counters, and then a row for each window"

NO_TIME = "a row has no valid begin and end"
NO_LENGTH = "begins and ends at the same time"
OVERLAPPING = "a row begins before the one before it of the same task has ended"

_LARGEST = float(np.finfo(np.float32).max)

Numbers = tuple[FloatArray, BoolArray]
"""Values of a column, and which of its texts are no numbers."""

_ROWS_OF_LIVES = 1.5
"""Rows of a task, on average, below which they are those of whole lives."""

_ROUNDING = 1e-6
"""Part of a window by which a row may end after it and still belong to it."""


class Windows(NamedTuple):
    """Rows of a table, sorted by job, task and time.

    Attributes:
        jobs: Names of the jobs, by index.
        counters: Names of the counters.
        job: Index of each row's job, shape (n_rows,).
        task: Index of each row's task, ascending, shape (n_rows,).
        start_s: Begin of each row, shape (n_rows,).
        end_s: End of each row, shape (n_rows,).
        mean: Mean of every counter in each row, nan if missing, float32, shape (n_rows, n_counters).
        untimed: Names of the jobs that have other rows without valid times.
    """

    jobs: list[str]
    counters: tuple[str, ...]
    job: NDArray[np.int64]
    task: NDArray[np.int64]
    start_s: FloatArray
    end_s: FloatArray
    mean: NDArray[np.float32]
    untimed: frozenset[str]


class TableTrace(TraceSource):
    """The jobs of a table.

    Args:
        rows: What was read.
        tally: Counts of rows.
        tasks_min: Fewest tasks of a job.
        tasks_max: Most tasks of a job.
        median_min_s: Least median duration of a job's tasks, s.
        warmup_windows: Windows until 4 % of the tasks of a job whose tasks have a row each have finished, or
            ``median_min_s`` if that is later.
        static_counters: ``"withheld"`` or ``"lifetime"``.
    """

    def __init__(
        self,
        rows: Windows,
        tally: Tally,
        *,
        tasks_min: int,
        tasks_max: int,
        median_min_s: float,
        warmup_windows: int,
        static_counters: str,
    ) -> None:
        self._rows, self._lifetime = rows, static_counters == "lifetime"
        self._median_min_s, self._warmup_windows = median_min_s, warmup_windows
        left_out: Counter[str] = Counter()
        bounds = np.searchsorted(rows.job, np.arange(len(rows.jobs) + 1))
        several = np.bincount(rows.task)[rows.task] > 1
        self._row_s = float(np.median((rows.end_s - rows.start_s)[several])) if several.any() else math.nan
        runs: dict[str, slice] = {}
        origins: dict[str, Origin] = {}
        for name, first, last in zip(rows.jobs, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            run = slice(first, last)
            reason = self._reason_against(run, tasks_min, tasks_max, median_min_s)
            if name in rows.untimed:
                reason = NO_TIME
            if reason:
                left_out[reason] += 1
                continue
            runs[name] = run
            origins[name] = Origin(float(rows.start_s[run].min()), float(rows.end_s[run].max()))
        if lost := len(rows.untimed.difference(rows.jobs)):
            left_out[NO_TIME] += lost
        names = tuple(sorted(runs))
        in_order = [origins[name] for name in names]
        span_s = (float(rows.start_s.min()), float(rows.end_s.max()))
        super().__init__(names, rows.counters, tally, left_out, in_order, span_s)
        self._runs = [runs[name] for name in names]

    def _reason_against(self, run: slice, tasks_min: int, tasks_max: int, median_min_s: float) -> str:
        """Return why a job is not replayed; empty if it is."""
        tasks, _, _, duration_s = self._tasks(run)
        if len(tasks) < tasks_min:
            return TOO_FEW_TASKS
        if len(tasks) > tasks_max:
            return TOO_MANY_TASKS
        if np.median(duration_s) < median_min_s:
            return TOO_SHORT
        too_long = duration_s.max() > MOST_WINDOWS * self._window_s(run)
        return TOO_MANY_WINDOWS if too_long else ""

    def _tasks(self, run: slice) -> tuple[NDArray[np.int64], NDArray[np.int64], FloatArray, FloatArray]:
        """Return a job's tasks, the number of each row's one, and start and duration of each."""
        tasks, first, task = np.unique(self._rows.task[run], return_index=True, return_inverse=True)
        start_s = self._rows.start_s[run][first]
        end_s = np.maximum.reduceat(self._rows.end_s[run], first)
        return tasks, task, start_s, end_s - start_s

    def _window_s(self, run: slice) -> float:
        tasks, _, start_s, duration_s = self._tasks(run)
        if _are_lives(run, len(tasks)):
            ends_s = start_s - start_s.min() + duration_s
            return window_until_warmup(ends_s, self._median_min_s, self._warmup_windows)
        return self._row_s

    def _durations_s(self, index: int) -> FloatArray:
        return self._tasks(self._runs[index])[3]

    def _first_attempts(self, index: int) -> FirstAttempts:
        run = self._runs[index]
        tasks, task, start_s, duration_s = self._tasks(run)
        window_s = self._window_s(run)
        lives = duration_s / window_s
        n_windows = np.maximum(np.ceil(lives - _ROUNDING), 1).astype(np.int64)
        window = np.arange(n_windows.max())
        alive = window < n_windows[:, None]
        end_s, mean = self._rows.end_s[run], self._rows.mean[run].astype(np.float64)
        measured = ~np.isnan(mean)
        length_s = (end_s - self._rows.start_s[run])[:, None] * measured
        of_lives = _are_lives(run, len(tasks))
        if of_lives:
            known = np.zeros_like(task)
        else:
            known = np.ceil((end_s - start_s[task]) / window_s - _ROUNDING).astype(np.int64) - 1
            known = np.maximum(known, 0)
        shape = (len(tasks), int(known.max()) + 1, mean.shape[1])
        weights, sums = np.zeros(shape), np.zeros(shape)
        np.add.at(weights, (task, known), length_s)
        np.add.at(sums, (task, known), length_s * np.where(measured, mean, 0.0))
        means = sums / np.where(weights > 0.0, weights, 1.0)
        if of_lives:
            last = (window == n_windows[:, None] - 1) * (lives / (lives - n_windows + 1))[:, None]
            counters = (alive if self._lifetime else last)[:, :, None] * means
        else:
            place = np.where(weights > 0.0, np.arange(shape[1])[:, None], -1)
            newest = np.maximum.accumulate(place, axis=1)
            shown = np.take_along_axis(means, np.maximum(newest, 0), axis=1)
            counters = np.where(alive[:, :, None] & (newest >= 0), shown, 0.0)
        return FirstAttempts(window_s, start_s - start_s.min(), duration_s, counters.astype(np.float32))


def _are_lives(run: slice, n_tasks: int) -> bool:
    """Return whether a job's rows are means over whole lives."""
    n_rows: int = run.stop - run.start
    return n_rows < _ROWS_OF_LIVES * n_tasks


def read_table(files: Sequence[Path], tally: Tally) -> Windows:
    """Read the files of a table, which have the same columns.

    Args:
        files: The files.
        tally: Counts of rows, updated.

    Raises:
        TraceError: A file is empty, damaged or of other columns, no row is usable, or a counter has a
            negative value or nothing but text.
    """
    columns = _columns(files[0])
    jobs: dict[str, int] = {}
    untimed: set[str] = set()
    unreadable: Counter[str] = Counter()
    tasks: dict[tuple[str, str], int] = {}
    parts: list[tuple[NDArray[np.int64], ...]] = []
    values: list[FloatArray] = []
    for path in files:
        if _columns(path) != columns:
            raise TraceError(
                path,
                f"other columns than {files[0]}: {', '.join(_columns(path))}",
                ", ".join(columns),
                "name files with the same columns in jobs.paths",
            )
        for block in blocks(path, len(columns), tally):
            by_name = dict(zip(columns, block, strict=True))
            numeric = {name: _finite(by_name[name]) for name in columns if name not in ("job", "task")}
            used = np.flatnonzero(_sieved(by_name, numeric, tally, untimed).good)
            unreadable.update({name: int(wrong[used].sum()) for name, (_, wrong) in numeric.items()})
            named = [(by_name["job"][row], by_name["task"][row]) for row in used.tolist()]
            parts.append(
                (
                    np.array([jobs.setdefault(job, len(jobs)) for job, _ in named], np.int64),
                    np.array([tasks.setdefault(pair, len(tasks)) for pair in named], np.int64),
                )
            )
            values.append(np.column_stack([column for column, _ in numeric.values()])[used])
    job, task = (np.concatenate([part[place] for part in parts]) for place in range(2))
    # By name, so that the order of rows and files does not matter.
    place_of = {pair: place for place, pair in enumerate(sorted(tasks))}
    task = np.array([place_of[pair] for pair in tasks], np.int64)[task]
    numbered = np.concatenate(values)
    if not len(job):
        raise TraceError(
            files[0],
            f"none of the {tally.rows_read} rows is usable{_reasons(files, columns, tally)}",
            TITLE,
            "correct the table, or jobs.format",
        )
    places = [name for name in columns if name not in ("job", "task")]
    start_s, end_s = (numbered[:, places.index(name)] for name in ("start_s", "end_s"))
    counters = [name for name in places if name not in REQUIRED]
    mean = numbered[:, [places.index(name) for name in counters]].astype(np.float32)
    for place, name in enumerate(counters):
        lacking, negative = int(np.isnan(mean[:, place]).sum()), int((mean[:, place] < 0.0).sum())
        if lacking == len(job) and unreadable[name]:
            raise TraceError(
                files[0],
                f"the counter {name} has no number; {_first_wrong_number(files, columns, [name])}",
                "counters that are numbers",
                f"delete the column {name}",
            )
        if negative:
            raise TraceError(
                files[0],
                f"the counter {name} has {negative} negative values",
                "counters of at least 0, as observations have them",
                f"shift the column {name}, or delete it",
            )
        if lacking:
            tally.missing_values[name] += lacking
    order = np.lexsort((*mean.T[::-1], end_s, start_s, task, job))
    rows = Windows(
        list(jobs),
        tuple(counters),
        job[order],
        task[order],
        start_s[order],
        end_s[order],
        mean[order],
        frozenset(untimed),
    )
    return _without_overlaps(rows, tally)


def _reasons(files: Sequence[Path], columns: Sequence[str], tally: Tally) -> str:
    """Return why no row is usable, for a message; empty if there is none."""
    reasons = [f"{count} × {reason}" for reason, count in tally.malformed.most_common()]
    if tally.malformed[NOT_A_NUMBER]:
        times = ("start_s", "end_s")
        reasons.append(f"the first one: {_first_wrong_number(files, columns, times)}")
    return f" ({'; '.join(reasons)})" if reasons else ""


def _first_wrong_number(files: Sequence[Path], columns: Sequence[str], names: Sequence[str]) -> str:
    """Return the first text in some columns that should be a number and is not, with its place."""
    for path in files:
        for block in blocks(path, len(columns), Tally()):
            for row in zip(*block, strict=True):
                for name, text in zip(columns, row, strict=True):
                    wrong = numbers([text])[1][0] or (name in REQUIRED and not text)
                    if name in names and text.strip() != name and wrong:
                        return f"{name} is {text!r} in {path.name}"
    return "a number is too large"


def _columns(path: Path) -> list[str]:
    """Return the names of a file's columns.

    Raises:
        TraceError: A required one is missing, or a name is empty or there twice.
    """
    columns_of(path)  # refuses what is no table
    names = header_of(path)
    missing = [name for name in REQUIRED if name not in names]
    n_counters = len(names) - len(REQUIRED)
    if missing or not 1 <= n_counters <= MOST_COUNTERS or len(set(names)) < len(names) or not all(names):
        got = f"no column {missing[0]}" if missing else f"the columns {', '.join(names[:12])}"
        raise TraceError(
            path,
            f"the first row names {got}",
            f"{', '.join(REQUIRED)} and 1 to {MOST_COUNTERS} counters, each once",
            "write the names of the columns into the first row",
        )
    return names


def _finite(texts: Sequence[str]) -> Numbers:
    """Return the numbers of a column, and which texts are none that float32 can hold."""
    values, wrong = numbers(texts)
    wrong |= np.abs(values) > _LARGEST
    return np.where(wrong, np.nan, values), wrong


def _sieved(
    by_name: dict[str, tuple[str, ...]], numeric: dict[str, Numbers], tally: Tally, untimed: set[str]
) -> Sieve:
    """Return which rows of a block are usable, and count the others; add the jobs of rows without times."""
    sieve = Sieve(len(by_name["job"]))
    header = np.array([text.strip() == "start_s" for text in by_name["start_s"]], np.bool_)
    tally.rows_read -= int(header.sum())
    sieve.good &= ~header
    sieve.drop(~(nonempty(by_name["job"]) & nonempty(by_name["task"])), tally.malformed, MISSING_ID)
    named = sieve.good.copy()
    start_s, end_s = (numeric[name][0] for name in ("start_s", "end_s"))
    sieve.drop(np.isnan(start_s) | np.isnan(end_s), tally.malformed, NOT_A_NUMBER)
    sieve.drop(end_s < start_s, tally.malformed, END_BEFORE_START)
    untimed.update(by_name["job"][row] for row in np.flatnonzero(named & ~sieve.good).tolist())
    sieve.drop(end_s == start_s, tally.left_out_rows, NO_LENGTH)
    return sieve


def _without_overlaps(rows: Windows, tally: Tally) -> Windows:
    """Return the rows without those that begin before the last one that is kept of their task has ended."""
    same = np.diff(rows.task, prepend=-1) == 0
    before_s = np.concatenate(([-np.inf], rows.end_s[:-1]))
    length_s = rows.end_s - rows.start_s
    suspects = np.unique(rows.task[same & (rows.start_s < before_s - _ROUNDING * length_s)])
    kept = np.ones(len(rows.task), np.bool_)
    for task in suspects.tolist():
        ended_s = -np.inf
        for row in np.flatnonzero(rows.task == task).tolist():
            if rows.start_s[row] < ended_s - _ROUNDING * length_s[row]:
                kept[row] = False
            else:
                ended_s = rows.end_s[row]
    if not kept.all():
        tally.malformed[OVERLAPPING] += int((~kept).sum())
    columns = ("job", "task", "start_s", "end_s", "mean")
    return rows._replace(**{name: getattr(rows, name)[kept] for name in columns})
