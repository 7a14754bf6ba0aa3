"""Parser of durations on the command line."""

from __future__ import annotations

import math
import re

import typer

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_WORD = re.compile(r"([0-9.]+(?:e[-+]?[0-9]+)?)\s*(s|ms|us|µs|ns)", re.IGNORECASE)


def duration_s(text: str | float) -> float:
    """Return a duration in seconds from a text such as ``100us``, ``2.5ms`` or ``1s``.

    Args:
        text: A number with a unit; typer also passes numeric defaults through this function.

    Raises:
        BadParameter: The text is no number with a known unit.
    """
    if isinstance(text, float):
        return text
    found = _WORD.fullmatch(text.strip())
    try:
        value_s = float(found[1]) * SECONDS[found[2].lower()] if found else math.nan
    except ValueError:
        value_s = math.nan
    if not 0.0 <= value_s < math.inf:
        raise typer.BadParameter(
            f'got "{text}", expected a number with a unit ({", ".join(SECONDS)}), for example 100us'
        )
    return value_s
