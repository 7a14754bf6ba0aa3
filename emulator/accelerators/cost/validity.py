"""Validity of the closed form: where it parts from the flows.

``scripts/placement/closed_form_map.py`` compares both. Rings and halving and doubling agree, whatever the
size of the vector, on all presets and on levels that differ in either direction. Trees do not: their
pipelines fill level by level, and on networks that are rings their edges cross each other.
"""

from __future__ import annotations

import functools
import warnings

from sysgym.emulator.accelerators.hierarchy import Hierarchy

_TREES = ("tree", "auto")


class ClosedFormWarning(UserWarning):
    """The closed form of a system and an algorithm parts from the flows."""


def parts_from_flows(hierarchy: Hierarchy, algorithm: str) -> str:
    """Return in words why the closed form parts from the flows; empty if it does not.

    Args:
        hierarchy: The system: a preset, drawn, or of the user.
        algorithm: Algorithm of the collectives.
    """
    if algorithm not in _TREES or sum(level.cardinality > 1 for level in hierarchy.levels) == 0:
        return ""
    rings = [level.name for level in hierarchy.levels if level.network == "ring" and level.cardinality > 2]
    if rings:
        return f"trees on {rings[0]}s in a ring take 0.5 to 1.3 times as long as in flows"
    return "trees take 0.8 to 1.3 times as long as in flows"


@functools.lru_cache(maxsize=1024)
def warn_outside(hierarchy: Hierarchy, algorithm: str) -> None:
    """Warn once if the closed form parts from the flows.

    Args:
        hierarchy: The system.
        algorithm: Algorithm of the collectives.
    """
    reason = parts_from_flows(hierarchy, algorithm)
    if reason:
        warnings.warn(
            f"{hierarchy.name}: in the closed form {reason}, see docs/placement.md; use rings, or flows "
            "(program_time_s of sysgym.emulator.accelerators.flows.collective, or the agent topk)",
            ClosedFormWarning,
            stacklevel=2,
        )
