"""Episodes of a study on all cores, with a progress bar."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
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
    waiting = deque(enumerate(jobs))
    n_jobs, n_threads = len(waiting), numba.get_num_threads()
    ended: SimpleQueue[tuple[int, Result | None, BaseException | None]] = SimpleQueue()

    def work() -> None:
        while True:
            try:
                place, job = waiting.popleft()
            except IndexError:
                return
            try:
                ended.put((place, play(job), None))
            except BaseException as error:  # the caller raises it
                ended.put((place, None, error))

    # The pool gets one job for each thread, not all jobs: Ctrl-C during `submit` can leave a lock of the pool
    # taken, for which its threads then wait for ever. A deque and a simple queue have no such lock.
    pool = ThreadPoolExecutor(n_threads)
    try:
        for _ in range(n_threads):
            pool.submit(work)
        results: dict[int, Result] = {}
        with bars() as drawn:
            for _ in drawn.track(range(n_jobs), n_jobs, description=escape(title)):
                place, result, error = ended.get()
                if error is not None:
                    raise error
                results[place] = result  # type: ignore[assignment]
        return [results[place] for place in range(n_jobs)]
    finally:
        waiting.clear()
        pool.shutdown()
