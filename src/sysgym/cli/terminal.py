"""What all commands print with."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sysgym.errors import SysgymError

WIDTH_OF_PIPES = 120
"""Columns where no terminal says how wide it is."""


def console(*, stderr: bool = False) -> Console:
    """Return the console; what goes into a pipe is not cut to 80 columns."""
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal and "COLUMNS" not in made._environ:
        made = Console(stderr=stderr, highlight=False, width=WIDTH_OF_PIPES)
    return made


def print_error(error: SysgymError) -> None:
    """Print an error as a block, first line marked."""
    block = Text("error: ", style="bold red")
    block.append(str(error), style="default")
    console(stderr=True).print(block, soft_wrap=True)


def table(*headings: str, title: str | None = None, rows: Iterable[Sequence[str | Text]] = ()) -> Table:
    """Return a plain table; the first column is never wrapped.

    Args:
        headings: Of the columns; one that begins with ``>`` is aligned to the right.
        title: Above the table.
        rows: Cells.
    """
    made = Table(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim"
    )
    for index, heading in enumerate(headings):
        right = heading.startswith(">")
        made.add_column(
            heading.removeprefix(">"),
            justify="right" if right else "left",
            no_wrap=index == 0 or right,
            overflow="fold",
        )
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return made


def interactive() -> bool:
    """Return whether someone is looking."""
    return sys.stdout.isatty()
