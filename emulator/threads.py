"""Calls of compiled simulations on several threads, which release Python's global lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from queue import SimpleQueue
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def as_they_end(
    play: Callable[[Job], Result], jobs: Iterable[Job], n_threads: int
) -> Generator[tuple[int, Result], None, None]:
    """Yield the number of each job and what a function returns for it, as the jobs end.

    After an error, after Ctrl-C, or if the generator is closed, no other job is begun.

    Args:
        play: The function; an error that it raises is raised here.
        jobs: What it is called with.
        n_threads: Number of threads.
    """
    waiting = deque(enumerate(jobs))
    n_jobs = len(waiting)
    ended: SimpleQueue[tuple[int, Result, None] | tuple[int, None, BaseException]] = SimpleQueue()

    def work() -> None:
        while True:
            try:
                number, job = waiting.popleft()
            except IndexError:
                return
            try:
                ended.put((number, play(job), None))
            except BaseException as error:  # raised by the caller
                ended.put((number, None, error))

    # The pool gets one job for each thread, not all jobs: Ctrl-C during `submit` can leave a lock of the pool
    # taken, for which its threads then wait for ever. A deque and a simple queue have no such lock.
    pool = ThreadPoolExecutor(n_threads)
    try:
        for _ in range(min(n_threads, n_jobs)):
            pool.submit(work)
        for _ in range(n_jobs):
            number, result, error = ended.get()
            if error is not None:
                raise error
            yield number, result  # type: ignore[misc]  # a result comes without an error
    finally:
        waiting.clear()
        pool.shutdown()


def in_threads(play: Callable[[Job], Result], jobs: Iterable[Job], n_threads: int) -> list[Result]:
    """Return what a function returns for each job, in the order of the jobs; see :func:`as_they_end`."""
    with closing(as_they_end(play, jobs, n_threads)) as ending:
        found = dict(ending)
    return [found[number] for number in range(len(found))]
