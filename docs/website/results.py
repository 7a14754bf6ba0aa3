"""Published results: the tables in docs/ between ``<!-- begin results SUITE -->`` and its end.

``scripts/pages/results_tables.py`` writes them from rows. Where the rows are part of the repository, as
entries of the leaderboard, ``tests/docs_site/test_published_rows.py`` computes the tables anew and compares
them.

The first heading of a table is its scenario, as code; what follows it says what the numbers are. A row is
that of a contender, or of the variant of an agent: its name, a hyphen and the variant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sysgym.bench.leaderboard.entries import README

_BLOCK = re.compile(r"<!-- begin results (\S+) -->\n(.*?)<!-- end results", re.DOTALL)
_COMMAND = re.compile(r"results_tables\.py (results/entries/([^/\s]+)/\S+) ")
_TABLE = re.compile(r"(?:^\|.*\|\n)+", re.MULTILINE)
_REFERENCE = " (reference)"
_LEARNS = " †"

SIGNS = (
    "Values are averages over held-out episodes with 95 % intervals. **Bold** marks the best contender and"
    " those not distinguishable from it; † marks those that learn from other episodes, of the train split."
)
"""How to read a table."""


class Results(NamedTuple):
    """Published table of one scenario.

    Attributes:
        suite: Suite that was run.
        scenario: Scenario.
        page: Page of docs/ that has it, without suffix.
        metrics: Headings of its columns, with units.
        rows: Contender -> its cells; values with 95 % intervals.
        about: What the numbers are, if the headings do not say it.
        entry: Folder in the repository with the rows from which the page says that it is computed; empty if
            the repository does not have them.
    """

    suite: str
    scenario: str
    page: str
    metrics: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]
    about: str = ""
    entry: str = ""

    def rows_of(self, contender: str, others: Iterable[str] = ()) -> dict[str, tuple[str, ...]]:
        """Return the rows of a contender, as a reference too, and of its variants, by their names.

        Args:
            contender: Name of a transport or an agent.
            others: Names of all of them, whose rows are not variants of this one.
        """
        taken = {*others} - {contender}
        plain = {name: name.removesuffix(_REFERENCE).removesuffix(_LEARNS) for name in self.rows}
        return {
            name: cells
            for name, cells in self.rows.items()
            if plain[name] == contender
            or (plain[name].startswith(f"{contender}-") and plain[name] not in taken)
        }

    def origin(self) -> str:
        """Return where the numbers come from, as a sentence with links."""
        source = f"From [{self.page}](/{self.page}.md); the suite is [{self.suite}](/suites/{self.suite}.md)."
        if self.entry:
            rows = f"[rows](/source/{self.entry}/{README}.md) in `{self.entry}`"
            return f"{source} The numbers are computed from the {rows}."
        return (
            f"{source} Its rows are not part of the repository: `sysgym bench {self.suite}` plays it again."
        )


def published(docs: Path) -> list[Results]:
    """Return all published tables of scenarios, by page."""
    return [found for file in sorted(docs.glob("*.md")) for found in _of_page(file)]


def _of_page(file: Path) -> Iterator[Results]:
    text = file.read_text(encoding="utf-8")
    entries = {suite: entry for entry, suite in _COMMAND.findall(text)}
    for suite, block in _BLOCK.findall(text):
        for lines in _TABLE.findall(block):
            head, _, *rows = (_cells(line) for line in lines.splitlines())
            scenario = re.fullmatch(r"`([^`]+)`(?:, (.+))?", head[0])
            if scenario is not None:
                cells = {row[0]: tuple(row[1:]) for row in rows}
                about, entry = scenario[2] or "", entries.get(suite, "")
                yield Results(suite, scenario[1], file.stem, tuple(head[1:]), cells, about, entry)


def of_scenarios(results: Iterable[Results], scenarios: Iterable[str]) -> list[Results]:
    """Return the tables of some scenarios."""
    wanted = set(scenarios)
    return [one for one in results if one.scenario in wanted]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
