"""Dotted keys, such as ``workload.load``, in the tables of a scenario."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from sysgym.scenarios.errors import Problem

DEEPEST = 8
"""Nesting of tables and lists in a scenario, at most."""


def apply_overrides(data: dict[str, Any], overrides: Mapping[str, Any]) -> list[Problem]:
    """Write dotted keys into nested dicts, in place; return the problems of those that cannot be written.

    Args:
        data: Nested tables.
        overrides: Values by dotted key.
    """
    problems = []
    for dotted, value in overrides.items():
        *tables, last = dotted.split(".")
        place: Any = data
        for table in tables:
            place = place.setdefault(table, {}) if isinstance(place, dict) else None
        if isinstance(place, dict) and all([*tables, last]):
            place[last] = value
        else:
            problems.append(
                Problem(dotted, value, 'a dotted key such as "workload.load"', origin="overrides")
            )
    return problems


def plain(value: Any, depth: int = DEEPEST) -> Any:
    """Return a value with Python's own numbers in place of NumPy's, also inside lists and tables.

    What is nested deeper than ``depth`` stays as it is; no scenario has such a value.
    """
    if isinstance(value, np.generic):
        return value.item()
    if depth > 0 and isinstance(value, Mapping):
        return {key: plain(one, depth - 1) for key, one in value.items()}
    if depth > 0 and isinstance(value, list | tuple):
        return [plain(one, depth - 1) for one in value]
    return value


def stop_varying(data: dict[str, Any], keys: Collection[str]) -> None:
    """Remove keys, and all keys below them, from what varies in the splits of a scenario, in place."""
    splits = data.get("splits")
    for split in splits.values() if isinstance(splits, dict) else ():
        for draws in ("vary", "ranges") if isinstance(split, dict) else ():
            if isinstance(split.get(draws), dict):
                split[draws] = {
                    key: values
                    for key, values in split[draws].items()
                    if not any(key == name or key.startswith(f"{name}.") for name in keys)
                }
