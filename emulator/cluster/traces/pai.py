"""Alibaba's GPU trace of 2020 (cluster-trace-gpu-v2020, from PAI): instances of a task, with their machines.

A job of this package is one task of one job of the trace (its workers, or its parameter servers), and its
tasks are that task's instances. Values of two kinds are shown as counters. What a scheduler knows when it
starts an instance (type of GPU and size of the machine, and the request) is shown from the first window on.
The means over an instance's life in pai_sensor_table and pai_machine_metric are treated as
``static_counters`` says.

Only instances that terminated are used, and of several rows of one worker the last. Instances that wait for
each other, as in synchronous training, end together; the trace does not tell which ones do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.counters import PAI_2020
from sysgym.emulator.cluster.job import FloatArray
from sysgym.emulator.cluster.traces.bars import reading_bar
from sysgym.emulator.cluster.traces.cache import Arrays, TraceCache, packed, unpacked
from sysgym.emulator.cluster.traces.instances import (
    NO_DURATION,
    NOT_TERMINATED,
    Instances,
    Rows,
    span_of,
)
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
from sysgym.emulator.trace_errors import TraceError

NO_TIME = "no time of its start or end"
EARLIER_ROW = "earlier row of the same worker"
SECOND_ROW = "second row of what has one"
NOT_IN_USE = "belongs to instances that are not used"

INSTANCE, SENSOR, METRIC = "pai_instance_table", "pai_sensor_table", "pai_machine_metric"
SPEC, TASK, TAG = "pai_machine_spec", "pai_task_table", "pai_group_tag_table"
TABLES = {INSTANCE: 9, SENSOR: 16, METRIC: 12, SPEC: 5, TASK: 10, TAG: 5}
"""Tables in use -> number of columns. The name of a table's file begins with the table's."""
_NOT_NEEDED = "pai_job_table"

NAMES = tuple(counter.name for counter in PAI_2020)
_GPU_TYPES = tuple(name.removeprefix("gpu_type_") for name in NAMES if name.startswith("gpu_type_"))
_NO_GPU = "cpu"
# Columns of each table, counted from 0, in the order of counters.PAI_2020.
_CAPACITIES, _PLAN, _SENSED, _MEASURED = range(2, 5), range(6, 9), range(6, 16), range(4, 12)
N_KNOWN = len(_GPU_TYPES) + len(_CAPACITIES) + len(_PLAN)
_IN_BYTES = np.isin(NAMES, ("read", "write", "machine_net_receive"))

Blocks = Iterator[list[tuple[str, ...]]]


def read_pai(files: Sequence[Path], tally: Tally, *, tasks_min: int, tasks_max: int) -> Instances:
    """Read the tables, of which memory holds what belongs to tasks with a fitting number of instances.

    They are read once; what is in use is kept in the cache (``cache.py``).

    Args:
        files: Unpacked tables, recognized by their names.
        tally: Counts of rows, updated.
        tasks_min: Fewest instances of a task.
        tasks_max: Most instances of a task.

    Returns:
        The content; groups that do not fit have no name.

    Raises:
        TraceError: A file is empty, damaged or no table of the trace, or a table is missing.
        StorageError: The cache cannot be written.
    """
    cache = TraceCache(files, {"format": "pai-2020", "tasks_min": tasks_min, "tasks_max": tasks_max})
    index = cache.index()
    if index is None:
        tables = _sorted_out(files)
        with cache.locked():
            index = cache.index()
            if index is None:
                index = _read(tables, tasks_min, tasks_max)
                cache.finish(index)
    tally.add(Tally.from_data(unpacked(index["tally"])))
    names = index["group_name"].tolist()
    owners = zip(index["user"].tolist(), index["program"].tolist(), strict=True)
    begin_s, end_s = index["span_s"].tolist()
    return Instances(
        groups=names + [""] * (len(index["size"]) - len(names)),
        size=index["size"],
        rows=Rows(index["group"], index["start_s"], index["duration_s"], index["counters"]),
        counters=NAMES,
        n_known=N_KNOWN,
        owners=dict(enumerate(owners)),
        span_s=(begin_s, end_s),
    )


def _read(tables: dict[str, list[Path]], tasks_min: int, tasks_max: int) -> Arrays:
    """Return the content as arrays; groups that fit come first."""
    tally = Tally()
    total_bytes = sum(path.stat().st_size for found in tables.values() for path in found)
    with reading_bar("reading the trace", total_bytes) as advance:

        def table(name: str) -> Blocks:
            for path in tables[name]:
                yield from _whole_file(path, name, tally)
                advance(path.stat().st_size)

        every = _instances(table(INSTANCE), tally)
        size = np.bincount(every.group, minlength=len(every.groups))
        fits = (size >= tasks_min) & (size <= tasks_max)
        mine = every.take(np.flatnonzero(fits[every.group]))
        groups = np.flatnonzero(fits)
        group = np.searchsorted(groups, mine.group)
        names = [every.groups[i] for i in groups.tolist()]
        job_ids = [every.job_ids[i] for i in groups.tolist()]
        counters = np.concatenate(
            [
                _machines(table(SPEC), mine.machine, tally),
                _joined(table(TASK), _keys(names), _task_keys, _PLAN, tally)[group],
                _joined(table(SENSOR), mine.worker, lambda columns: _keys(columns[2]), _SENSED, tally),
                _joined(table(METRIC), mine.worker, lambda columns: _keys(columns[0]), _MEASURED, tally),
            ],
            axis=1,
        )
        tags = _tags(table(TAG), set(job_ids), tally)
    counters[:, _IN_BYTES] *= 1e-6
    missing = np.isnan(counters) | (counters < 0)
    tally.missing_values.update(
        {name: int(count) for name, count in zip(NAMES, missing.sum(axis=0), strict=True) if count}
    )
    counters[missing] = 0.0
    return {
        "group_name": np.array(names, np.str_),
        "user": np.array([tags.get(job_id, ("", ""))[0] for job_id in job_ids], np.str_),
        "program": np.array([tags.get(job_id, ("", ""))[1] for job_id in job_ids], np.str_),
        "size": np.concatenate([size[fits], size[~fits]]),
        "group": group,
        "start_s": mine.start_s,
        "duration_s": mine.duration_s,
        "counters": counters,
        "span_s": np.array(span_of(every.start_s, every.duration_s)),
        "tally": packed(tally.to_data()),
    }


@dataclass(frozen=True)
class _Instances:
    """Instances that terminated: index of the group, times, and keys of worker and machine.

    Attributes:
        groups: Name of each group, ``job/task``.
        job_ids: Its job's ``inst_id``, by which pai_group_tag_table knows it.
    """

    groups: list[str]
    job_ids: list[str]
    group: NDArray[np.int64]
    start_s: FloatArray
    duration_s: FloatArray
    worker: NDArray[np.int64]
    machine: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> _Instances:
        """Return some rows."""
        return _Instances(
            self.groups,
            self.job_ids,
            self.group[rows],
            self.start_s[rows],
            self.duration_s[rows],
            self.worker[rows],
            self.machine[rows],
        )


def _sorted_out(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Return the files of each table."""
    tables: dict[str, list[Path]] = {name: [] for name in TABLES}
    for path in files:
        if path.name.startswith(_NOT_NEEDED):
            continue
        name = next((name for name in TABLES if path.name.startswith(name)), None)
        if name is None:
            raise TraceError(
                path,
                "the name is not that of a table of the trace",
                f"one of {', '.join(TABLES)}, with .csv or .csv.gz",
                "keep the names that the files were published with, or take this one out of jobs.paths",
            )
        if columns_of(path) != TABLES[name]:
            raise wrong_format(path, f"{name} ({TABLES[name]} columns)")
        tables[name].append(path)
    if absent := [name for name, found in tables.items() if not found]:
        raise TraceError(
            ", ".join(map(str, files)) or "jobs.paths",
            f"tables are not there: {', '.join(absent)}",
            f"{', '.join(TABLES)}",
            "name them, or the folder that has all, in jobs.paths too",
        )
    return tables


def _whole_file(path: Path, table: str, tally: Tally) -> Blocks:
    read, malformed = tally.rows_read, tally.malformed.total()
    yield from blocks(path, TABLES[table], tally)
    if tally.rows_read - read == tally.malformed.total() - malformed:
        raise TraceError(path, "none of its rows is of the table", table, "set jobs.paths to the right files")


def _instances(table: Blocks, tally: Tally) -> _Instances:
    """Read pai_instance_table; of several rows of a worker, the last to start is used."""
    index: dict[str, int] = {}
    job_ids: list[str] = []
    parts: list[tuple[NDArray[np.int64] | FloatArray, ...]] = []
    for columns in table:
        job, task, _, worker, job_id, status, start, end, machine = columns
        n = len(job)
        sieve = Sieve(n)
        # First, because an instance that has not ended has no valid end.
        ended = np.fromiter((text.lower() == "terminated" for text in status), np.bool_, n)
        sieve.drop(~ended, tally.left_out_rows, NOT_TERMINATED)
        sieve.drop(~(nonempty(job) & nonempty(task) & nonempty(worker)), tally.malformed, MISSING_ID)
        (start_s, bad_start), (end_s, bad_end) = numbers(start), numbers(end)
        sieve.drop(bad_start | bad_end, tally.malformed, NOT_A_NUMBER)
        sieve.drop(~((start_s > 0) & (end_s > 0)), tally.left_out_rows, NO_TIME)  # empty, or 0
        sieve.drop(end_s < start_s, tally.malformed, END_BEFORE_START)
        sieve.drop(end_s == start_s, tally.left_out_rows, NO_DURATION)
        used = np.flatnonzero(sieve.good)
        group = np.empty(len(used), np.int64)
        for row, i in enumerate(used.tolist()):
            name = f"{job[i]}/{task[i]}"
            if name not in index:
                index[name] = len(index)
                job_ids.append(job_id[i])
            group[row] = index[name]
        keys = [_keys(column[i] for i in used.tolist()) for column in (worker, machine)]
        parts.append((group, start_s[used], end_s[used] - start_s[used], *keys))
    group, start_s, duration_s, workers, machines = (np.concatenate(one) for one in zip(*parts, strict=True))
    order = np.lexsort((start_s, workers))
    last = np.append(workers[order][1:] != workers[order][:-1], True)[: len(order)]
    if len(order) > (n_workers := int(np.count_nonzero(last))):
        tally.left_out_rows[EARLIER_ROW] += len(order) - n_workers
    every = _Instances(list(index), job_ids, group, start_s, duration_s, workers, machines)
    return every.take(np.sort(order[last]))


def _joined(
    table: Blocks,
    keys: NDArray[np.int64],
    keys_of: Callable[[list[tuple[str, ...]]], NDArray[np.int64]],
    columns: Iterable[int],
    tally: Tally,
) -> NDArray[np.float32]:
    """Return a table's numbers for some keys.

    Args:
        table: Its rows.
        keys: Keys, each once.
        keys_of: Function that returns the keys of a block's rows.
        columns: Columns to return.
        tally: Counts of rows, updated.

    Returns:
        Values of shape (keys, columns), nan where there are none; the first row of a key counts.
    """
    picked = list(columns)
    values = np.full((len(keys), len(picked)), np.nan, np.float32)
    seen = np.zeros(len(keys), np.bool_)
    order = np.argsort(keys)
    in_order = np.append(keys[order], 0)
    for block in table:
        parsed, bad = zip(*(numbers(block[column]) for column in picked), strict=True)
        key = keys_of(block)
        place = np.searchsorted(in_order[:-1], key)
        sieve = Sieve(len(key))
        sieve.drop(np.any(bad, axis=0), tally.malformed, NOT_A_NUMBER)
        sieve.drop((place == len(keys)) | (in_order[place] != key), tally.left_out_rows, NOT_IN_USE)
        rows = np.flatnonzero(sieve.good)
        target, first = np.unique(order[place[rows]], return_index=True)
        new = ~seen[target]
        if len(rows) > (n_new := int(np.count_nonzero(new))):
            tally.left_out_rows[SECOND_ROW] += len(rows) - n_new
        seen[target] = True
        values[target[new]] = np.stack(parsed, axis=1)[rows[first[new]]]
    return values


def _machines(table: Blocks, machine: NDArray[np.int64], tally: Tally) -> NDArray[np.float32]:
    """Return the type of GPU, one column each, and the size of the machine of every instance."""
    machines, row = np.unique(machine, return_inverse=True)
    kinds = np.full((len(machines), len(_GPU_TYPES)), np.nan, np.float32)

    def with_kinds() -> Blocks:
        for block in table:
            kind = np.array([text.lower() for text in block[1]])
            _, target, source = np.intersect1d(machines, _keys(block[0]), return_indices=True)
            for name in (_NO_GPU, *_GPU_TYPES):
                kinds[target[kind[source] == name]] = [name == one for one in _GPU_TYPES]
            yield block

    sizes = _joined(with_kinds(), machines, lambda block: _keys(block[0]), _CAPACITIES, tally)
    return np.concatenate([kinds, sizes], axis=1)[row]


def _tags(table: Blocks, job_ids: set[str], tally: Tally) -> dict[str, tuple[str, str]]:
    """Return user and group of some jobs."""
    tags: dict[str, tuple[str, str]] = {}
    for job_id, user, _, group, _ in table:
        for one, owner in zip(job_id, zip(user, group, strict=True), strict=True):
            if one not in job_ids:
                tally.left_out_rows[NOT_IN_USE] += 1
            elif one in tags:
                tally.left_out_rows[SECOND_ROW] += 1
            else:
                tags[one] = owner
    return tags


def _task_keys(block: list[tuple[str, ...]]) -> NDArray[np.int64]:
    return _keys(f"{job}/{task}" for job, task in zip(block[0], block[1], strict=True))


def _keys(texts: Iterable[str]) -> NDArray[np.int64]:
    """Return 64-bit hashes of ids, which take less memory than texts; that two are equal is very unlikely."""
    digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, np.int64)
