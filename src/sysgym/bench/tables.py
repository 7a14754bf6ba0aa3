"""Tables of numbers with intervals, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sysgym.bench.statistics import Interval
from sysgym.scenarios.units import significant


class Table(NamedTuple):
    """Table with a title, headings and rows.

    A heading that begins with ``>`` aligns its column to the right.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return the table as Markdown with a heading."""
        return f"## {self.title}\n\n{markdown_table(self.columns, self.rows)}"


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown table; headings as in :class:`Table`."""
    heads = [column.removeprefix(">") for column in columns]
    rules = ["---:" if column.startswith(">") else "---" for column in columns]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rules, *rows))


def interval_text(interval: Interval, digits: int = 4) -> str:
    """Return an estimate with its interval as text."""
    low, high = (significant(value, digits) for value in (interval.low, interval.high))
    return f"{significant(interval.value, digits)} [{low}, {high}]"


def percent(interval: Interval) -> str:
    """Return a share with its interval as text, in per cent."""
    low, high = (f"{100.0 * value:.1f}" for value in (interval.low, interval.high))
    return f"{100.0 * interval.value:.1f} % [{low}, {high}]"
