"""Thread pool that shares the rows of a compiled call, which releases Python's global lock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any

WORTH_SHARING_S = 100e-6
"""Least work for more than one thread: waking a thread takes tens of microseconds."""

CHUNKS_PER_THREAD = 4
"""Number of chunks per thread. Rows differ in cost, so a thread that has finished takes the next chunk."""


class RowThreadPool:
    """Pool of threads that includes the calling thread.

    A forked process does not inherit the threads of its parent, and starts its own.

    Args:
        threads: Number of threads; None: one per core available to the process.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or _usable_cores()
        self._pool: ThreadPoolExecutor | None = None
        self._process = os.getpid()
        self._row_s = float("inf")

    def map_rows(self, work: Callable[[int, int], None], n_rows: int) -> None:
        """Call ``work(first, behind_last)`` for ranges of rows that cover every row once.

        Raises:
            Exception: Any exception of ``work``, after all ranges have finished or were abandoned.
        """
        n_helpers = min(self._threads, n_rows) - 1
        if n_helpers < 1 or n_rows * self._row_s < WORTH_SHARING_S:
            began_s = time.perf_counter()
            work(0, n_rows)
            busy_s = time.perf_counter() - began_s
        else:
            busy_s = self._map_chunks(work, n_rows, n_helpers)
        self._row_s = busy_s / n_rows

    def close(self) -> None:
        """End the threads; they are started again when needed."""
        if self._pool is not None and self._process == os.getpid():
            self._pool.shutdown()
        self._pool = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, which starts threads of its own when needed."""
        return {**self.__dict__, "_pool": None}

    def _map_chunks(self, work: Callable[[int, int], None], n_rows: int, n_helpers: int) -> float:
        n_chunks = min(CHUNKS_PER_THREAD * (n_helpers + 1), n_rows)
        bounds = [chunk * n_rows // n_chunks for chunk in range(n_chunks + 1)]
        # The threads share one list iterator, which yields each chunk only once.
        chunks = iter(list(pairwise(bounds)))

        def take() -> float:
            began_s = time.perf_counter()
            for first, behind_last in chunks:
                work(first, behind_last)
            return time.perf_counter() - began_s

        pool = self._started()
        helpers = [pool.submit(take) for _ in range(n_helpers)]
        try:
            busy_s = take()
        finally:
            wait(helpers)
        return busy_s + sum(helper.result() for helper in helpers)

    def _started(self) -> ThreadPoolExecutor:
        """Return the threads of this process."""
        if self._pool is None or self._process != os.getpid():
            self._pool = ThreadPoolExecutor(self._threads - 1, thread_name_prefix="sysgym-worlds")
            self._process = os.getpid()
        return self._pool


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
