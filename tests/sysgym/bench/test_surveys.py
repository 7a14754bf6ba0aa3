"""Surveys: storing, reading, the report, and errors for damaged files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sysgym.bench import surveys
from sysgym.bench.surveys import Page
from sysgym.errors import SysgymError, UnknownName

PAGES = [
    Page("Range", "Cost of placements, `all_reduce`.", ("row", "worst/best"), (("a, b", "448"), ("c", "1"))),
    Page("Empty", "Nothing.", ("row", "value"), ()),
]


def test_pages_come_back(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert surveys.read(folder) == []
    surveys.write(folder, PAGES)
    assert surveys.read(folder) == PAGES


def test_markdown() -> None:
    assert PAGES[0].markdown(3).splitlines() == [
        "### Range",
        "",
        "Cost of placements, `all_reduce`.",
        "",
        "| row | worst/best |",
        "| --- | ---: |",
        "| a, b | 448 |",
        "| c | 1 |",
    ]


def test_an_unknown_survey_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match='did you mean "p2"'):
        surveys.make("pp2", tmp_path, 1, lambda done, of: None)


@pytest.mark.parametrize("content", ["", "{}", '[{"title": "x"}]', "[1]", "[" * 100])
def test_a_damaged_file_is_said_to_be_one(tmp_path: Path, content: str) -> None:
    (tmp_path / surveys.FILE).write_text(content)
    with pytest.raises(SysgymError, match=r"survey\.json: .*(expected|not JSON)"):
        surveys.read(tmp_path)
