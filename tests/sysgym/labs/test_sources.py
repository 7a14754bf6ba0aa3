"""A grader takes definitions only, on their own lines, and only what the graded names use."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.labs.intake.notebooks import read
from sysgym.labs.sources import SubmissionError, definitions, why_unknown

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
        assert definitions(read(tmp_path / name), ["f"]) == "def f():\n    return 1\n"


def test_notebooks_are_read_without_their_magic(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# f is below"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip list\n", "import math"]},
        {"cell_type": "code", "source": "def f():\n    return math.pi\n"},
    ]
    file = tmp_path / "lab1.ipynb"
    file.write_text(json.dumps({"cells": cells, "nbformat": 4}))
    space: dict[str, object] = {}
    exec(definitions(read(file), ["f"]), space)
    assert "matplotlib" not in read(file).text


def test_a_remainder_that_begins_a_line_is_no_magic(tmp_path: Path) -> None:
    cell = "def f(a, b):\n    return (\n        a\n        % b\n    )\n"
    source = read(
        notebook(tmp_path / "lab1.ipynb", cell, f"%matplotlib inline\n{cell.replace('def f', 'def g')}")
    )
    space: dict[str, object] = {}
    exec(definitions(source, ["f", "g"]), space)
    assert space["f"](7, 4) == space["g"](7, 4) == 3  # type: ignore[operator]
    assert "matplotlib" not in source.text


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cells": [1]}', '{"cells": [{"cell_type": "code"}]}', "\ud800"]
)
def test_broken_notebooks_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "lab1.ipynb"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SubmissionError, match=r"lab1\.ipynb"):
        read(file)


def test_a_notebook_of_empty_lines_is_read_at_once(tmp_path: Path) -> None:
    file = tmp_path / "lab1.ipynb"
    file.write_text(json.dumps({"cells": [{"cell_type": "code", "source": "\n" * 1_000_000}]}))
    started = time.monotonic()
    read(file)
    assert time.monotonic() - started < 20.0  # a search that begins anew at every line takes hours


def test_other_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "lab1.txt"
    file.write_text("def f(): pass")
    with pytest.raises(SubmissionError, match="expected a Python file"):
        read(file)


def notebook(path: Path, *cells: str) -> Path:
    """Write a notebook of code cells."""
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]}))
    return path


def test_a_broken_cell_of_a_notebook_hides_no_other(tmp_path: Path) -> None:
    source = read(notebook(tmp_path / "lab1.ipynb", "A = 1\n", "print(\n# scratch", "def f():\n    return A"))
    space: dict[str, object] = {}
    exec(definitions(source, ["f"]), space)
    assert space["f"]() == 1  # type: ignore[operator]
    assert [cell.place for cell in source.broken] == ["code cell 2, line 1"]


def test_a_broken_cell_with_a_graded_name_is_named(tmp_path: Path) -> None:
    source = read(notebook(tmp_path / "lab1.ipynb", "A = 1", "def f(:\n    return A"))
    with pytest.raises(SubmissionError, match=r"code cell 2, line 1: no valid Python.*so f is not defined"):
        definitions(source, ["f"])


def test_lines_of_a_notebook_are_named_by_cell(tmp_path: Path) -> None:
    source = read(notebook(tmp_path / "lab1.ipynb", "a\nb", "c\n\n", "d"))
    lines = source.text.split("\n")
    assert source.place(lines.index("c") + 1) == "code cell 2, line 1"
    assert source.place(lines.index("d") + 1) == "code cell 3, line 1"
    (tmp_path / "lab1.py").write_text("a\nb\n")
    assert read(tmp_path / "lab1.py").place(2) == "line 2"


def test_why_a_name_is_unknown_is_said(tmp_path: Path) -> None:
    text = "from sysgym.labs.links import PACKET_BYTES\nheader = 40\nx, y = 1, 2\n"
    (tmp_path / "lab1.py").write_text(text)
    source = read(tmp_path / "lab1.py")
    assert "header is defined in line 2, but" in why_unknown(source, "header")
    assert "rename it HEADER" in why_unknown(source, "header")
    assert "rename it X" in why_unknown(source, "x")
    assert "PACKET_BYTES comes from sysgym (line 1)" in why_unknown(source, "PACKET_BYTES")
    assert why_unknown(source, "nowhere") == ""
    broken = read(notebook(tmp_path / "lab1.ipynb", "import numpy as np\n1 +* 2"))
    assert "np is not defined, as code cell 1, line 2 is no valid Python" in why_unknown(broken, "np")


def test_imports_of_a_package_can_be_left_out() -> None:
    source = (
        "from sysgym.labs.links import play\nimport math\ndef f():\n    play = math.pi\n    return play\n"
    )
    assert "sysgym" in definitions(source, ["f"])
    kept = definitions(source, ["f"], without="sysgym")
    assert "sysgym" not in kept
    assert "import math" in kept
