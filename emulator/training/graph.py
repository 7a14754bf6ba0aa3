"""Dependencies of the operations of a step: edges, and groups that meet.

An operation starts when all its predecessors have ended. The members of a group, such as a send and its
receive, or the all-reduce of several ranks, wait for each other: each ends a time of its own after the last
member has started. This is the global data-flow graph of dPRO (Hu et al., MLSys 2022) with rendezvous.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import numpy as np

from sysgym.emulator.training.operations import IntArray
from sysgym.scenarios.errors import SysgymError

Edge = tuple[int, int]


@dataclass(frozen=True)
class Graph:
    """Operations in an order in which every one comes after its predecessors.

    A *place* is a position in this order. Members of a group have adjacent places.

    Attributes:
        operation_at: Operation at each place, int64 [n].
        first_place: First place of each group, and n at the end; an operation without a group is one by
            itself. int64 [n_groups + 1].
        first_predecessor: Where the predecessors of each place begin, int64 [n + 1].
        predecessors: Their places, int64 [n_edges].
    """

    operation_at: IntArray
    first_place: IntArray
    first_predecessor: IntArray
    predecessors: IntArray

    @classmethod
    def of(cls, n_operations: int, edges: Iterable[Edge], groups: Iterable[Sequence[int]]) -> Graph:
        """Return the graph of some operations.

        Args:
            n_operations: Number of operations; they are numbered from 0.
            edges: Pairs (before, after).
            groups: Operations that meet.

        Raises:
            SysgymError: If operations wait for each other in a circle, or one is in two groups.
        """
        group_of = list(range(n_operations))
        members: dict[int, list[int]] = {operation: [operation] for operation in range(n_operations)}
        for group in groups:
            first = group[0]
            for operation in group[1:]:
                if group_of[operation] != operation or len(members[operation]) > 1:
                    raise SysgymError(f"operation {operation} is in two groups")
                group_of[operation] = first
                members[first].append(operation)
                del members[operation]
        before: list[list[int]] = [[] for _ in range(n_operations)]
        sorter: TopologicalSorter[int] = TopologicalSorter({group: () for group in members})
        for source, target in dict.fromkeys(edges):
            before[target].append(source)
            sorter.add(group_of[target], group_of[source])
        try:
            order = list(sorter.static_order())
        except CycleError as error:
            circle = " -> ".join(map(str, error.args[1]))
            raise SysgymError(f"operations wait for each other in a circle: {circle}") from error
        operation_at = np.array([one for group in order for one in members[group]], np.int64)
        place_of = np.empty(n_operations, np.int64)
        place_of[operation_at] = np.arange(n_operations)
        counts = [len(before[operation]) for operation in operation_at]
        return cls(
            operation_at,
            np.cumsum([0, *(len(members[group]) for group in order)]),
            np.cumsum([0, *counts]),
            place_of[np.array([one for operation in operation_at for one in before[operation]], np.int64)],
        )

    @property
    def n_operations(self) -> int:
        """Number of operations."""
        return len(self.operation_at)

    @property
    def place_of(self) -> IntArray:
        """Place of each operation, int64 [n]."""
        places = np.empty_like(self.operation_at)
        places[self.operation_at] = np.arange(len(places))
        return places

    @property
    def group_of(self) -> IntArray:
        """Number of each operation's group, int64 [n]."""
        by_place = np.repeat(np.arange(len(self.first_place) - 1), np.diff(self.first_place))
        groups: IntArray = by_place[self.place_of]
        return groups

    def edges(self) -> set[Edge]:
        """Return the edges as pairs of operations."""
        after = np.repeat(np.arange(self.n_operations), np.diff(self.first_predecessor))
        sources, targets = self.operation_at[self.predecessors], self.operation_at[after]
        return set(zip(sources.tolist(), targets.tolist(), strict=True))

    def groups(self) -> set[frozenset[int]]:
        """Return the groups with at least two members."""
        parts = np.split(self.operation_at, self.first_place[1:-1])
        return {frozenset(part.tolist()) for part in parts if len(part) > 1}
