"""The first start, on a terminal: a bar while the simulator is compiled."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

DESCRIPTION = "compiling the simulator, once"


class CompilingBar:
    """A bar that moves for as long as something is compiled, with the time since the first of it."""

    def __init__(self) -> None:
        self._bar: Progress | None = None

    def begin(self, name: str) -> None:
        """Draw it, if it is not there."""
        if self._bar is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            from sysgym.cli.terminal import console

            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=console(stderr=True), transient=True)
            self._bar.add_task(DESCRIPTION, total=None)
        self._bar.start()

    def end(self) -> None:
        """Take it away until something else is compiled."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def shown() -> Iterator[None]:
    """Show what is compiled as a bar on a terminal; elsewhere the simulator's one line has to do."""
    from sysgym.emulator.first_start import OneLine, announce_with

    if not sys.stderr.isatty():
        yield
        return
    bar = CompilingBar()
    announce_with(bar)
    try:
        yield
    finally:
        bar.end()
        announce_with(OneLine())
