"""The two tables of Google's trace of 2011 as arrays of the rows in use."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.traces.errors import TraceError
from sysgym.emulator.cluster.traces.reading import (
    END_BEFORE_START,
    MISSING_ID,
    NOT_A_NUMBER,
    Sieve,
    Tally,
    blocks,
    nonempty,
    numbers,
    whole_numbers,
)

EVENT_COLUMNS, USAGE_COLUMNS = 13, 20
EVENTS_TITLE = "task_events of Google's trace of 2011 (13 columns)"
USAGE_TITLE = "task_usage of Google's trace of 2011 (20 columns)"

SUBMIT, SCHEDULE, EVICT, FAIL = 0, 1, 2, 3
TERMINAL = (2, 3, 4, 5, 6)
"""EVICT, FAIL, FINISH, KILL and LOST, after which a task does not run."""
_LAST_KIND = 8

WINDOW_US = 300_000_000
"""Longest time that a usage record covers, microseconds."""

TOO_LONG = "longer than the window of 300 s"
EMPTY_RECORD = "usage record of 0 s"
BAD_EVENT = "event type is not 0 to 8"

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


@dataclass(frozen=True)
class Usage(_Table):
    """Rows of task_usage; counters float32 (rows, 13), nan where a value is missing."""

    job: NDArray[np.int64]
    task: NDArray[np.int64]
    start_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    counters: NDArray[np.float32]


def read_events(files: list[Path], tally: Tally) -> Events:
    """Read task_events.

    Raises:
        TraceError: A file is damaged, or has no row of the table.
    """
    parts: list[Events] = []
    for path in files:
        malformed, read = tally.malformed.total(), tally.rows_read
        parts += [_events(columns, tally) for columns in blocks(path, EVENT_COLUMNS, tally)]
        _expect_rows(path, EVENTS_TITLE, tally.rows_read - read, tally.malformed.total() - malformed)
    return Events.joined(parts)


def read_usage(
    files: list[Path], wanted: NDArray[np.int64], tally: Tally, others: str
) -> tuple[Usage, tuple[int, int]]:
    """Read task_usage of some jobs.

    Args:
        files: Parts of the table.
        wanted: Ids of the jobs, sorted; rows of others are checked and left out.
        tally: Counts of rows, updated.
        others: Reason under which rows of other jobs are counted.

    Returns:
        The rows, and the first start and last end of all valid rows, microseconds.

    Raises:
        TraceError: A file is damaged, or has no row of the table.
    """
    parts: list[Usage] = []
    begin_us, end_us = np.iinfo(np.int64).max, 0
    for path in files:
        malformed, read = tally.malformed.total(), tally.rows_read
        for columns in blocks(path, USAGE_COLUMNS, tally):
            rows = _usage(columns, tally)
            if len(rows.job):
                begin_us = min(begin_us, int(rows.start_us.min()))
                end_us = max(end_us, int(rows.end_us.max()))
            place = np.searchsorted(wanted, rows.job)
            mine = np.flatnonzero(np.append(wanted, -1)[place] == rows.job)
            if len(mine) < len(rows.job):
                tally.left_out_rows[others] += len(rows.job) - len(mine)
            parts.append(rows.take(mine))
        _expect_rows(path, USAGE_TITLE, tally.rows_read - read, tally.malformed.total() - malformed)
    return Usage.joined(parts), (begin_us, end_us)


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
