"""Map where the closed form of an all-reduce parts from its simulation as flows.

    python scripts/closed_form_map.py

Prints a Markdown table: the ratio of both times, least and greatest, over placements of a reduction that
spans two or three levels on systems of 16 devices, by algorithm, by size of the vector, and by whether levels
inside are slower than those outside. Bandwidths of a device and latencies differ by up to 10 from level to
level, in both directions; the outermost level has 10 GB/s for a device and 10 us.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

from sysgym.bench.tables import markdown_table
from sysgym.emulator.accelerators.cost.model import CostModel
from sysgym.emulator.accelerators.flows.collective import program_time_s
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level
from sysgym.emulator.accelerators.matrices import enumerate_matrices, reduction_factors
from sysgym.emulator.accelerators.problem import Reduction
from sysgym.emulator.accelerators.programs import parse_program

CARDINALITIES = ((4, 4), (2, 8), (2, 2, 4))
RATIOS = (0.1, 1.0, 10.0)
"""Bandwidth or latency of a level over that of the next one outside."""
SIZES = {"0.1 MB": 1e5, "10 MB": 1e7, "1 GB": 1e9}
ALGORITHMS = ("ring", "halving_doubling", "tree")
ORDERS = ("none slower", "longer hops inside", "lower bandwidth inside", "both")
AXES = (8, 2)


def main() -> None:
    """Compare and print."""
    found: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for cardinalities, faster, later, shared in itertools.product(
        CARDINALITIES, RATIOS, RATIOS, (False, True)
    ):
        hierarchy = system(cardinalities, faster, later, shared=shared)
        order = ORDERS[2 * (faster < 1.0) + (later > 1.0)]
        for matrix in enumerate_matrices(cardinalities, AXES):
            n_levels = len(reduction_factors(matrix, (0,)))
            if n_levels < 2:
                continue
            program = parse_program("all:AR", n_levels)
            for (size, size_bytes), algorithm in itertools.product(SIZES.items(), ALGORITHMS):
                reduction = Reduction((0,), size_bytes)
                closed_s = CostModel(hierarchy, algorithm).program_time_s(matrix, reduction, program)
                flows_s = program_time_s(hierarchy, matrix, reduction, program, algorithm)
                found[algorithm, order, size].append(closed_s / flows_s)
    rows = []
    for algorithm, order in itertools.product(ALGORITHMS, ORDERS):
        ratios = [found[algorithm, order, size] for size in SIZES]
        rows.append([algorithm, order, *(f"{min(one):.2f} to {max(one):.2f}" for one in ratios)])
    print(markdown_table(["algorithm", "levels inside", *SIZES], rows))


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
