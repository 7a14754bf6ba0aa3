"""Episodes of a study on all cores, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import numba
from rich.markup import escape

from sysgym.cli.terminal import bars

Job = TypeVar("Job")
Result = TypeVar("Result")


def in_parallel(play: Callable[[Job], Result], jobs: Iterable[Job], title: str) -> list[Result]:
    """Return what a function returns for each job, in the order of the jobs.

    Threads suffice for compiled simulators, which release Python's global lock. After an error or Ctrl-C no
    other job is begun.

    Args:
        play: The function.
        jobs: What it is called with.
        title: Words beside the bar, which is drawn if standard error is a terminal.
    """
    pool = ThreadPoolExecutor(numba.get_num_threads())
    try:
        futures = [pool.submit(play, job) for job in jobs]
        with bars() as drawn:
            for future in drawn.track(as_completed(futures), len(futures), description=escape(title)):
                future.result()  # raises the job's error
        return [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)
