"""Definitions that a grader takes from a submission, a Python file or a notebook.

Experiments, plots and prints at the top level of a file are for its author. A grader takes only imports,
functions, classes and assignments to names in capitals, and of these only the ones that graded names use.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from io import StringIO

from sysgym.labs.intake.content import SubmissionError
from sysgym.labs.intake.notebooks import Source

_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]*")


def definitions(source: Source | str, wanted: Iterable[str], *, without: str | None = None) -> str:
    """Return a source reduced to the definitions that some names need; line numbers do not change.

    Args:
        source: Python source.
        wanted: Names that must be defined.
        without: Package whose imports are omitted, too.

    Raises:
        SubmissionError: The source is not valid Python, or a name is not defined at the top level.
    """
    source = Source(source) if isinstance(source, str) else source
    tree = parse(source.text)
    named: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for name in _bound(node):
            named.setdefault(name, []).append(node)
    wanted = list(wanted)
    missing = [name for name in wanted if name not in named]
    if missing:
        raise SubmissionError(_why_missing(source, missing))
    kept: set[ast.stmt] = set()
    names = list(wanted)
    seen = set(names)
    while names:
        for node in named.get(names.pop(), ()):
            if node in kept or (without and without in _packages(node)):
                continue
            kept.add(node)
            used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            names += used - seen
            seen |= used
    return _only(source.text, tree, kept)


def why_unknown(source: Source, name: str) -> str:
    """Return the reason why a name in a submission is unknown to graders; empty if it is not defined."""
    for cell in source.broken:
        if _names(cell.text, name):
            return f"{name} is not defined, as {cell.place} is no valid Python: {cell.error}"
    for node in parse(source.text).body:
        place = source.place(node.lineno)
        if name in _bound(node) and "sysgym" in _packages(node):
            return (
                f"{name} comes from sysgym ({place}): graded functions may use Python and NumPy, not sysgym"
            )
        if name in _assigned(node) and not _CAPITALS.fullmatch(name):
            return (
                f"{name} is defined in {place}, but graders read only names in CAPITALS;"
                f" rename it {name.upper()}"
            )
    return ""


def _names(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def _why_missing(source: Source, missing: list[str]) -> str:
    for cell in source.broken:
        named = [name for name in missing if _names(cell.text, name)]
        if named:
            return f"{cell.place}: no valid Python: {cell.error}; so {', '.join(named)} is not defined"
    return (
        f"not defined at the top level of the file: {', '.join(missing)};"
        " keep the starter's names, and do not put them inside an if"
    )


def parse(source: str) -> ast.Module:
    """Return the syntax tree of a source.

    Raises:
        SubmissionError: The source is not valid Python.
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


def _assigned(node: ast.stmt) -> set[str]:
    """Return the names to which a statement assigns a value."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return set()
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def _packages(node: ast.stmt) -> set[str]:
    """Return the packages that a statement imports from."""
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    return {(node.module or "").partition(".")[0]} if isinstance(node, ast.ImportFrom) else set()


def _only(source: str, tree: ast.Module, kept: set[ast.stmt]) -> str:
    # Split like the parser: str.splitlines() also splits at form feeds and other characters within a line.
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


__all__ = ["SubmissionError", "definitions", "parse", "why_unknown"]
