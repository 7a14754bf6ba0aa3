"""Reading of Google's trace of 2011 into the cache, with memory for one part and one job at a time.

1. task_events: scheduling class and parallelism of all jobs.
2. task_events again: the events of jobs that fit. Those with tasks that do not begin and end within the files
   are left out before their usage is read, because services that run for weeks have most of it.
3. job_events, if it is there: the programs of the jobs that are left.
4. task_usage: the records of these jobs.
5. Rows are sorted by job on the disk, and each job is checked on its own.

Stages 1 to 4 keep every file's rows, so that an interrupted reading goes on with the next file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.traces.bars import reading_bar
from sysgym.emulator.cluster.traces.cache import Arrays, TraceCache, packed, unpacked
from sysgym.emulator.cluster.traces.google_jobs import (
    NOT_WITHIN,
    Bounds,
    begins_and_ends,
    reason_against,
    wide_jobs,
    without_overlaps,
)
from sysgym.emulator.cluster.traces.google_rows import GroupedRows
from sysgym.emulator.cluster.traces.google_tables import (
    MEASURED,
    SUBMIT,
    TERMINAL,
    Events,
    OfJobs,
    Usage,
    UsageOfJobs,
    read_events,
    read_programs,
    read_usage,
)
from sysgym.emulator.cluster.traces.reading import Tally

OTHER_JOBS = "usage of jobs that are left out"
OTHER_PROGRAMS = "submissions of jobs that are left out"


@dataclass(frozen=True)
class Tables:
    """Files of each table; ``jobs`` may be empty."""

    events: Sequence[Path]
    usage: Sequence[Path]
    jobs: Sequence[Path]


def read_into(cache: TraceCache, tables: Tables, bounds: Bounds) -> Arrays:
    """Read the trace, and return the index of its jobs.

    Args:
        cache: Where rows are kept.
        tables: Files of the trace.
        bounds: Jobs to select.

    Returns:
        ``job`` (ids), ``usage`` and ``events`` (first row and behind the last one, shape (n, 2)),
        ``submit_us``, ``end_us``, ``user`` and ``program`` (empty if unknown), ``span_us`` (2,), and
        ``counts`` (the tally and reasons to leave jobs out, as JSON).

    Raises:
        TraceError: A file is damaged or of another table.
        StorageError: The cache cannot be written.
    """
    tally, left_out = Tally(), Counter[str]()
    files = (*tables.events, *tables.events, *tables.jobs, *tables.usage)
    with reading_bar("reading the trace", sum(path.stat().st_size for path in files)) as advance:
        stages = _Stages(cache, tally, advance)
        wanted = wide_jobs(list(stages.jobs(tables.events)), bounds, left_out)
        users: dict[int, str] = {}
        n_events = np.zeros(len(wanted), np.int64)
        for part in stages.events(tables.events, wanted):
            n_events += _count(part["job"], wanted)
            users |= _by_job(part)
        events = GroupedRows(cache, Events, n_events)
        events.fill(stages.events(tables.events, wanted), wanted)
        for i in range(len(wanted)):
            mine = events.group(i)
            events.put(i, mine.take(np.lexsort((mine.time_us, mine.task))))
        whole = np.array([begins_and_ends(events.group(i)) for i in range(len(wanted))], np.bool_)
        left_out[NOT_WITHIN] += int(np.count_nonzero(~whole))
        remaining = wanted[whole]
        programs: dict[int, str] = {}
        for part in stages.programs(tables.jobs, remaining):
            programs |= _by_job(part)
        n_usage = np.zeros(len(remaining), np.int64)
        span_us = np.array([np.iinfo(np.int64).max, 0])
        for part in stages.usage(tables.usage, remaining):
            n_usage += _count(part["job"], remaining)
            span_us = np.array([min(span_us[0], part["span_us"][0]), max(span_us[1], part["span_us"][1])])
        usage = GroupedRows(cache, Usage, n_usage)
        usage.fill(stages.usage(tables.usage, remaining), remaining)
        jobs = [
            job
            for i, of_events in enumerate(np.flatnonzero(whole).tolist())
            if (job := _job(int(remaining[i]), usage, i, events, of_events, span_us, bounds, tally, left_out))
        ]
    index = _index(jobs)
    index["span_us"] = span_us
    for name, values in (("user", users), ("program", programs)):
        index[name] = np.array([values.get(job, "") for job in index["job"].tolist()], np.str_)
    index["counts"] = packed({"tally": tally.to_data(), "left_out_jobs": +left_out})
    cache.finish(index)
    return index


class _Stages:
    """Rows of one file after the other, kept in the cache.

    Args:
        cache: Where they are kept.
        tally: Counts of rows, updated when a file is first passed.
        advance: Called with the size of every file that has been read.
    """

    def __init__(self, cache: TraceCache, tally: Tally, advance: Callable[[int], None]) -> None:
        self._cache, self._tally, self._advance = cache, tally, advance
        self._passed: set[str] = set()

    def jobs(self, files: Sequence[Path]) -> Iterator[Arrays]:
        """Yield scheduling class and last task of the jobs in every part of task_events."""

        def read(path: Path, tally: Tally) -> Arrays:
            events, _ = read_events(path, tally)
            jobs, job = np.unique(events.job, return_inverse=True)
            scheduling_class = np.full(len(jobs), -1, np.int64)
            np.maximum.at(scheduling_class, job, events.scheduling_class)
            last_task = np.zeros(len(jobs), np.int64)
            np.maximum.at(last_task, job, events.task)
            return {"job": jobs, "scheduling_class": scheduling_class, "last_task": last_task}

        return self._each("jobs", files, read)

    def events(self, files: Sequence[Path], wanted: NDArray[np.int64]) -> Iterator[Arrays]:
        """Yield the events of some jobs and their users."""

        def read(path: Path, _: Tally) -> Arrays:
            again = Tally()  # these rows have been counted
            events, users = read_events(path, again, OfJobs(wanted, again, OTHER_JOBS))
            mine = events.take(np.flatnonzero(np.isin(events.job, wanted)))
            return {**vars(mine), **_named(users)}

        return self._each("events", files, read)

    def programs(self, files: Sequence[Path], wanted: NDArray[np.int64]) -> Iterator[Arrays]:
        """Yield the programs of some jobs."""

        def read(path: Path, tally: Tally) -> Arrays:
            return _named(read_programs(path, tally, OfJobs(wanted, tally, OTHER_PROGRAMS)))

        return self._each("programs", files, read)

    def usage(self, files: Sequence[Path], wanted: NDArray[np.int64]) -> Iterator[Arrays]:
        """Yield the usage records of some jobs, and the time between the first start and last end of any."""

        def read(path: Path, tally: Tally) -> Arrays:
            pick = UsageOfJobs(wanted, tally, OTHER_JOBS)
            usage = read_usage(path, tally, pick)
            return {**vars(usage), "span_us": np.array([pick.begin_us, pick.end_us])}

        return self._each("usage", files, read)

    def _each(
        self, stage: str, files: Sequence[Path], read: Callable[[Path, Tally], Arrays]
    ) -> Iterator[Arrays]:
        for number, path in enumerate(files):
            name = f"{stage}-{number:05d}"
            part = self._cache.part(name)
            if part is None:
                own = Tally()
                part = {**read(path, own), "tally": packed(own.to_data())}
                self._cache.keep_part(name, part)
            if name not in self._passed:
                self._passed.add(name)
                self._tally.add(Tally.from_data(unpacked(part["tally"])))
                self._advance(path.stat().st_size)
            yield part


class _Job(NamedTuple):
    """A job that can be replayed: where its rows are, and when it began and ended."""

    job: int
    usage: tuple[int, int]
    events: tuple[int, int]
    submit_us: int
    end_us: int


def _job(
    job: int,
    usage: GroupedRows[Usage],
    of_usage: int,
    events: GroupedRows[Events],
    of_events: int,
    span_us: NDArray[np.int64],
    bounds: Bounds,
    tally: Tally,
    left_out: Counter[str],
) -> _Job | None:
    """Sort a job's usage and check it; return None if the job is not replayed."""
    mine, seen = usage.group(of_usage), events.group(of_events)
    # A stable sort: of two overlapping records, the same one is always kept.
    mine = without_overlaps(mine.take(np.lexsort((mine.start_us, mine.task))), tally)
    if reason := reason_against(mine, seen, span_us, bounds):
        left_out[reason] += 1
        return None
    for name, count in zip(MEASURED, np.isnan(mine.counters).sum(axis=0).tolist(), strict=True):
        if count:
            tally.missing_values[name] += count
    np.nan_to_num(mine.counters, copy=False)
    usage.put(of_usage, mine)
    submits = seen.time_us[(seen.kind == SUBMIT) & (seen.time_us > 0)]
    # If no submission was seen, or only a later one, the job begins with its first record.
    submit_us = int(np.concatenate([submits, mine.start_us]).min())
    ended = np.concatenate(
        [mine.end_us, seen.time_us[np.isin(seen.kind, TERMINAL) & np.isin(seen.task, mine.task)]]
    )
    return _Job(
        job,
        (int(usage.first[of_usage]), int(usage.behind[of_usage])),
        (int(events.first[of_events]), int(events.behind[of_events])),
        submit_us,
        int(ended.max()),
    )


def _index(jobs: list[_Job]) -> Arrays:
    """Return the jobs as arrays, in the order of their names."""
    ordered = sorted(jobs, key=lambda job: str(job.job))
    shapes = {"job": (), "usage": (2,), "events": (2,), "submit_us": (), "end_us": ()}
    return {
        name: np.array([getattr(job, name) for job in ordered], np.int64).reshape(len(jobs), *shape)
        for name, shape in shapes.items()
    }


def _count(job: NDArray[np.int64], jobs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows each job has; ``jobs`` are sorted and have all."""
    return np.bincount(np.searchsorted(jobs, job), minlength=len(jobs))


def _named(names: Mapping[int, str]) -> Arrays:
    return {"named": np.array(list(names), np.int64), "name": np.array(list(names.values()), np.str_)}


def _by_job(part: Arrays) -> dict[int, str]:
    return dict(zip(part["named"].tolist(), part["name"].tolist(), strict=True))
