"""Python source of submissions, from Python files and from the code cells of notebooks.

In a notebook, a cell that is not valid Python does not run, but the other cells do. Therefore, invalid cells
are omitted here.
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
    """Code cell that is not valid Python."""

    place: str
    """Place of the error, such as ``code cell 3, line 1``."""
    error: str
    """Description of the error."""
    text: str
    """Text of the cell."""


class Source(NamedTuple):
    """Python source of a submission."""

    text: str
    """The source; omitted cells are replaced by empty lines."""
    cells: tuple[int, ...] = ()
    """Line at which each code cell begins, from 1; empty for a Python file."""
    broken: tuple[Broken, ...] = ()
    """Omitted cells."""

    def place(self, line: int) -> str:
        """Return the place of a line as text, such as ``line 7`` or ``code cell 3, line 1``."""
        before = [first for first in self.cells if first <= line]
        return f"code cell {len(before)}, line {line - before[-1] + 1}" if before else f"line {line}"


def read(path: Path) -> Source:
    """Return the source in a Python file or in a notebook's code cells.

    Args:
        path: File with the suffix ``.py`` or ``.ipynb``.

    Raises:
        SubmissionError: The file has another suffix, is no valid notebook, not UTF-8, a link, or too large.
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
    """Return the lines of a submission except comments and empty lines; None if it cannot be read.

    The lines of a Python file with cells and of its notebook are equal.
    """
    try:
        text = _text_of(path)
        cells = [text] if path.suffix == ".py" else _cells_of(text, path.name)
    except SubmissionError:
        return None
    return code_lines_of("\n".join(cells))


def code_lines_of(text: str) -> list[str]:
    """Return the lines of a text except comments and empty lines."""
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
    """Return the code cells of a notebook, with empty lines in place of IPython commands.

    A cell that is valid Python has no such commands: a line that begins with ``%`` continues an expression.
    """
    try:
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SubmissionError(f"{name}: not a notebook of nbformat 4; save it again") from None
    return [_without_magic(source) for source in sources]


def _without_magic(cell: str) -> str:
    """Return a cell without IPython commands if it is not valid Python; indented ones only if necessary."""
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
