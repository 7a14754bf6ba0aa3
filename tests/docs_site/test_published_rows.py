"""Tables whose rows are part of the repository are what the rows give."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from docs.website.build import ROOT
from docs.website.results import Results, published
from sysgym.bench.report.data.benchmark import read_benchmark
from tests.scripts import load_script

COMMANDS = [
    found
    for page in sorted((ROOT / "docs").glob("*.md"))
    for found in re.findall(r"results_tables\.py (results/entries/\S+ .*)", page.read_text(encoding="utf-8"))
]


def test_every_suite_of_the_leaderboard_has_such_tables() -> None:
    suites = {path.parent.name for path in (ROOT / "results" / "entries").glob("*/*")}
    assert {Path(shlex.split(command)[0]).parent.name for command in COMMANDS} == suites
    linked = {one.suite: one.entry for one in published(ROOT / "docs")}
    assert linked["iroko"] == "results/entries/iroko/learners"
    assert linked["stragglers"] == ""


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_tables_are_what_the_rows_give(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_script("pages/results_tables")
    monkeypatch.chdir(ROOT)
    given = script.parse(shlex.split(command))
    assert script.updated(given, read_benchmark(given.folder)) == given.page.read_text(encoding="utf-8")


def test_a_contender_has_its_marked_rows_and_those_of_its_variants() -> None:
    names = ("a", "a †", "a (reference)", "a-x", "a-x †", "a-b", "a-b †", "ab", "a_b †")
    one = Results("suite", "scenario", "page", (), {name: () for name in names})
    assert [*one.rows_of("a", ("a", "a-b"))] == ["a", "a †", "a (reference)", "a-x", "a-x †"]
