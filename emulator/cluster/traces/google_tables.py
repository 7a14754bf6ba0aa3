"""The tables of Google's trace of 2011: one file at a time, as arrays of the rows in use."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.counters import GOOGLE_2011
from sysgym.emulator.cluster.traces.reading import (
    END_BEFORE_START,
    MISSING_ID,
    NOT_A_NUMBER,
    Pick,
    Sieve,
    Tally,
    blocks,
    nonempty,
    numbers,
    whole_numbers,
)
from sysgym.emulator.trace_errors import TraceError

EVENT_COLUMNS, USAGE_COLUMNS, JOB_COLUMNS = 13, 20, 8
EVENTS_TITLE = "task_events of Google's trace of 2011 (13 columns)"
USAGE_TITLE = "task_usage of Google's trace of 2011 (20 columns)"
JOBS_TITLE = "job_events of Google's trace of 2011 (8 columns)"

SUBMIT, SCHEDULE, EVICT, FAIL = 0, 1, 2, 3
TERMINAL = (2, 3, 4, 5, 6)
"""EVICT, FAIL, FINISH, KILL and LOST, after which a task does not run."""
UPDATES = 7
"""UPDATE_PENDING; UPDATE_RUNNING follows and is the last kind."""
_LAST_KIND = 8

WINDOW_US = 300_000_000
"""Longest time that a usage record covers, microseconds."""

TOO_LONG = "longer than the window of 300 s"
EMPTY_RECORD = "usage record of 0 s"
BAD_EVENT = "event type is not 0 to 8"

MEASURED = tuple(counter.name for counter in GOOGLE_2011)[:-2]
"""Counters from task_usage; evictions and failures come from task_events."""

# Counted from 0, in the order of counters.GOOGLE_2011.
_COUNTERS = (5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19)
# Validated as numbers but not used: CPU, memory and disk request; sample portion, aggregation type.
_OTHER_EVENT_NUMBERS = (9, 10, 11)
_OTHER_USAGE_NUMBERS = (17, 18)


@dataclass(frozen=True)
class _Table:
    """Base of tables: columns of equal length."""

    def take(self, rows: NDArray[np.int64] | slice) -> Self:
        """Return some rows."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @classmethod
    def empty(cls) -> Self:
        """Return the table without rows."""
        raise NotImplementedError

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """Return the rows of all parts, at least one."""
        columns: dict[str, Any] = {
            f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)
        }
        return cls(**columns)


@dataclass(frozen=True)
class Events(_Table):
    """Rows of task_events; a missing scheduling class is -1."""

    job: NDArray[np.int64]
    task: NDArray[np.int64]
    time_us: NDArray[np.int64]
    kind: NDArray[np.int8]
    scheduling_class: NDArray[np.int8]

    @classmethod
    def empty(cls) -> Self:
        """Return the table without rows."""
        whole, small = np.empty(0, np.int64), np.empty(0, np.int8)
        return cls(whole, whole, whole, small, small)


@dataclass(frozen=True)
class Usage(_Table):
    """Rows of task_usage; counters float32 (rows, 13), nan where a value is missing."""

    job: NDArray[np.int64]
    task: NDArray[np.int64]
    start_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    counters: NDArray[np.float32]

    @classmethod
    def empty(cls) -> Self:
        """Return the table without rows."""
        whole = np.empty(0, np.int64)
        return cls(whole, whole, whole, whole, np.empty((0, len(_COUNTERS)), np.float32))


class OfJobs:
    """Choice of the lines of some jobs, by the job id alone; other jobs' rows are not parsed.

    Args:
        jobs: Ids of the jobs.
        tally: Counts of rows; others' are counted under ``others``.
        others: Reason for leaving out rows of other jobs.
    """

    def __init__(self, jobs: NDArray[np.int64], tally: Tally, others: str) -> None:
        self._wanted = frozenset(map(str, jobs.tolist()))
        self._tally, self._others = tally, others

    def __call__(self, lines: list[str]) -> list[str]:
        """Return the lines of the jobs, and those that are no rows of the table."""
        heads = [line.split(",", 3) for line in lines]
        self._see(heads)
        picked = [
            line
            for line, head in zip(lines, heads, strict=True)
            if len(head) <= 3 or not head[2] or head[2] in self._wanted
        ]
        if len(picked) < len(lines):
            self._tally.left_out_rows[self._others] += len(lines) - len(picked)
        return picked

    def _see(self, heads: list[list[str]]) -> None:
        """Take note of the first three columns of all rows."""


class UsageOfJobs(OfJobs):
    """Choice of the usage records of some jobs, which notes the time that the records of all jobs span.

    Attributes:
        begin_us: First start of a record, microseconds.
        end_us: Last end of one.
    """

    def __init__(self, jobs: NDArray[np.int64], tally: Tally, others: str) -> None:
        super().__init__(jobs, tally, others)
        self.begin_us, self.end_us = np.iinfo(np.int64).max, 0

    def _see(self, heads: list[list[str]]) -> None:
        whole = [head for head in heads if len(head) > 3]
        start_us, bad_start = whole_numbers([head[0] for head in whole])
        end_us, bad_end = whole_numbers([head[1] for head in whole])
        sound = ~bad_start & ~bad_end & (start_us >= 0) & (end_us > start_us)
        sound[sound] &= end_us[sound] - start_us[sound] <= WINDOW_US
        if sound.any():
            self.begin_us = min(self.begin_us, int(start_us[sound].min()))
            self.end_us = max(self.end_us, int(end_us[sound].max()))


def read_events(path: Path, tally: Tally, pick: Pick | None = None) -> tuple[Events, dict[int, str]]:
    """Read a part of task_events.

    Args:
        path: The file.
        tally: Counts of rows, updated.
        pick: Choice of lines; None: all.

    Returns:
        Rows of all kinds but updates, which do not change whether a task runs, and users by job.

    Raises:
        TraceError: The file is damaged, or has no row of the table.
    """
    parts = [Events.empty()]
    users: dict[int, str] = {}
    n_read, n_bad = tally.rows_read, tally.malformed.total()
    for columns in blocks(path, EVENT_COLUMNS, tally, pick):
        events = _events(columns, tally)
        named = dict.fromkeys(zip(columns[2], columns[6], strict=True))
        users.update((int(job), user) for job, user in named if user and job.isdecimal())
        parts.append(events.take(np.flatnonzero(events.kind < UPDATES)))
    _expect_rows(path, EVENTS_TITLE, tally.rows_read - n_read, tally.malformed.total() - n_bad)
    return Events.joined(parts), users


def read_usage(path: Path, tally: Tally, pick: Pick | None = None) -> Usage:
    """Read a part of task_usage; see :func:`read_events`."""
    parts = [Usage.empty()]
    n_read, n_bad = tally.rows_read, tally.malformed.total()
    parts += [_usage(columns, tally) for columns in blocks(path, USAGE_COLUMNS, tally, pick)]
    _expect_rows(path, USAGE_TITLE, tally.rows_read - n_read, tally.malformed.total() - n_bad)
    return Usage.joined(parts)


def read_programs(path: Path, tally: Tally, pick: Pick | None = None) -> dict[int, str]:
    """Read the logical names of jobs from a part of job_events; repeats of a program have the same.

    Raises:
        TraceError: The file is damaged, or has no row of the table.
    """
    programs: dict[int, str] = {}
    n_read, n_bad = tally.rows_read, tally.malformed.total()
    for columns in blocks(path, JOB_COLUMNS, tally, pick):
        job, bad = whole_numbers(columns[2])
        sieve = Sieve(len(job))
        sieve.drop(~nonempty(columns[2]), tally.malformed, MISSING_ID)
        sieve.drop(bad | (job < 0), tally.malformed, NOT_A_NUMBER)
        rows = zip(job.tolist(), columns[7], sieve.good.tolist(), strict=True)
        programs.update((job, name) for job, name, good in rows if good and name)
    _expect_rows(path, JOBS_TITLE, tally.rows_read - n_read, tally.malformed.total() - n_bad)
    return programs


def _expect_rows(path: Path, title: str, read: int, malformed: int) -> None:
    if read == malformed:
        raise TraceError(
            path, f"none of the {read} rows is of the table", title, "set jobs.paths to the right files"
        )


def _events(columns: list[tuple[str, ...]], tally: Tally) -> Events:
    n = len(columns[0])
    sieve = Sieve(n)
    sieve.drop(~(nonempty(columns[2]) & nonempty(columns[3])), tally.malformed, MISSING_ID)
    parsed = [whole_numbers(columns[column]) for column in (0, 2, 3, 5)]
    (time_us, job, task, kind), bad_columns = zip(*parsed, strict=True)
    scheduling_class, bad = numbers(columns[7])
    for is_bad in (*bad_columns, *(numbers(columns[column])[1] for column in _OTHER_EVENT_NUMBERS)):
        bad |= is_bad
    bad |= (time_us < 0) | (job < 0) | (task < 0)
    sieve.drop(bad, tally.malformed, NOT_A_NUMBER)
    sieve.drop((kind < 0) | (kind > _LAST_KIND), tally.malformed, BAD_EVENT)
    good = np.flatnonzero(sieve.good)
    return Events(
        job[good],
        task[good],
        time_us[good],
        kind[good].astype(np.int8),
        np.nan_to_num(scheduling_class[good], nan=-1).astype(np.int8),
    )


def _usage(columns: list[tuple[str, ...]], tally: Tally) -> Usage:
    n = len(columns[0])
    sieve = Sieve(n)
    sieve.drop(~(nonempty(columns[2]) & nonempty(columns[3])), tally.malformed, MISSING_ID)
    parsed = [whole_numbers(columns[column]) for column in (0, 1, 2, 3)]
    (start_us, end_us, job, task), bad_columns = zip(*parsed, strict=True)
    bad = (start_us < 0) | (job < 0) | (task < 0)
    counters = np.empty((n, len(_COUNTERS)), np.float32)
    for i, column in enumerate(_COUNTERS):
        value, is_bad = numbers(columns[column])
        counters[:, i] = value
        bad |= is_bad
    for is_bad in (*bad_columns, *(numbers(columns[column])[1] for column in _OTHER_USAGE_NUMBERS)):
        bad |= is_bad
    sieve.drop(bad, tally.malformed, NOT_A_NUMBER)
    sieve.drop(end_us < start_us, tally.malformed, END_BEFORE_START)
    sieve.drop(end_us - start_us > WINDOW_US, tally.malformed, TOO_LONG)
    sieve.drop(end_us == start_us, tally.left_out_rows, EMPTY_RECORD)
    good = np.flatnonzero(sieve.good)
    return Usage(job[good], task[good], start_us[good], end_us[good], counters[good])
