"""Times of communications that a trace does not have, by the cost model of accelerators.

Every formula is in :mod:`sysgym.emulator.accelerators.cost`; here, ranks are placed on a preset.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from sysgym.emulator.accelerators.cost import CostModel
from sysgym.emulator.accelerators.cost.exchange import all_to_all_time_s
from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.matrices import default_matrix, reduction_factors
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.programs import Collective, Instruction, Pattern
from sysgym.scenarios.errors import SysgymError, UnknownName

DEFAULT_SYSTEM = "dgx-h100"

ALL_TO_ALL, BARRIER = "all_to_all", "barrier"
_COLLECTIVES = {
    "all_reduce": Collective.ALL_REDUCE,
    "all_gather": Collective.ALL_GATHER,
    "reduce_scatter": Collective.REDUCE_SCATTER,
    "broadcast": Collective.BROADCAST,
    "reduce": Collective.REDUCE,
}
COLLECTIVES = (*_COLLECTIVES, ALL_TO_ALL, BARRIER)
"""Collectives whose time can be computed."""


class CollectiveCosts:
    """Times of communications between ranks that are placed in their order on a system's devices.

    Args:
        system: One of :func:`~sysgym.emulator.accelerators.presets.list_presets`, or a system with as many
            devices as there are ranks.
        n_ranks: Number of ranks; whole nodes, or part of one.

    Raises:
        UnknownName: There is no such preset.
        SysgymError: The ranks do not fill their nodes.
    """

    def __init__(self, system: str | Hierarchy, n_ranks: int) -> None:
        """Set up; the class documentation describes the arguments."""
        self.n_ranks = n_ranks
        self.hierarchy = system_of(system, n_ranks) if isinstance(system, str) else system
        self._model = CostModel(self.hierarchy)
        self._time_s = functools.lru_cache(maxsize=65_536)(self._group_time_s)

    def collective_time_s(self, collective: str, n_members: int, stride: int, size_bytes: float) -> float:
        """Return the time of a collective that all groups of ranks run at once.

        Args:
            collective: One of :data:`COLLECTIVES`.
            n_members: Ranks of a group.
            stride: Difference of neighbouring ranks of a group.
            size_bytes: Bytes of the whole vector: what an all-gather returns, what a reduce-scatter and an
                all-to-all are given.

        Raises:
            UnknownName: If the time of the collective cannot be computed.
            SysgymError: If the ranks cannot be divided into such groups.
        """
        if collective not in COLLECTIVES:
            raise UnknownName("collective with a known time", collective, COLLECTIVES)
        if n_members < 1 or stride < 1 or self.n_ranks % (n_members * stride):
            raise SysgymError(
                f"{self.n_ranks} ranks cannot be divided into groups of {n_members} that are {stride} apart"
            )
        return self._time_s(collective, n_members, stride, size_bytes)

    def transfer_time_s(self, sender: int, receiver: int, size_bytes: float) -> float:
        """Return the time in which a rank sends bytes to another one, when nothing else is sent."""
        for level in range(self.hierarchy.n_levels):
            n_inside = self.hierarchy.devices_inside(level)
            if sender // n_inside != receiver // n_inside:
                pair = dataclasses.replace(
                    self.hierarchy.levels[level], cardinality=2, uplinks=1, network="switch"
                )
                alone = CostModel(Hierarchy("pair", (pair,)))
                copy = Instruction(Pattern(0, 1), Collective.BROADCAST)
                return alone.instruction_time_s(((2,),), (0,), copy, 1.0, 1.0, size_bytes)
        return 0.0

    def _group_time_s(self, collective: str, n_members: int, stride: int, size_bytes: float) -> float:
        if n_members == 1:
            return 0.0
        axes = (self.n_ranks // (n_members * stride), n_members, stride)
        matrix = default_matrix(self.hierarchy.cardinalities, axes)
        if collective == ALL_TO_ALL:
            return all_to_all_time_s(self.hierarchy, matrix, (1,), size_bytes)
        if collective == BARRIER:
            collective, size_bytes = "all_reduce", 0.0
        kind = _COLLECTIVES[collective]
        before = 1.0 / n_members if kind is Collective.ALL_GATHER else 1.0
        after = 1.0 / n_members if kind is Collective.REDUCE_SCATTER else 1.0
        everyone = Instruction(Pattern(0, len(reduction_factors(matrix, (1,)))), kind)
        return self._model.instruction_time_s(matrix, (1,), everyone, before, after, size_bytes)


def group_shape(ranks: Sequence[int], n_ranks: int) -> tuple[int, int]:
    """Return the size and the stride of the group whose time a group of ranks takes.

    The size is the next one that divides the number of ranks. Ranks at equal differences inside one group of
    parallel axes have their difference as stride. Any other group counts as one that is spread over the whole
    system, which is no faster.
    """
    size = next(size for size in range(len(ranks), n_ranks + 1) if n_ranks % size == 0)
    first, step = ranks[0], ranks[1] - ranks[0] if len(ranks) > 1 else 1
    regular = step > 0 and all(rank == first + place * step for place, rank in enumerate(ranks))
    if regular and n_ranks % (size * step) == 0 and first // step % size + len(ranks) <= size:
        return size, step
    return size, n_ranks // size


def system_of(name: str, n_ranks: int) -> Hierarchy:
    """Return as many nodes of a preset as some ranks need, or a node with fewer devices.

    Args:
        name: One of :func:`~sysgym.emulator.accelerators.presets.list_presets`.
        n_ranks: Number of ranks; whole nodes, or part of one.

    Raises:
        UnknownName: There is no such preset.
        SysgymError: The ranks do not fill their nodes.
    """
    node = get_preset(name, 1)
    n_inside = node.n_devices
    if n_ranks >= n_inside:
        if n_ranks % n_inside:
            raise SysgymError(
                f"{n_ranks} ranks do not fill nodes of {n_inside} devices of {name}: expected a multiple"
            )
        return get_preset(name, n_ranks // n_inside)
    inner = dataclasses.replace(node.levels[-1], cardinality=n_ranks)
    return Hierarchy(f"{name}, {n_ranks} devices", (inner,), node.references)
