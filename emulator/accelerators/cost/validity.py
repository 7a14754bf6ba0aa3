"""Validity of the closed form: systems on which it parts from the flows.

``scripts/closed_form_map.py`` compares both. For rings and chains the closed form is an upper bound: it takes
the latency of the slowest hop for every round, so it is too long by at most its own latencies. Halving and
doubling is exact. Trees are off in both directions on networks that are rings.
"""

from __future__ import annotations

import functools
import warnings

from sysgym.emulator.accelerators.hierarchy import Hierarchy

SLOWER = 1.001
"""Ratio from which on a level counts as slower than another one."""


class ClosedFormWarning(UserWarning):
    """The closed form of a system of the user's parts from the flows."""


def slower_inside(hierarchy: Hierarchy) -> str:
    """Return in words which level is slower than one further out; empty if there is none.

    Compared are the bandwidth of a device and the latency of a hop, of levels with more than one instance.

    Args:
        hierarchy: The system.
    """
    levels = [
        (level, level.bandwidth_bytes_per_s * level.uplinks / hierarchy.devices_inside(index))
        for index, level in enumerate(hierarchy.levels)
        if level.cardinality > 1
    ]
    for index, (outer, outer_share) in enumerate(levels):
        for inner, inner_share in levels[index + 1 :]:
            if inner_share * SLOWER < outer_share:
                rates = f"{inner_share:.3g} and {outer_share:.3g} bytes/s for a device"
                return f"{inner.name} links are slower than those of {outer.name} ({rates})"
            if inner.latency_s > outer.latency_s * SLOWER:
                hops = f"{inner.latency_s:.3g} and {outer.latency_s:.3g} s"
                return f"a hop between {inner.name}s takes longer than one between {outer.name}s ({hops})"
    return ""


@functools.lru_cache(maxsize=1024)
def warn_outside(hierarchy: Hierarchy, algorithm: str) -> None:
    """Warn once if the closed form parts from the flows on a system.

    Args:
        hierarchy: A system that is no preset and not drawn.
        algorithm: Algorithm of the collectives.
    """
    reason = slower_inside(hierarchy)
    if not reason and algorithm in ("tree", "auto"):
        rings = [
            level.name for level in hierarchy.levels if level.network == "ring" and level.cardinality > 2
        ]
        if rings:
            reason = f"trees on {rings[0]}s in a ring are off by up to a factor of 2"
    if reason:
        warnings.warn(
            f"{hierarchy.name}: {reason}; closed-form times can be far from those of flows where latencies "
            "count, see docs/placement.md; use flows (program_time_s of sysgym.emulator.accelerators.flows."
            "collective, or the agent topk) for this system",
            ClosedFormWarning,
            stacklevel=2,
        )
