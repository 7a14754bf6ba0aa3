"""Conversion of untrusted texts, so that they can be printed and stored safely."""

from __future__ import annotations

LONGEST = 4000
"""Maximum number of characters of a text that are kept."""


def printable(text: str, most: int = LONGEST) -> str:
    r"""Return a text without control characters, directional marks and surrogates.

    Such characters can clear a terminal or reverse a line, or cannot be encoded in UTF-8. They are escaped as
    in Python, such as ``\x1b`` or ``\udce9``; newlines are kept, and other white space becomes a space.

    Args:
        text: The text.
        most: Maximum number of characters of the text that are kept.
    """
    return "".join(
        one if one.isprintable() or one == "\n" else " " if one.isspace() else _escaped(one)
        for one in text[:most]
    )


def printable_name(name: str) -> str:
    """Return the name of a file, cut to 200 characters, as a printable text in one line."""
    return printable(name, 200).replace("\n", "\\n")


def _escaped(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
