"""Starters, solutions and notebooks made from masters.

A master is a Python file with cells (``py:percent``). Two lines of tags enclose a solution. Between them,
lines that begin with ``### TODO`` or ``### >>>`` are the replacement of the solution in starters::

    def delay_s(queue_bytes, rate_bps):
        ### BEGIN SOLUTION
        ### TODO: return the queueing delay in seconds
        ### >>> return 0.0
        return 8.0 * queue_bytes / rate_bps
        ### END SOLUTION
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from sysgym.errors import MissingExtra, SysgymError

_BEGIN, _END = "### BEGIN SOLUTION", "### END SOLUTION"
_INSTEAD = re.compile(r"^(\s*)### (?:(>>>) ?|(TODO))(.*)$")


def starter_of(master: str) -> str:
    """Return the starter made from a master, with solutions replaced.

    Raises:
        SysgymError: A tag has no counterpart.
    """
    return "".join(
        _instead(line) for line, solution in _tagged(master) if not solution or _INSTEAD.match(line)
    )


def solution_of(master: str) -> str:
    """Return the solution made from a master, without tags and replacements.

    Raises:
        SysgymError: A tag has no counterpart.
    """
    return "".join(line for line, solution in _tagged(master) if not (solution and _INSTEAD.match(line)))


def notebook_of(text: str) -> str:
    """Return Python with cells as a notebook; equal texts give equal notebooks.

    Raises:
        MissingExtra: jupytext is not installed.
    """
    try:
        import jupytext
    except ImportError as error:
        raise MissingExtra("labs", "a notebook") from error
    notebook: Any = jupytext.reads(text, fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:03d}"
        cell["metadata"] = {}
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _tagged(master: str) -> Iterator[tuple[str, bool]]:
    """Yield every line that is not a tag, and whether it is inside a solution."""
    inside = False
    for number, line in enumerate(master.splitlines(keepends=True), start=1):
        if line.strip() in (_BEGIN, _END):
            if inside != (line.strip() == _END):
                raise SysgymError(f"line {number} of a master: {line.strip()} without its counterpart")
            inside = not inside
        else:
            yield line, inside
    if inside:
        raise SysgymError(f"a master ends inside a solution: {_END} is missing")


def _instead(line: str) -> str:
    found = _INSTEAD.match(line)
    if found is None:
        return line
    indent, code, _, rest = found.groups()
    return f"{indent}{rest}\n" if code else f"{indent}# TODO{rest}\n"
