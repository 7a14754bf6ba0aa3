"""Random systems and placements for property tests."""

from __future__ import annotations

import math
from typing import NamedTuple

from hypothesis import strategies as st

from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level, Network
from sysgym.emulator.accelerators.matrices import Matrix, matrix_of_steps, prime_steps, reduction_factors


class Case(NamedTuple):
    """A placement on a system, and the axes that are reduced."""

    hierarchy: Hierarchy
    matrix: Matrix
    reduce_axes: tuple[int, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        return tuple(math.prod(row) for row in self.matrix)

    @property
    def factors(self) -> tuple[int, ...]:
        return tuple(factor for _, factor in reduction_factors(self.matrix, self.reduce_axes))


@st.composite
def hierarchies(
    draw: st.DrawFn,
    cardinalities: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 12),
    networks: tuple[Network, ...] = ("switch", "ring"),
    most_devices: int = 96,
) -> Hierarchy:
    """Draw a hierarchy of one to three levels."""
    levels: list[Level] = []
    devices = 1
    for index in range(draw(st.integers(1, 3))):
        cardinality = draw(
            st.sampled_from([size for size in cardinalities if size * devices <= most_devices])
        )
        levels.append(
            Level(
                f"level {index}",
                cardinality,
                draw(st.floats(1e9, 1e12)),
                draw(st.floats(0, 1e-4)),
                draw(st.sampled_from([size for size in range(1, devices + 1) if devices % size == 0])),
                draw(st.sampled_from(networks)),
            )
        )
        devices *= cardinality
    return Hierarchy("drawn", tuple(reversed(levels)))


@st.composite
def cases(
    draw: st.DrawFn,
    cardinalities: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 12),
    networks: tuple[Network, ...] = ("switch", "ring"),
) -> Case:
    """Draw a hierarchy, one to three axes on it, and some of these as the reduced ones."""
    hierarchy = draw(hierarchies(cardinalities, networks))
    n_axes = draw(st.integers(1, 3))
    steps = prime_steps(hierarchy.cardinalities)
    chosen = draw(st.lists(st.integers(0, n_axes - 1), min_size=len(steps), max_size=len(steps)))
    matrix = matrix_of_steps(hierarchy.cardinalities, n_axes, chosen)
    reduced = draw(st.sets(st.integers(0, n_axes - 1), min_size=1))
    return Case(hierarchy, matrix, tuple(sorted(reduced)))
