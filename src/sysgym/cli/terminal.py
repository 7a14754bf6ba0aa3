"""Terminal output of all commands."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sysgym.errors import SysgymError
from sysgym.scenarios.texts import printable

if TYPE_CHECKING:
    from rich.progress import Progress

    from sysgym.bench.tables import Table as BenchTable

WIDTH_OF_PIPES = 120
"""Columns where no terminal says how wide it is."""

WIDEST = 10_000
"""Columns that no line of a page has."""


class _Screen(Console):
    """A console whose texts, which may be a stranger's, send nothing to the terminal but letters."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            shown = segment.control or segment.text.isprintable()
            yield segment if shown else Segment(printable(segment.text, sys.maxsize), segment.style)


def console(*, stderr: bool = False) -> Console:
    """Return the console; what goes into a pipe is not cut to 80 columns."""
    made = _Screen(stderr=stderr, highlight=False)
    if not made.is_terminal and "COLUMNS" not in made._environ:
        made = _Screen(stderr=stderr, highlight=False, width=WIDTH_OF_PIPES)
    return made


def page() -> Console:
    """Return the console for a page whose lines are not broken in a pipe: ``grep`` finds whole ones."""
    made = console()
    if not made.is_terminal and "COLUMNS" not in made._environ:
        made = _Screen(highlight=False, width=WIDEST)
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
            Text(heading.removeprefix(">")),
            justify="right" if right else "left",
            no_wrap=index == 0 or right,
            overflow="fold",
        )
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return made


def print_table(screen: Console, shown: BenchTable) -> None:
    """Print a table of numbers with its title.

    Where it would be too wide, cells are broken: before what stands in brackets, then at a stroke; the words
    of the first column wrap if need be.
    """
    rows: Sequence[Sequence[str]] = shown.rows
    for mark in (" [", " (", " / "):
        if _width(shown.columns, rows) > screen.width:
            rows = [[row[0], *(cell.replace(mark, "\n" + mark[1:]) for cell in row[1:])] for row in rows]
    drawn = table(*shown.columns, title=f"\n{escape(shown.title)}", rows=rows)
    if _width(shown.columns, rows) > screen.width:
        drawn.columns[0].no_wrap = False
    screen.print(drawn)


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Columns of the terminal that a table takes, two between cells."""
    widest = [
        max(len(line) for cell in (heading.removeprefix(">"), *cells) for line in cell.split("\n"))
        for heading, *cells in zip(columns, *rows, strict=True)
    ]
    return sum(widest) + 2 * (len(widest) - 1)


def bars(*, in_percent: bool = False) -> Progress:
    """Return progress bars that are gone when they are done; nothing is drawn where nobody looks.

    Args:
        in_percent: Show per cent; otherwise so many of so many.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    to = console(stderr=True)
    so_far = TaskProgressColumn() if in_percent else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), so_far, TimeRemainingColumn())
    return Progress(*columns, console=to, transient=True, disable=not to.is_terminal)


def interactive() -> bool:
    """Return whether someone is looking."""
    return sys.stdout.isatty()
