"""Progress of training: a bar, or a callback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = bool | Callable[[int], None]
"""True for a bar in the terminal, or a callback with the number of steps done."""


@contextmanager
def telling(progress: Progress, label: str, total_steps: int) -> Iterator[Callable[[int], None] | None]:
    """Provide a callback for the number of steps done: a bar if ``progress`` is True, else ``progress``."""
    if progress is not True:
        yield progress if callable(progress) else None
        return
    with new_bar() as bar:
        task = bar.add_task(label, total=total_steps, note="")
        yield lambda steps: bar.update(task, completed=steps)


def new_bar() -> Any:
    """Return a progress bar of rich that is not shown yet; its tasks require a field ``note``."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
