"""Sanitised texts from rows and files, and names of files and anchors made from them."""

from __future__ import annotations

import hashlib
import re
import sys
import textwrap

from sysgym.scenarios.texts import REPLACEMENT
from sysgym.scenarios.texts import printable as printable

MOST_IN_NAMES = 60
"""Maximum length of a name that is shown in full in tables and pictures, characters."""

_SLUG_CHARACTERS = 60
_DIGEST = 12


def shown_name(name: object) -> str:
    """Return a name as one printable line of limited length; different long names stay different."""
    line = " ".join(printable(name, sys.maxsize).split()) or REPLACEMENT
    if len(line) <= MOST_IN_NAMES:
        return line
    return f"{line[: MOST_IN_NAMES - _DIGEST - 1]}…{_digest(str(name))}"


def in_picture(text: str, width: int = 40, lines: int = 1) -> str:
    """Return a text wrapped and shortened for a picture.

    Args:
        text: A name or a label.
        width: Maximum number of characters in a line.
        lines: Maximum number of lines; longer texts end in an ellipsis.
    """
    return textwrap.fill(text, width, max_lines=lines, placeholder="…", break_on_hyphens=False)


def slug(text: str) -> str:
    """Return a name for files and anchors: lower-case ASCII letters, digits and single hyphens.

    A text of at most 60 characters that already has this form is returned unchanged. Any other text gets an
    underscore and a digest as suffix, so that different texts have different slugs.

    Args:
        text: Any text.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_SLUG_CHARACTERS].strip("-")
    if plain and plain == text:
        return plain
    return f"{plain or 'x'}_{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
