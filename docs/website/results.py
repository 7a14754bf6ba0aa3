"""Published results: the tables in docs/ between ``<!-- begin results SUITE -->`` and its end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"<!-- begin results (\S+) -->\n(.*?)<!-- end results", re.DOTALL)
_TABLE = re.compile(r"(?:^\|.*\|\n)+", re.MULTILINE)
_REFERENCE = " (reference)"


class Results(NamedTuple):
    """Published table of one scenario.

    Attributes:
        suite: Suite that was run.
        scenario: Scenario.
        page: Page of docs/ that has it, without suffix.
        metrics: Headings of its columns, with units.
        rows: Contender -> its cells; values with 95 % intervals.
    """

    suite: str
    scenario: str
    page: str
    metrics: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]

    def row(self, contender: str) -> tuple[str, ...] | None:
        """Return the cells of a contender, as a reference too; None if it did not take part."""
        return self.rows.get(contender) or self.rows.get(contender + _REFERENCE)


def published(docs: Path) -> list[Results]:
    """Return all published tables of scenarios, by page."""
    return [found for file in sorted(docs.glob("*.md")) for found in _of_page(file)]


def _of_page(file: Path) -> Iterator[Results]:
    for suite, block in _BLOCK.findall(file.read_text(encoding="utf-8")):
        for lines in _TABLE.findall(block):
            head, _, *rows = (_cells(line) for line in lines.splitlines())
            scenario = re.fullmatch(r"`([^`]+)`", head[0])
            if scenario is not None:
                yield Results(
                    suite, scenario[1], file.stem, tuple(head[1:]), {row[0]: tuple(row[1:]) for row in rows}
                )


def of_scenarios(results: Iterable[Results], scenarios: Iterable[str]) -> list[Results]:
    """Return the tables of some scenarios."""
    wanted = set(scenarios)
    return [one for one in results if one.scenario in wanted]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
