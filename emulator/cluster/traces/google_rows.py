"""Rows of Google's trace by job, in files of the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.traces.cache import Arrays, TraceCache
from sysgym.emulator.cluster.traces.google_tables import Events, Usage

_NOT_KEPT = ("job", "scheduling_class")

T = TypeVar("T", Events, Usage)


class GroupedRows(Generic[T]):
    """Rows of a table by job, in files of the cache that are mapped into memory.

    Args:
        cache: Where the files are.
        kind: The table.
        counts: Number of rows of each job.

    Attributes:
        first, behind: First row of each job, and the one behind its last.
    """

    def __init__(self, cache: TraceCache, kind: type[T], counts: NDArray[np.int64]) -> None:
        self._kind: type[T] = kind
        self.behind: NDArray[np.int64] = np.cumsum(counts)
        self.first: NDArray[np.int64] = self.behind - counts
        self._columns: dict[str, NDArray[Any]] = {}
        for name in _kept(kind):
            one: NDArray[Any] = getattr(kind.empty(), name)
            shape = (int(counts.sum()), *one.shape[1:])
            self._columns[name] = cache.new_column(_file(kind, name), shape, one.dtype)

    def fill(self, parts: Iterator[Arrays], jobs: NDArray[np.int64]) -> None:
        """Put the rows of all parts in their places, each job's in their order; ``jobs`` are sorted."""
        next_row = self.first.copy()
        for part in parts:
            group = np.searchsorted(jobs, part["job"])
            order = np.argsort(group, kind="stable")
            group = group[order]
            place = next_row[group] + np.arange(len(group)) - np.searchsorted(group, group)
            for name, column in self._columns.items():
                column[place] = part[name][order]
            next_row += np.bincount(group, minlength=len(jobs))

    def group(self, i: int) -> T:
        """Return a copy of a job's rows."""
        rows = slice(int(self.first[i]), int(self.behind[i]))
        return _table(self._kind, {name: np.array(column[rows]) for name, column in self._columns.items()})

    def put(self, i: int, table: T) -> None:
        """Replace a job's rows by as many or fewer."""
        begin = int(self.first[i])
        for name, column in self._columns.items():
            values = getattr(table, name)
            column[begin : begin + len(values)] = values
            self.behind[i] = begin + len(values)


def stored_rows(cache: TraceCache, kind: type[T], rows: slice) -> T:
    """Return rows that have been read into the cache; job ids and scheduling classes are not kept.

    Raises:
        TraceError: The cache has been removed or damaged.
    """
    return _table(kind, {name: stored_column(cache, kind, name, rows) for name in _kept(kind)})


def stored_column(cache: TraceCache, kind: type[T], name: str, rows: slice) -> NDArray[Any]:
    """Return one column of the rows of :func:`stored_rows`."""
    return cache.rows(_file(kind, name), rows)


def _kept(kind: type[T]) -> list[str]:
    """Return the columns that are kept: ids and classes are the same in all rows of a job."""
    return [f.name for f in fields(kind) if f.name not in _NOT_KEPT]


def _table(kind: type[T], columns: dict[str, NDArray[Any]]) -> T:
    """Return a table of the columns that are kept."""
    zeros = np.zeros(len(columns["task"]), np.int64)
    return kind(**{f.name: columns.get(f.name, zeros) for f in fields(kind)})


def _file(kind: type[T], column: str) -> str:
    return f"{kind.__name__.lower()}-{column}"
