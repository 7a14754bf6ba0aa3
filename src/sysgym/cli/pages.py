"""Tables of numbers with intervals, which are often wide."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from sysgym.bench.robustness_report import Page
from sysgym.cli.terminal import table


def print_page(screen: Console, page: Page) -> None:
    """Print a table with its title, intervals below their numbers where it would be too wide."""
    rows: Sequence[Sequence[str]] = page.rows
    if sum(2 + max(map(len, column)) for column in zip(page.columns, *rows, strict=True)) > screen.width:
        rows = [[cell.replace(" [", "\n[") for cell in row] for row in rows]
    screen.print(table(*page.columns, title=f"\n{page.title}", rows=rows))
