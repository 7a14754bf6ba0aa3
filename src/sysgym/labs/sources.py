"""Definitions of a submission: what a grader takes from a Python file or a notebook.

Experiments, plots and prints at the top level of a file are for its author. A grader takes only imports,
functions, classes and assignments to names in capitals, and of those only what the graded names use.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from io import StringIO
from pathlib import Path

from sysgym.labs.intake.files import SubmissionError, content_of

_MAGIC = re.compile(r"^[^\S\n]*[%!?].*$", re.MULTILINE)
_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]*")


def read_source(path: Path) -> str:
    """Return the Python of a file or of a notebook's code cells.

    Args:
        path: File with the suffix ``.py`` or ``.ipynb``.

    Raises:
        SubmissionError: It is neither, or no valid notebook, not UTF-8, a link, or too large.
    """
    try:
        text = content_of(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SubmissionError(f"{path.name}: not a text in UTF-8") from None
    if path.suffix == ".py":
        return text
    if path.suffix != ".ipynb":
        raise SubmissionError(f"{path.name}: expected a Python file (.py) or a notebook (.ipynb)")
    try:
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SubmissionError(f"{path.name}: not a notebook of nbformat 4; save it again") from None
    return "\n".join(_MAGIC.sub("", source) for source in sources)


def definitions(source: str, wanted: Iterable[str]) -> str:
    """Return a source of which only the definitions that some names need are left, on their own lines.

    Args:
        source: Python.
        wanted: Names that have to be there.

    Raises:
        SubmissionError: The source is no Python, or a name is not defined at the top level.
    """
    tree = parse(source)
    named: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for name in _bound(node):
            named.setdefault(name, []).append(node)
    wanted = list(wanted)
    missing = [name for name in wanted if name not in named]
    if missing:
        raise SubmissionError(
            f"not defined at the top level of the file: {', '.join(missing)};"
            " keep the starter's names, and do not put them inside an if"
        )
    kept: set[ast.stmt] = set()
    names = list(wanted)
    seen = set(names)
    while names:
        for node in named.get(names.pop(), ()):
            if node in kept:
                continue
            kept.add(node)
            used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            names += used - seen
            seen |= used
    return _only(source, tree, kept)


def parse(source: str) -> ast.Module:
    """Return the syntax tree of a source.

    Raises:
        SubmissionError: It is no Python.
    """
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise SubmissionError(f"line {error.lineno}: no valid Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise SubmissionError("no valid Python: nested too deeply, or with null bytes") from None


def _bound(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement defines for a grader."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(isinstance(one, ast.Name) and _CAPITALS.fullmatch(one.id) for one in targets):
            yield from (one.id for one in targets if isinstance(one, ast.Name))


def _only(source: str, tree: ast.Module, kept: set[ast.stmt]) -> str:
    # As the parser splits: str.splitlines() also splits at form feeds and other signs within a line.
    lines = list(StringIO(source, newline=""))
    shown = [""] * len(lines)
    taken: dict[int, ast.stmt] = {}
    for node in tree.body:
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(one.lineno for one in decorators)])
        for number in range(first, (node.end_lineno or first) + 1):
            if number in taken:
                raise SubmissionError(f"line {number}: two statements on one line; write them on two")
            taken[number] = node
    for number, line in enumerate(lines, start=1):
        end = "\n" if line.endswith(("\n", "\r")) else ""
        shown[number - 1] = line if taken.get(number) in kept else end
    return "".join(shown)


__all__ = ["SubmissionError", "definitions", "parse", "read_source"]
