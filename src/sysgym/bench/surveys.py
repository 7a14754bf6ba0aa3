"""Surveys: tables that describe an environment's world and do not depend on contenders.

A suite can request a survey. A survey is a function that returns pages. The pages are stored in
``survey.json`` of the results folder, printed, and included in the report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from pydantic import RootModel, model_validator

from sysgym.bench.results.records import read_record
from sysgym.bench.results.row_format import Strict, Text
from sysgym.bench.tables import Table, markdown_table
from sysgym.errors import UnknownName
from sysgym.scenarios.families import families
from sysgym.scenarios.family import SurveyPage, load_entry
from sysgym.scenarios.files import make_folder, write_atomically

FILE = "survey.json"

Progress = Callable[[int, int], None]
"""Callback that receives the number of finished parts and the total number of parts."""

SURVEYS = {
    "linux-quick": "sysgym.studies.sim_vs_linux:quick",
    "p2": "sysgym.studies.p2_survey:survey",
    "sim-vs-linux": "sysgym.studies.sim_vs_linux:survey",
}
"""Entry of each survey, by its name in suites; families can declare further surveys.

An entry is ``module:function``; the function has the parameters ``folder``, ``n_workers`` and ``progress``.
"""


class _PageFields(Strict):
    title: Text
    text: Text
    columns: list[Text]
    rows: list[list[Text]]

    @model_validator(mode="after")
    def _check_width(self) -> Self:
        if not self.columns or any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError("expected one cell for each column in every row")
        return self


class _Pages(RootModel[list[_PageFields]]):
    """Content of ``survey.json``."""


class Page(SurveyPage):
    """Page of a survey, which can be shown as a table."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        """The table, with numbers aligned to the right."""
        first, *others = self.columns
        return Table(self.title, (first, *(f">{column}" for column in others)), self.rows)

    def markdown(self, level: int = 2) -> str:
        """Return the table as Markdown, with a heading of a given level."""
        numbers = markdown_table(self.table.columns, self.rows)
        return f"{'#' * level} {self.title}\n\n{self.text}\n\n{numbers}\n"


def make(name: str, folder: Path, n_workers: int, progress: Progress) -> list[Page]:
    """Run a survey and return its pages.

    Args:
        name: One of :data:`SURVEYS`, or a survey that a family declares.
        folder: Results folder, where a survey may keep parts of its work.
        n_workers: Number of processes.
        progress: Callback that receives the progress.

    Raises:
        UnknownName: If there is no such survey.
    """
    of_families = {known: entry for family in families().values() for known, entry in family.surveys.items()}
    if name in of_families:
        return [Page(*page) for page in load_entry(of_families[name])(folder, n_workers, progress)]
    if name not in SURVEYS:
        raise UnknownName("survey", name, [*SURVEYS, *of_families])
    pages: list[Page] = load_entry(SURVEYS[name])(folder, n_workers, progress)
    return pages


def write(folder: Path, pages: Sequence[Page]) -> None:
    """Store a survey's pages in a results folder."""
    make_folder(folder)
    write_atomically(folder / FILE, json.dumps([page._asdict() for page in pages], indent=1).encode())


def read(folder: Path) -> list[Page]:
    """Return the pages in a results folder; empty if there was no survey.

    Raises:
        SysgymError: If the file is invalid.
    """
    path = folder / FILE
    if not path.exists():
        return []
    return [
        Page(page["title"], page["text"], tuple(page["columns"]), tuple(map(tuple, page["rows"])))
        for page in read_record(_Pages, path)
    ]
