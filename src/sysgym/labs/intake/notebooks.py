"""Python of submissions: of a file as it is, of a notebook cell by cell.

In a notebook a cell that is no Python does not run, and the others do. So it is left out here too.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import NamedTuple

from sysgym.labs.intake.content import SubmissionError, content_of

_MAGIC = re.compile(r"^[%!?].*$", re.MULTILINE)
_INDENTED_MAGIC = re.compile(r"^[^\S\n]*[%!?].*$", re.MULTILINE)


class Broken(NamedTuple):
    """Code cell that is no Python."""

    place: str
    """Where, such as ``code cell 3, line 1``."""
    error: str
    """What is wrong there."""
    text: str
    """The cell."""


class Source(NamedTuple):
    """Python of a submission."""

    text: str
    """The Python; cells that are left out are empty lines."""
    cells: tuple[int, ...] = ()
    """Line at which each code cell begins, from 1; none for a Python file."""
    broken: tuple[Broken, ...] = ()
    """Cells that are left out."""

    def place(self, line: int) -> str:
        """Return where a line is, such as ``line 7`` or ``code cell 3, line 1``."""
        before = [first for first in self.cells if first <= line]
        return f"code cell {len(before)}, line {line - before[-1] + 1}" if before else f"line {line}"


def read(path: Path) -> Source:
    """Return the Python of a file or of a notebook's code cells.

    Args:
        path: File with the suffix ``.py`` or ``.ipynb``.

    Raises:
        SubmissionError: It is neither, or no valid notebook, not UTF-8, a link, or too large.
    """
    text = _text_of(path)
    if path.suffix == ".py":
        return Source(text)
    shown: list[str] = []
    first_lines, broken, line = [], [], 1
    for number, cell in enumerate(_cells_of(text, path.name), start=1):
        problem = _problem(cell, number)
        shown.append(cell if problem is None else "\n" * cell.count("\n"))
        broken += [] if problem is None else [problem]
        first_lines.append(line)
        line += cell.count("\n") + 1
    return Source("\n".join(shown), tuple(first_lines), tuple(broken))


def code_lines(path: Path) -> list[str] | None:
    """Return the lines of a submission without comments and empty ones; None if it cannot be read.

    A Python file with cells and its notebook have the same.
    """
    try:
        text = _text_of(path)
        cells = [text] if path.suffix == ".py" else _cells_of(text, path.name)
    except SubmissionError:
        return None
    return code_lines_of("\n".join(cells))


def code_lines_of(text: str) -> list[str]:
    """Return the lines of a text without comments and empty ones."""
    lines = [line.rstrip() for line in text.splitlines()]
    return [line for line in lines if line and not line.lstrip().startswith("#")]


def _text_of(path: Path) -> str:
    content = content_of(path)
    if path.suffix not in (".py", ".ipynb"):
        raise SubmissionError(f"{path.name}: expected a Python file (.py) or a notebook (.ipynb)")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SubmissionError(f"{path.name}: not a text in UTF-8") from None


def _cells_of(text: str, name: str) -> list[str]:
    """Return the code cells of a notebook, with empty lines in place of commands of IPython.

    A cell that is Python has none: in it, a line that begins with ``%`` continues an expression.
    """
    try:
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SubmissionError(f"{name}: not a notebook of nbformat 4; save it again") from None
    return [_without_magic(source) for source in sources]


def _without_magic(cell: str) -> str:
    """Return a cell as it is if that is Python, else without its magic: the indented one only if need be."""
    for shown in (cell, _MAGIC.sub("", cell)):
        if _problem(shown, 0) is None:
            return shown
    return _INDENTED_MAGIC.sub("", cell)


def _problem(cell: str, number: int) -> Broken | None:
    try:
        ast.parse(cell)
    except SyntaxError as error:
        return Broken(f"code cell {number}, line {error.lineno}", str(error.msg), cell)
    except (ValueError, RecursionError, MemoryError):
        return Broken(f"code cell {number}, line 1", "nested too deeply, or with null bytes", cell)
    return None
