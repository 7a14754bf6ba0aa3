"""Untrusted texts: patterns for scenarios, and safe display."""

from __future__ import annotations

import unicodedata

MOST_CHARACTERS = 2000
"""Longest text that is displayed in full."""

REPLACEMENT = "\ufffd"
"""Replacement for a character that cannot be displayed."""

_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069"

LINE = rf"^[^\t\n{_CONTROL}]*$"
"""Pattern of one line without control characters and marks that change the writing direction."""

PROSE = rf"^[^{_CONTROL}]*$"
"""The same pattern with tabs and line breaks."""

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Unicode categories of invisible or direction-changing characters: control, format, surrogates."""


def printable(text: object, most: int = MOST_CHARACTERS) -> str:
    """Return a text without invisible or unprintable characters, truncated if it is too long.

    Whitespace is kept. Surrogates, control characters and marks that change the writing direction become
    U+FFFD.

    Args:
        text: Untrusted text; other objects are converted by ``str``.
        most: Longest result, characters.
    """
    words = str(text)
    if len(words) > most:
        words = words[: most - 1] + "…"
    return "".join(
        one if one in "\t\n " or unicodedata.category(one) not in _HIDDEN else REPLACEMENT for one in words
    )
