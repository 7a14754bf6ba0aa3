"""Placement problems: a hierarchy, axes of parallelism on it, and the reductions over them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.matrices import check_axes, check_reduce_axes
from sysgym.scenarios.errors import Problem, ScenarioError


@dataclass(frozen=True)
class Reduction:
    """A reduction of a program over one or more axes.

    Attributes:
        axes: Indices of the axes that are reduced, ascending.
        size_bytes: Bytes of the vector on each device, S in the cost formulas; may be 0.
    """

    axes: tuple[int, ...]
    size_bytes: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(sorted(self.axes)))


@dataclass(frozen=True)
class PlacementProblem:
    """Axes to be placed on a hierarchy, and the reductions over them; validated when created.

    Attributes:
        hierarchy: The devices.
        axes: Size of each axis; the product is the number of devices.
        reductions: Reductions in the order in which they run.

    Raises:
        ScenarioError: The product of the axes is not the number of devices, a reduction is over an axis that
            does not exist, or its size is negative or not finite.
    """

    hierarchy: Hierarchy
    axes: tuple[int, ...]
    reductions: tuple[Reduction, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(int(size) for size in self.axes))
        object.__setattr__(self, "reductions", tuple(self.reductions))
        check_axes(self.hierarchy.cardinalities, self.axes)
        if problems := tuple(self._problems()):
            raise ScenarioError(f"<placement on {self.hierarchy.name}>", problems=problems)

    @property
    def n_axes(self) -> int:
        """Number of axes."""
        return len(self.axes)

    def reordered(self, order: Sequence[int]) -> PlacementProblem:
        """Return the same problem with its axes in another order.

        Placements can differ in time, because devices of a level are numbered in the order of the axes; see
        :mod:`~sysgym.emulator.accelerators.matrices`.

        Args:
            order: Every axis once: the present index of each axis of the result.

        Raises:
            ScenarioError: An axis is missing, or given twice.
        """
        if sorted(order) != list(range(self.n_axes)):
            expected = f"each axis from 0 to {self.n_axes - 1} once"
            raise ScenarioError(f"<placement on {self.hierarchy.name}>", "order", list(order), expected)
        place = {axis: index for index, axis in enumerate(order)}
        return PlacementProblem(
            self.hierarchy,
            tuple(self.axes[axis] for axis in order),
            tuple(
                Reduction(tuple(place[axis] for axis in reduction.axes), reduction.size_bytes)
                for reduction in self.reductions
            ),
        )

    def _problems(self) -> Iterator[Problem]:
        if not self.reductions:
            yield Problem("reductions", [], "at least one reduction")
        for index, reduction in enumerate(self.reductions):
            place = f"reductions[{index}]"
            try:
                check_reduce_axes(self.n_axes, reduction.axes)
            except ScenarioError as error:
                yield Problem(f"{place}.axes", list(reduction.axes), error.expected)
            if not (math.isfinite(reduction.size_bytes) and reduction.size_bytes >= 0):
                yield Problem(f"{place}.size_bytes", reduction.size_bytes, "a finite number, at least 0")
