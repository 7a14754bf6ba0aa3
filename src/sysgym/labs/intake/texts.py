"""Texts of strangers, made fit to print and to store."""

from __future__ import annotations

LONGEST = 4000
"""Characters of a text that are kept."""


def printable(text: str, most: int = LONGEST) -> str:
    r"""Return a text without control characters, marks of direction and halves of characters.

    They would clear a terminal, turn a line around, or be no UTF-8. What cannot be shown is written as in
    Python, such as ``\x1b`` or ``\udce9``; ends of lines stay.

    Args:
        text: The text.
        most: Characters of it that are kept.
    """
    return "".join(
        one if one.isprintable() or one == "\n" else " " if one.isspace() else _escaped(one)
        for one in text[:most]
    )


def printable_name(name: str) -> str:
    """Return the name of a file in one line of at most 200 characters."""
    return printable(name, 200).replace("\n", "\\n")


def _escaped(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
