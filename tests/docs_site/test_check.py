"""Check of the built site: what it has to find, and what it has to leave alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.website import check as checking
from docs.website.build import DOCS
from docs.website.check import check

GOOD = """<!doctype html><html lang="en"><head><link rel="stylesheet" href="_static/a.css"></head><body>
<h1 id="top">Title</h1><a href="#top">up</a> <a href="other.html#there">other</a>
<a href="https://example.org">elsewhere</a><img src="a.png" alt="A picture"></body></html>"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "a.css").write_text("body { background: url('b.png') }")
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "other.html").write_text('<h2 id="there">There</h2>')
    return tmp_path


def test_a_site_without_problems(site: Path) -> None:
    found = check(site)
    assert found.problems == ()
    assert (found.pages, found.links, found.images) == (2, 4, 1)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ('<script src="https://cdn.example.org/x.js"></script>', "loads https://cdn.example.org/x.js"),
        ('<link rel="stylesheet" href="//cdn.example.org/x.css">', "loads //cdn.example.org/x.css"),
        ('<img src="https://example.org/x.png" alt="x">', "loads https://example.org/x.png"),
        ("<style>@import 'https://example.org/x.css';</style>", "loads https://example.org/x.css"),
        ('<p style="background: url(https://example.org/x.png)">', "loads https://example.org/x.png"),
        ('<script>import("https://example.org/x.js")</script>', "loads https://example.org/x.js"),
        ('<a href="gone.html">gone</a>', "links to gone.html, which is not there"),
        ('<a href="other.html#gone">gone</a>', "whose page has no such anchor"),
        ('<img src="a.png">', "without an alternative text"),
        ('<img src="a.png" alt=" ">', "without an alternative text"),
    ],
)
def test_a_problem_is_found(site: Path, wrong: str, problem: str) -> None:
    (site / "index.html").write_text(GOOD + wrong)
    (found,) = check(site).problems
    assert found.startswith("index.html ")
    assert problem in found


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("_static/a.css", "@font-face { src: url(https://fonts.example.org/a.woff2) }"),
        ("_static/a.js", 'import x from "https://example.org/x.js"; s.src = "https://cdn.example.org/y.js"'),
    ],
)
def test_style_sheets_and_scripts_load_nothing_from_elsewhere(site: Path, file: str, text: str) -> None:
    (site / file).write_text(text)
    (found, *_) = check(site).problems
    assert found.startswith(f"{file} loads https://")


def test_a_site_that_is_too_large(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "MOST_BYTES", 100)
    (found,) = check(site).problems
    assert "MB, at most" in found


def test_own_style_sheets_load_nothing_from_elsewhere() -> None:
    files = list((DOCS / "website" / "static").iterdir())
    assert files
    assert [file.name for file in files if "//" in file.read_text()] == []
