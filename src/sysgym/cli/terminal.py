"""Terminal output of all commands."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sysgym.errors import SysgymError
from sysgym.scenarios.texts import printable

if TYPE_CHECKING:
    from rich.progress import Progress

    from sysgym.bench.tables import Table as BenchTable

WIDTH_OF_PIPES = 120
"""Width in columns where there is no terminal."""

WIDEST = 10_000
"""Width in columns that no line of a page reaches."""


class _Screen(Console):
    """Console that takes texts literally and removes control sequences: they may come from untrusted files.

    Brackets in a path or a name are no markup; parts of a line get a style by ``Text.assemble``.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, highlight=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        segments = super().render(renderable, options)
        for segment in segments if self.is_terminal else _without_filling(segments):
            shown = segment.control or segment.text.isprintable()
            yield segment if shown else Segment(printable(segment.text, sys.maxsize), segment.style)


def _without_filling(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yield segments without the blanks at the ends of lines, which fill the last column of a table."""
    held: list[Segment] = []
    for segment in segments:
        text = segment.text.rstrip(" ")
        if segment.text != "\n" and (text or segment.control):
            yield from held
            held = []
        if text or segment.control:
            yield segment if segment.control else Segment(text, segment.style)
        if segment.text == "\n":
            held = []
        elif not segment.control and len(text) < len(segment.text):
            held.append(Segment(segment.text[len(text) :], segment.style))
    yield from held


def console(*, stderr: bool = False) -> Console:
    """Return a console; output into a pipe is not cut to 80 columns."""
    made = _Screen(stderr=stderr)
    if not made.is_terminal and "COLUMNS" not in made._environ:
        made = _Screen(stderr=stderr, width=WIDTH_OF_PIPES)
    return made


def page() -> Console:
    """Return a console that does not wrap lines in a pipe, so that ``grep`` finds whole lines."""
    made = console()
    if not made.is_terminal and "COLUMNS" not in made._environ:
        made = _Screen(width=WIDEST)
    return made


def print_error(error: SysgymError) -> None:
    """Print an error as one block with a marked first line."""
    block = Text("error: ", style="bold red")
    block.append(str(error), style="default")
    console(stderr=True).print(block, soft_wrap=True)


def table(*headings: str, title: str | None = None, rows: Iterable[Sequence[str | Text]] = ()) -> Table:
    """Return a plain table; the first column is never wrapped.

    Args:
        headings: Headings of the columns; ``>`` in front aligns a column to the right.
        title: Title above the table.
        rows: Cells of each row.
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

    If the table is too wide, cells are broken before brackets, then at slashes; if it still is, the first
    column is wrapped between words.
    """
    rows: Sequence[Sequence[str]] = shown.rows
    for mark in (" [", " (", " / "):
        if _width(shown.columns, rows) > screen.width:
            rows = [[row[0], *(cell.replace(mark, "\n" + mark[1:]) for cell in row[1:])] for row in rows]
    drawn = table(*shown.columns, title=f"\n{shown.title}", rows=rows)
    if _width(shown.columns, rows) > screen.width:
        drawn.columns[0].no_wrap = False
    screen.print(drawn)


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return the width of a table in columns of the terminal, with two columns between cells."""
    widest = [
        max(len(line) for cell in (heading.removeprefix(">"), *cells) for line in cell.split("\n"))
        for heading, *cells in zip(columns, *rows, strict=True)
    ]
    return sum(widest) + 2 * (len(widest) - 1)


def bars(*, in_percent: bool = False) -> Progress:
    """Return progress bars that disappear when they are finished; without a terminal nothing is drawn.

    Args:
        in_percent: Whether to show percentages instead of counts.
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
    """Return whether output goes to a terminal."""
    return sys.stdout.isatty()
