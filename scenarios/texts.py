"""Texts of anyone: which a scenario may have, and how others are shown."""

from __future__ import annotations

import unicodedata

MOST_CHARACTERS = 2000
"""Longest text that is shown whole."""

REPLACEMENT = "\ufffd"
"""Stands for a character that cannot be shown."""

_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069"

LINE = rf"^[^\t\n{_CONTROL}]*$"
"""One line without control characters and marks that change the direction of writing."""

PROSE = rf"^[^{_CONTROL}]*$"
"""The same with tabs, in several lines."""

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Unicode categories of what is not seen, or turns the text around it: control, format, surrogates."""


def printable(text: object, most: int = MOST_CHARACTERS) -> str:
    """Return a text without characters that cannot be seen or written, cut where it is too long.

    Whitespace stays. Surrogates, control characters and marks that change the direction of writing become
    U+FFFD.

    Args:
        text: Of anyone; what is no text is written as Python does.
        most: Longest result, characters.
    """
    words = str(text)
    if len(words) > most:
        words = words[: most - 1] + "…"
    return "".join(
        one if one in "\t\n " or unicodedata.category(one) not in _HIDDEN else REPLACEMENT for one in words
    )
