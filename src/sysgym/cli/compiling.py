"""Progress bar in the terminal while parts of the simulator are compiled, at their first use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

DESCRIPTION = "compiling, once (each law, each family)"


class CompilingBar:
    """Progress bar that is visible while anything is compiled, with the time since the first compilation."""

    def __init__(self) -> None:
        self._bar: Progress | None = None

    def begin(self, name: str) -> None:
        """Show the bar unless it is visible already."""
        if self._bar is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            from sysgym.cli.terminal import console

            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=console(stderr=True), transient=True)
            self._bar.add_task(DESCRIPTION, total=None)
        self._bar.start()

    def end(self) -> None:
        """Hide the bar until the next compilation."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def shown() -> Iterator[None]:
    """Show compilation as a bar in a terminal; elsewhere the simulator prints a line."""
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
