"""Time of an all-to-all: every member of a group sends a part of its vector to every other one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.matrices import Matrix, reduction_groups
from sysgym.scenarios.errors import ScenarioError


def all_to_all_time_s(hierarchy: Hierarchy, matrix: Matrix, axes: Sequence[int], size_bytes: float) -> float:
    """Return the time of an all-to-all that all groups of some axes run at once.

    Parts are sent directly. The fullest link of any level decides, and every one of the k - 1 rounds has the
    latency of the level that it crosses: with k members in one instance of a switched level,
    ``S (k - 1) / (k B) + (k - 1) a``.

    Args:
        hierarchy: The devices and their links; levels of more than two instances that send must be switches.
        matrix: The placement.
        axes: Indices of the axes whose devices form a group.
        size_bytes: Bytes of a member's vector, S; a part has S / k.

    Raises:
        ScenarioError: The matrix or the axes do not fit, the size is negative, or parts would have to be
            routed through a ring.
    """
    if not (np.isfinite(size_bytes) and size_bytes >= 0.0):
        raise ScenarioError("<all-to-all>", "size_bytes", size_bytes, "a finite number, at least 0")
    groups = reduction_groups(hierarchy.cardinalities, matrix, axes)
    n_members = groups.shape[1]
    if n_members == 1:
        return 0.0
    part_bytes = size_bytes / n_members
    slowest_s = latency_s = 0.0
    apart = np.zeros((len(groups), n_members, n_members), np.bool_)
    for index, level in enumerate(hierarchy.levels):
        n_inside = hierarchy.devices_inside(index)
        instance = groups // n_inside
        differ = instance[:, :, None] != instance[:, None, :]
        crosses, apart = differ & ~apart, differ
        n_crossing = crosses.sum(axis=2)
        if not n_crossing.any():
            continue
        if level.network == "ring" and level.cardinality > 2:
            raise ScenarioError(
                f"<hierarchy {hierarchy.name}>", "network", level.network,
                "a switch: an all-to-all through a ring has no closed form here",
            )  # fmt: skip
        # A device's uplink: its instance, and its block of devices inside it.
        uplink = groups // n_inside * level.uplinks + groups % n_inside * level.uplinks // n_inside
        load_bytes = np.bincount(uplink.ravel(), (n_crossing * part_bytes).ravel()).max()
        slowest_s = max(slowest_s, float(load_bytes) / level.bandwidth_bytes_per_s)
        latency_s += int(n_crossing.max()) * level.latency_s
    return slowest_s + latency_s
