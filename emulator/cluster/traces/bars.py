"""Progress of reading large traces."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def reading_bar(text: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error while a trace is read; nothing without a terminal, or in a worker process.

    Args:
        text: What is read.
        total_bytes: Size of all files, each as often as it is read.

    Yields:
        Function that takes the number of bytes that have been read since the last call.
    """
    if multiprocessing.parent_process() is not None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total_bytes)
        yield lambda n_bytes: bar.advance(task, n_bytes)
