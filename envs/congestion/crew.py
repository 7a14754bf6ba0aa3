"""Threads that share the rows of a compiled call, which leaves Python to others meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any

WORTH_SHARING_S = 100e-6
"""Waking a thread takes some tens of microseconds: less work than this is done alone."""

CHUNKS_PER_THREAD = 4
"""Worlds differ in how long they take: whoever is through takes the next chunk."""


class Crew:
    """The calling thread and its helpers.

    Args:
        threads: How many work at a time; None: one a core that the process may use.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or _usable_cores()
        self._pool: ThreadPoolExecutor | None = None
        self._row_s = float("inf")

    def share(self, work: Callable[[int, int], None], n_rows: int) -> None:
        """Call ``work(first, behind_last)`` for ranges that together are all rows, each row once.

        Raises:
            Exception: What the work raises, when all ranges are through or were given up.
        """
        n_helpers = min(self._threads, n_rows) - 1
        if n_helpers < 1 or n_rows * self._row_s < WORTH_SHARING_S:
            began_s = time.perf_counter()
            work(0, n_rows)
            busy_s = time.perf_counter() - began_s
        else:
            busy_s = self._share(work, n_rows, n_helpers)
        self._row_s = busy_s / n_rows

    def close(self) -> None:
        """End the threads; they come back when they are needed."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has: no threads until it needs them."""
        return {**self.__dict__, "_pool": None}

    def _share(self, work: Callable[[int, int], None], n_rows: int, n_helpers: int) -> float:
        n_chunks = min(CHUNKS_PER_THREAD * (n_helpers + 1), n_rows)
        bounds = [chunk * n_rows // n_chunks for chunk in range(n_chunks + 1)]
        # An iterator over a list gives each chunk to one thread only.
        chunks = iter(list(pairwise(bounds)))

        def take() -> float:
            began_s = time.perf_counter()
            for first, behind_last in chunks:
                work(first, behind_last)
            return time.perf_counter() - began_s

        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads - 1, thread_name_prefix="sysgym-worlds")
        helpers = [self._pool.submit(take) for _ in range(n_helpers)]
        try:
            busy_s = take()
        finally:
            wait(helpers)
        return busy_s + sum(helper.result() for helper in helpers)


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
