"""A grader takes definitions only, on their own lines, and only what the graded names use."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.labs.sources import SubmissionError, definitions, read_source

STATEMENTS = {
    "import math\n": "math",
    "def f(x):\n    return g(x) + LIMIT\n": "f",
    "@staticmethod\ndef g(x):\n    return math.floor(x)\n": "g",
    "LIMIT = 3\n": "LIMIT",
    "print('an experiment')\n": "",
    "result = open('data.csv')\n": "",
    "if True:\n    raise SystemExit\n": "",
    "for i in range(3):\n    f = None\n": "",
    "def unused():\n    return 1\n": "unused",
}


@given(st.permutations(sorted(STATEMENTS)))
def test_definitions_that_are_used_stay_where_they_are(order: list[str]) -> None:
    source = "".join(order)
    kept = definitions(source, ["f"])
    assert kept.count("\n") == source.count("\n")
    wanted = {"math", "f", "g", "LIMIT"}
    expected = "".join(text if STATEMENTS[text] in wanted else "\n" * text.count("\n") for text in order)
    assert kept == expected


def test_a_later_definition_of_a_notebook_wins() -> None:
    space: dict[str, object] = {}
    exec(definitions("A = 1\nA = 2\n", ["A"]), space)
    assert space["A"] == 2


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(:\n", "line 1: no valid Python"),
        ("x = 1\n", "not defined at the top level"),
        ("if 1:\n    def f():\n        pass\n", "not inside an if|do not put them inside an if"),
        ("def f(): pass; \nA = 1; import os\n", "two statements on one line"),
        ("f = 0\0", "no valid Python"),
        ("(" * 5000 + ")" * 5000, "no valid Python"),
    ],
)
def test_what_cannot_be_graded_is_said(source: str, words: str) -> None:
    with pytest.raises(SubmissionError, match=words):
        definitions(source, ["f"])


@pytest.mark.parametrize("sign", ["\f", "\v", "\x1c", "\x85", "\u2028"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_those_of_the_parser(sign: str, end: str) -> None:
    lines = ["import math", "print('a page')", f"TEXT = 'a{sign}b'", "def f():", "    return TEXT", "print()"]
    space: dict[str, object] = {}
    exec(definitions(end.join(lines), ["f"]), space)
    assert space["f"]() == f"a{sign}b"  # type: ignore[operator]


def test_a_byte_order_mark_is_no_part_of_a_submission(tmp_path: Path) -> None:
    for name, text in (
        ("lab1.py", "def f():\n    return 1\n"),
        ("lab1.ipynb", json.dumps({"cells": [{"cell_type": "code", "source": "def f():\n    return 1\n"}]})),
    ):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert definitions(read_source(tmp_path / name), ["f"]) == "def f():\n    return 1\n"


def test_notebooks_are_read_without_their_magic(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# f is below"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip list\n", "import math"]},
        {"cell_type": "code", "source": "def f():\n    return math.pi\n"},
    ]
    file = tmp_path / "lab1.ipynb"
    file.write_text(json.dumps({"cells": cells, "nbformat": 4}))
    space: dict[str, object] = {}
    exec(definitions(read_source(file), ["f"]), space)
    assert "matplotlib" not in read_source(file)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cells": [1]}', '{"cells": [{"cell_type": "code"}]}', "\ud800"]
)
def test_broken_notebooks_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "lab1.ipynb"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SubmissionError, match=r"lab1\.ipynb"):
        read_source(file)


def test_a_notebook_of_empty_lines_is_read_at_once(tmp_path: Path) -> None:
    file = tmp_path / "lab1.ipynb"
    file.write_text(json.dumps({"cells": [{"cell_type": "code", "source": "\n" * 1_000_000}]}))
    started = time.monotonic()
    read_source(file)
    assert time.monotonic() - started < 20.0  # a search that begins anew at every line takes hours


def test_other_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "lab1.txt"
    file.write_text("def f(): pass")
    with pytest.raises(SubmissionError, match="expected a Python file"):
        read_source(file)
