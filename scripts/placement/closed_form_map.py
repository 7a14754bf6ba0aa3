"""Map where the closed form of an all-reduce parts from its simulation as flows.

    python scripts/placement/closed_form_map.py

Prints four Markdown tables of the ratio of both times, least and greatest, by algorithm and by size of the
vector. Reductions are over at least two levels:

1. The presets with two and four nodes (GB200: two racks), under all placements of one or two axes of which
   one is reduced.
2. The same under all placements of three axes, of which the first and the last are reduced.
3. Drawn systems of at most 48 devices, of the train split of placement-unseen, under 30 random placements
   each, with one or two reduced axes; without trees.
4. Systems of 16 devices with two or three levels, by whether levels inside are slower than those outside.
   Bandwidths of a device and latencies differ by up to 10 from level to level, in both directions; the
   outermost level has 10 GB/s for a device and 10 us.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict

from sysgym.bench.tables import markdown_table
from sysgym.emulator.accelerators.cost.model import CostModel
from sysgym.emulator.accelerators.flows.collective import program_time_s
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.matrices import (
    Matrix,
    enumerate_matrices,
    matrix_of_steps,
    prime_steps,
    reduction_factors,
)
from sysgym.emulator.accelerators.presets import get_preset, list_presets
from sysgym.emulator.accelerators.problem import Reduction
from sysgym.emulator.accelerators.problem_draws import draw_hierarchy
from sysgym.emulator.accelerators.programs import parse_program
from sysgym.scenarios.schema.placement import System

CARDINALITIES = ((4, 4), (2, 8), (2, 2, 4))
RATIOS = (0.1, 1.0, 10.0)
"""Bandwidth or latency of a level over that of the next one outside."""
SIZES = {"0.1 MB": 1e5, "1 MB": 1e6, "10 MB": 1e7, "1 GB": 1e9}
ALGORITHMS = ("ring", "halving_doubling", "tree")
ORDERS = ("none slower", "longer hops inside", "lower bandwidth inside", "both")
AXES = (8, 2)
DRAWN_SYSTEMS, DRAWN_PLACEMENTS, MOST_DRAWN_DEVICES = 300, 30, 48
PRESET_AXES = (1, 2, 4)
"""Devices that differ along the other axis of a placement on a preset."""
NODES = {"gb200-nvl72": (2,)}
"""Outermost instances of presets with large ones; others have two and four."""


Ratios = defaultdict[tuple[str, str, str], list[float]]


def main() -> None:
    """Compare and print."""
    print(table("system", on_presets()), end="\n\n")
    print(table("system, two axes", on_presets(pairs=True)), end="\n\n")
    print(table("drawn systems", on_drawn_systems()), end="\n\n")
    print(table("levels inside", on_drawn_levels()))


def on_presets(*, pairs: bool = False) -> Ratios:
    """Return the ratios on presets, by algorithm, name and size.

    Args:
        pairs: Whether two axes are reduced, of which one has two members, with another axis between them.
    """
    found: Ratios = defaultdict(list)
    for name in list_presets():
        for nodes in NODES.get(name, (2, 4)) if name != "single" else ():
            hierarchy = get_preset(name, nodes)
            for other in PRESET_AXES:
                axes: tuple[int, ...] = (hierarchy.n_devices // other, other)
                if pairs:
                    axes = (2, *reversed(axes[1:]), axes[0] // 2)
                for matrix in enumerate_matrices(hierarchy.cardinalities, axes):
                    compare(found, name, hierarchy, matrix, (0, 2) if pairs else (0,))
    return found


def on_drawn_systems() -> Ratios:
    """Return the ratios on drawn systems, by algorithm, network and size."""
    found: Ratios = defaultdict(list)
    rng = random.Random(0)
    for seed in range(DRAWN_SYSTEMS):
        hierarchy = draw_hierarchy(System(preset="drawn"), seed)
        if hierarchy.n_devices > MOST_DRAWN_DEVICES:
            continue
        rings = any(level.network == "ring" for level in hierarchy.levels)
        steps = prime_steps(hierarchy.cardinalities)
        for _ in range(DRAWN_PLACEMENTS):
            n_axes = rng.choice((2, 3))
            matrix = matrix_of_steps(
                hierarchy.cardinalities, n_axes, rng.choices(range(n_axes), k=len(steps))
            )
            reduced = tuple(sorted(rng.sample(range(n_axes), rng.choice((1, 2)))))
            compare(
                found,
                "some level a ring" if rings else "switches",
                hierarchy,
                matrix,
                reduced,
                ALGORITHMS[:2],
            )
    return found


def on_drawn_levels() -> Ratios:
    """Return the ratios on systems of 16 devices, by algorithm, order of the levels and size."""
    found: Ratios = defaultdict(list)
    for cardinalities, faster, later, shared in itertools.product(
        CARDINALITIES, RATIOS, RATIOS, (False, True)
    ):
        hierarchy = system(cardinalities, faster, later, shared=shared)
        order = ORDERS[2 * (faster < 1.0) + (later > 1.0)]
        for matrix in enumerate_matrices(cardinalities, AXES):
            compare(found, order, hierarchy, matrix)
    return found


def compare(
    found: Ratios,
    name: str,
    hierarchy: Hierarchy,
    matrix: Matrix,
    reduced: tuple[int, ...] = (0,),
    algorithms: tuple[str, ...] = ALGORITHMS,
) -> None:
    """Add the ratios of an all-reduce over some axes, if it spans more than one level."""
    factors = reduction_factors(matrix, reduced)
    if len(factors) < 2:
        return
    program = parse_program("all:AR", len(factors))
    powers = all(factor & (factor - 1) == 0 for _, factor in factors)
    for (size, size_bytes), algorithm in itertools.product(SIZES.items(), algorithms):
        if algorithm == "halving_doubling" and not powers:
            continue
        reduction = Reduction(reduced, size_bytes)
        closed_s = CostModel(hierarchy, algorithm).program_time_s(matrix, reduction, program)
        flows_s = program_time_s(hierarchy, matrix, reduction, program, algorithm)
        found[algorithm, name, size].append(closed_s / flows_s)


def table(title: str, found: Ratios) -> str:
    """Return the least and greatest ratios as a Markdown table."""
    names = list(dict.fromkeys(name for _, name, _ in found))
    rows = []
    for algorithm, name in itertools.product(ALGORITHMS, names):
        ratios = [found.get((algorithm, name, size), []) for size in SIZES]
        if all(ratios):
            rows.append([algorithm, name, *(f"{min(one):.2f} to {max(one):.2f}" for one in ratios)])
    return markdown_table(["algorithm", title, *SIZES], rows)


def system(cardinalities: tuple[int, ...], faster: float, later: float, *, shared: bool) -> Hierarchy:
    """Return a system whose levels have a ratio of bandwidths and latencies from one to the next inside.

    Args:
        cardinalities: Cardinality of each level, outermost first.
        faster: Bandwidth of a device on a level over that on the next one outside.
        later: The same of latencies.
        shared: Whether instances have one uplink, or one for each device.
    """
    levels = []
    for index, cardinality in enumerate(cardinalities):
        inside = math.prod(cardinalities[index + 1 :])
        of_device = 10e9 * faster**index
        levels.append(
            Level(
                f"level {index}",
                cardinality,
                of_device * (inside if shared else 1),
                1e-5 * later**index,
                uplinks=1 if shared else inside,
            )
        )
    return Hierarchy("map", tuple(levels))


if __name__ == "__main__":
    main()
