"""Validity of the closed form: where it parts from the flows.

``scripts/placement/closed_form_map.py`` compares both. On switches, rings and halving and doubling agree,
whatever the size of the vector; only over three levels, of which the middle one has the slowest links, rings
can be 5 % too long. On a network that is a ring, with levels inside or around it, links do not work at
constant rates while latencies are as long as the pieces take: rings are up to 1.25 times too long there, and
were too short in none of 6,000 random cases. Trees do not agree: their pipelines fill level by level, and on
networks that are rings their edges cross each other.
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
    levels = [level for level in hierarchy.levels if level.cardinality > 1]
    rings = [level.name for level in levels if level.network == "ring"]
    if not levels:
        return ""
    if algorithm in _TREES:
        longer = [level.name for level in levels if level.name in rings and level.cardinality > 2]
        if longer:
            return f"trees on {longer[0]}s in a ring take 0.5 to 1.3 times as long as in flows"
        return "trees take 0.8 to 1.3 times as long as in flows"
    if algorithm == "ring" and rings and len(levels) > 1:
        return f"rings over {rings[0]}s in a ring and another level take 1 to 1.25 times as long as in flows"
    return ""


@functools.lru_cache(maxsize=1024)
def warn_outside(hierarchy: Hierarchy, algorithm: str, *, own: bool = True) -> None:
    """Warn once if the closed form parts from the flows.

    Args:
        hierarchy: The system.
        algorithm: Algorithm of the collectives.
        own: Whether the user described the system. On presets and drawn systems only trees warn: for rings,
            docs/placement.md has the difference on each.
    """
    reason = parts_from_flows(hierarchy, algorithm)
    trees = algorithm in _TREES
    if reason and (own or trees):
        advice = "rings, or flows" if trees else "flows"
        warnings.warn(
            f"{hierarchy.name}: in the closed form {reason}, see docs/placement.md; use {advice} "
            "(program_time_s of sysgym.emulator.accelerators.flows.collective, or the agent topk)",
            ClosedFormWarning,
            stacklevel=2,
        )
