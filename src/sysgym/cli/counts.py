"""Parser of counts on the command line."""

from __future__ import annotations

import re

import typer

_WHOLE = re.compile(r"(\d{1,12})(?:\.(\d{1,12}))?(?:[eE]\+?(\d{1,2}))?")


def count(text: str | int) -> int:
    """Return a whole number, at least 1, from a text such as ``100000`` or ``1e5``.

    Args:
        text: The number; typer also passes numeric defaults through this function.

    Raises:
        BadParameter: The text is no whole number, or less than 1.
    """
    if isinstance(text, int):
        return text
    found = _WHOLE.fullmatch(text.strip().replace("_", ""))
    if found is not None:
        whole, fraction, exponent = found[1], (found[2] or "").rstrip("0"), int(found[3] or 0)
        number = int(whole + fraction + "0" * max(exponent - len(fraction), 0))
        if len(fraction) <= exponent and number >= 1:
            return number
    raise typer.BadParameter(f'got "{text}", expected a whole number, at least 1, such as 100000 or 1e5')
