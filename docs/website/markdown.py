"""Pieces of Markdown (MyST)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

Replacement = Callable[[str], str]

Pages = dict[str, str]
"""Path of a page in the site's sources, such as ``agents/max.md`` -> its text."""

_LINK = re.compile(r"(\]\()([^()\s]+)(\))")
_BLOCK = re.compile(r"(^ *(?:```+|~~~+).*?^ *(?:```+|~~~+) *$)", re.MULTILINE | re.DOTALL)


def cell(text: object) -> str:
    """Return a text that fits into one cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, texts: int | None = None) -> str:
    """Return a table; empty without rows.

    Args:
        heads: Headings of the columns.
        rows: One sequence of cells per row.
        texts: Number of columns before those of numbers, which are aligned to the right; None: all columns.
    """
    lines = ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    if not lines:
        return ""
    left = len(heads) if texts is None else texts
    return "\n".join(
        ["| " + " | ".join(heads) + " |", "|" + " --- |" * left + " ---: |" * (len(heads) - left), *lines, ""]
    )


def code(text: str, language: str = "") -> str:
    """Return a block of code, fenced by more backticks than it contains."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def toctree(pages: Iterable[str], *, caption: str = "", hidden: bool = False) -> str:
    """Return a table of contents.

    Args:
        pages: Pages from the root of the sources, with or without suffix.
        caption: Heading in the sidebar.
        hidden: Whether it is in the sidebar only.
    """
    options = [":maxdepth: 1"]
    options += [f":caption: {caption}"] if caption else []
    options += [":hidden:"] if hidden else []
    names = [f"/{page.removesuffix('.md').removesuffix('.rst').removesuffix('.ipynb')}" for page in pages]
    return "\n".join(["```{toctree}", *options, "", *names, "```", ""]) if names else ""


def page(title: str, *parts: str) -> str:
    """Return a page: its title and its parts, without those that are empty."""
    return "\n\n".join([f"# {title}", *(part.strip("\n") for part in parts if part.strip())]) + "\n"


def section(title: str, *parts: str, level: int = 2) -> str:
    """Return a section; empty if all its parts are."""
    body = "\n\n".join(part.strip("\n") for part in parts if part.strip())
    return f"{'#' * level} {title}\n\n{body}" if body else ""


def sections(text: str) -> dict[str, str]:
    """Return heading -> body of the sections ``## ...`` of a text, in order; "" is the text before them."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return {
        "": parts[0].strip(),
        **dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True)),
    }


def outside_code(text: str) -> list[tuple[bool, str]]:
    """Return the pieces of a text, each with whether it is prose and not a fenced block."""
    return [(index % 2 == 0, piece) for index, piece in enumerate(_BLOCK.split(text))]


def replace_links(text: str, replace: Replacement) -> str:
    """Return a text with the targets of its links and images replaced, those in blocks of code excepted."""
    return "".join(
        _LINK.sub(lambda found: f"{found[1]}{replace(found[2])}{found[3]}", piece) if prose else piece
        for prose, piece in outside_code(text)
    )


def from_docstring(text: str) -> str:
    """Return a docstring's prose as Markdown: reStructuredText's roles become code."""
    return re.sub(r":(?:\w+:)?\w+:`~?([^`]+)`", r"`\1`", text)
