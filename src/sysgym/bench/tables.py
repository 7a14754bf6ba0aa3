"""Tables of numbers with intervals, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sysgym.bench.statistics import Interval
from sysgym.scenarios.units import significant


class Table(NamedTuple):
    """A table: title, headings (``>``: to the right), rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return it under its title."""
        return f"## {self.title}\n\n{markdown_table(self.columns, self.rows)}"


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows in Markdown; headings as in :class:`Table`."""
    heads = [column.removeprefix(">") for column in columns]
    rules = ["---:" if column.startswith(">") else "---" for column in columns]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rules, *rows))


def interval_text(interval: Interval, digits: int = 4) -> str:
    """Return a number with its interval."""
    low, high = (significant(value, digits) for value in (interval.low, interval.high))
    return f"{significant(interval.value, digits)} [{low}, {high}]"


def percent(interval: Interval) -> str:
    """Return an interval of shares in per cent."""
    low, high = (f"{100.0 * value:.1f}" for value in (interval.low, interval.high))
    return f"{100.0 * interval.value:.1f} % [{low}, {high}]"
