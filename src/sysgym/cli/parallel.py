"""Episodes of a study on all cores, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TypeVar

import numba
from rich.markup import escape

from sysgym.cli.terminal import bars
from sysgym.emulator.threads import as_they_end

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
    work = list(jobs)
    with bars() as drawn, closing(as_they_end(play, work, numba.get_num_threads())) as ending:
        found = dict(drawn.track(ending, len(work), description=escape(title)))
    return [found[number] for number in range(len(work))]
