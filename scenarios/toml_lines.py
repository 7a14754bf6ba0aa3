"""Line numbers of the keys of a TOML file, for error messages.

``tomllib`` does not report them. This scanner reads only headers and the key at the start of a line. Keys
inside inline tables have no line of their own and are reported at the line of the table.
"""

from __future__ import annotations

import re

_BARE_OR_QUOTED = r'(?:[A-Za-z0-9_-]+|"[^"\n]*"|\'[^\'\n]*\')'
_DOTTED = rf"{_BARE_OR_QUOTED}(?:\s*\.\s*{_BARE_OR_QUOTED})*"
_HEADER = re.compile(rf"^\s*(\[\[?)\s*({_DOTTED})\s*\]\]?")
_ASSIGNMENT = re.compile(rf"^\s*({_DOTTED})\s*=(.*)$")
_PART = re.compile(_BARE_OR_QUOTED)

KeyPath = tuple[str | int, ...]


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return lines, counted from 1, by key path; entries of arrays of tables have their index in the path.

    Args:
        text: Content of a TOML file.
    """
    lines: dict[KeyPath, int] = {}
    entries: dict[KeyPath, int] = {}
    table: KeyPath = ()
    open_string = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if open_string:
            open_string = "" if open_string in line else open_string
            continue
        if header := _HEADER.match(line):
            table = tuple(_parts(header[2]))
            if header[1] == "[[":
                index = entries.get(table, -1) + 1
                entries[table] = index
                lines.setdefault(table, number)
                table = (*table, index)
            else:
                table = _inside_entries(table, entries)
            for depth in range(1, len(table) + 1):  # [a.b] may be the only mention of [a]
                lines.setdefault(table[:depth], number)
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault((*table, *_parts(assignment[1])), number)
            for quotes in ('"""', "'''"):
                if assignment[2].count(quotes) == 1:
                    open_string = quotes
    return lines


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(dotted)]


def _inside_entries(table: KeyPath, entries: dict[KeyPath, int]) -> KeyPath:
    for depth in range(len(table) - 1, 0, -1):
        if table[:depth] in entries:
            return (*table[:depth], entries[table[:depth]], *table[depth:])
    return table
