"""Published results: the tables in docs/ between ``<!-- begin results SUITE -->`` and its end.

The first heading of a table is its scenario, as code; what follows it says what the numbers are. A row is
that of a contender, or of the variant of an agent: its name, a hyphen and the variant.
"""

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
        about: What the numbers are, if the headings do not say it.
    """

    suite: str
    scenario: str
    page: str
    metrics: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]
    about: str = ""

    def rows_of(self, contender: str, others: Iterable[str] = ()) -> dict[str, tuple[str, ...]]:
        """Return the rows of a contender, as a reference too, and of its variants, by their names.

        Args:
            contender: Name of a transport or an agent.
            others: Names of all of them, whose rows are not variants of this one.
        """
        taken = {*others} - {contender}
        names = [name for name in self.rows if name.removesuffix(_REFERENCE) not in taken]
        return {
            name: self.rows[name]
            for name in names
            if name.removesuffix(_REFERENCE) == contender or name.startswith(f"{contender}-")
        }


def published(docs: Path) -> list[Results]:
    """Return all published tables of scenarios, by page."""
    return [found for file in sorted(docs.glob("*.md")) for found in _of_page(file)]


def _of_page(file: Path) -> Iterator[Results]:
    for suite, block in _BLOCK.findall(file.read_text(encoding="utf-8")):
        for lines in _TABLE.findall(block):
            head, _, *rows = (_cells(line) for line in lines.splitlines())
            scenario = re.fullmatch(r"`([^`]+)`(?:, (.+))?", head[0])
            if scenario is not None:
                cells = {row[0]: tuple(row[1:]) for row in rows}
                yield Results(suite, scenario[1], file.stem, tuple(head[1:]), cells, scenario[2] or "")


def of_scenarios(results: Iterable[Results], scenarios: Iterable[str]) -> list[Results]:
    """Return the tables of some scenarios."""
    wanted = set(scenarios)
    return [one for one in results if one.scenario in wanted]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
