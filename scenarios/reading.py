"""Bounded reading of user files: regular files of limited size, and tables of limited shape.

Otherwise a malicious file could block its reader or exhaust the memory. The limits are far above the needs of
hand-written files, and exceeding one gives a clear error.
"""

from __future__ import annotations

import dataclasses
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from sysgym.scenarios.errors import NOTHING, Problem, ScenarioError

LARGEST_FILE_BYTES = 1 << 20
"""Largest file size: 200 times the longest file of the package; parsing it takes about a second."""

DEEPEST_NESTING = 32
"""Largest nesting depth of tables and lists; the deepest key of a scenario has six levels."""

MOST_DOTS = 2 * DEEPEST_NESTING
"""Largest number of dots on a line, except in numbers of lists: parsing dotted keys takes quadratic time."""

MOST_VALUES = 20_000
"""Largest number of values of a file, list items included: 100 times the package's longest file."""

LARGEST_WHOLE_NUMBER = 2**63 - 1
"""Largest integer that TOML guarantees."""

_DOT_OF_A_NUMBER = re.compile(r"(?<=\d)\.[\d_eE+-]*\s*[,\]]")

LONGEST_KEY, LONGEST_TEXT = 200, 20_000
"""Largest lengths in characters of a key, and of any other text."""


def read_text(
    path: str | PathLike[str], kind: str, *, shown: str = "", most_bytes: int = LARGEST_FILE_BYTES
) -> str:
    """Return the text of a regular file, without waiting for a pipe or a device.

    Args:
        path: File to read; ``~`` is the home folder.
        kind: Kind of the file in messages, such as ``TOML file``.
        shown: Name of the file in messages; empty: its path.
        most_bytes: Largest size.

    Raises:
        ScenarioError: If the file does not exist, is not a regular file, cannot be read, is too large, or is
            not UTF-8.
    """
    shown = shown or os.fspath(path)
    try:
        # Without O_NONBLOCK, opening a pipe blocks until it has a writer.
        descriptor = os.open(Path(path).expanduser(), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ScenarioError(
                    shown, got="a folder, a pipe or a device", expected=f"a {kind}", advice="check the path"
                )
            content = file.read(most_bytes + 1)
    except (OSError, ValueError, RuntimeError) as error:  # NUL in the path; home folder of an unknown user
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ScenarioError(
            shown, got=reason, expected=f"a readable {kind}, UTF-8", advice="check the path"
        ) from error
    if len(content) > most_bytes:
        expected = f"a {kind} of at most {most_bytes:,} bytes"
        raise ScenarioError(shown, got="a larger file", expected=expected, advice="check the path")
    try:
        text = content.decode("utf-8-sig")  # editors of Windows write a byte-order mark
    except UnicodeDecodeError as error:
        raise ScenarioError(
            shown, got="not UTF-8", expected=f"a readable {kind}, UTF-8", advice="save it as UTF-8"
        ) from error
    if "\0" in text:
        raise ScenarioError(shown, got="a byte 0", expected=f"a {kind}", advice="check the path")
    return text


def parse_toml(text: str, shown: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Args:
        text: Content of the file.
        shown: Name of the file in messages.

    Raises:
        ScenarioError: If it is not TOML, or exceeds one of this module's limits.
    """
    check_dots(text, shown)
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise ScenarioError(shown, problems=[_too_deep()]) from None
    except tomllib.TOMLDecodeError as error:
        line = _syntax_line(str(error), text)
        lines = text.splitlines()
        got = lines[line - 1].strip() if line and line <= len(lines) else NOTHING
        problem = Problem("", got, f"TOML: {error}", "the syntax is at https://toml.io", line)
        raise ScenarioError(shown, problems=[problem]) from error
    except ValueError:  # Python parses no integer of more than 4300 digits.
        raise ScenarioError(shown, problems=[_too_large("a number of thousands of digits")]) from None
    check_shape(data, shown)
    return data


def check_dots(text: str, shown: str, *, origin: str = "") -> None:
    """Raise an error for a text that TOML's parser would take minutes to read.

    Args:
        text: TOML.
        shown: Name of the file in messages.
        origin: As in :class:`Problem`.

    Raises:
        ScenarioError: If a line has more than :data:`MOST_DOTS` dots. Dots inside strings count too, because
            strings are not recognised before parsing.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MOST_DOTS and (n := _DOT_OF_A_NUMBER.sub("", line).count(".")) > MOST_DOTS:
            problem = Problem(
                "",
                f"a line with {n:,} dots",
                f"at most {MOST_DOTS} dots on a line, and {DEEPEST_NESTING} tables inside each other",
                "break the line",
                number,
                origin,
            )
            raise ScenarioError(shown, problems=[problem])


_Place: TypeAlias = "tuple[_Place, object] | None"
"""A place in data: the place around it, and the key or the index there. Names are made where needed."""

_SINGLE = str, int, float, type(None)
"""Types of nearly all values, told first: whether a value is a ``Mapping`` takes longer."""


def check_shape(data: object, shown: str, *, origin: str = "") -> None:
    """Check tables and lists against this module's limits.

    Args:
        data: Data from TOML, JSON, YAML or the caller.
        shown: Name of the file in messages.
        origin: As in :class:`Problem`.

    Raises:
        ScenarioError: If they exceed a limit; names the first place.
    """
    pending: list[tuple[_Place, object, int]] = [(None, data, 0)]
    n_values = 0
    while pending:  # no recursion, which too deep a nesting would exhaust
        place, value, depth = pending.pop()
        inside: list[tuple[object, object]] = []
        problem = _value_problem(value, depth)
        if problem is None and not isinstance(value, _SINGLE) and isinstance(value, Mapping | list | tuple):
            n_values += len(value)
            if n_values > MOST_VALUES:
                problem = Problem("", "more than that", f"at most {MOST_VALUES:,} values in all")
            elif isinstance(value, Mapping):
                problem = next((found for key in value if (found := _key_problem(key))), None)
                inside = list(value.items())
            else:
                inside = list(enumerate(value))
        if problem is not None:
            where = _name_of(place)
            if depth > DEEPEST_NESTING and len(where) > LONGEST_KEY:  # as long as the nesting is deep
                where = where[:LONGEST_KEY] + "..."
            raise ScenarioError(shown, problems=[dataclasses.replace(problem, key=where, origin=origin)])
        pending += [((place, key), item, depth + 1) for key, item in reversed(inside)]


def _name_of(place: _Place) -> str:
    """Return the name of a place, such as ``tasks[0].seeds``."""
    parts: list[str] = []
    while place is not None:
        place, key = place
        parts.append(f"[{key}]" if isinstance(key, int) else f".{key}")
    return "".join(reversed(parts)).lstrip(".")


def _value_problem(value: object, depth: int) -> Problem | None:
    if depth > DEEPEST_NESTING:
        return _too_deep()
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE_NUMBER:
        return _too_large(f"a whole number of {value.bit_length()} bits")
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return Problem(
            "", f"a text of {len(value):,} characters", f"a text of at most {LONGEST_TEXT:,} characters"
        )
    return None


def _key_problem(key: object) -> Problem | None:
    if isinstance(key, str) and 0 < len(key) <= LONGEST_KEY:
        return None
    got = f"a key of {len(key):,} characters" if isinstance(key, str) and key else f"the key {str(key)!r:.80}"
    return Problem("", got, f"keys that are texts of 1 to {LONGEST_KEY} characters", "rename the key")


def _too_deep() -> Problem:
    return Problem(
        "", "tables or lists nested deeper", f"at most {DEEPEST_NESTING} tables and lists inside each other"
    )


def _too_large(got: str) -> Problem:
    return Problem("", got, f"whole numbers from -{LARGEST_WHOLE_NUMBER} to {LARGEST_WHOLE_NUMBER}")


def _syntax_line(message: str, text: str) -> int | None:
    _, found, rest = message.partition("(at line ")
    if found:
        return int(rest.split(",")[0])
    return len(text.splitlines()) if "end of document" in message else None
