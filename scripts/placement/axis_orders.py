"""Compare the best placements of the same axes in all their orders.

    python scripts/placement/axis_orders.py p2-systems placement-unseen

A placement's matrix numbers the devices of a level in the order of the axes, so the best matrix can depend on
that order, which no action changes. Prints in how many of the first test episodes it does, on which systems,
the greatest ratio of the best times of two orders, and how much slower the best placement in the order of the
episode is than in the best order, as a mean of ln(time / time) over all episodes.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections import Counter
from statistics import fmean

from sysgym.emulator.accelerators.cost.model import CostModel
from sysgym.emulator.accelerators.problem import PlacementProblem
from sysgym.emulator.accelerators.problem_draws import draw_problem
from sysgym.scenarios import load_scenario
from sysgym.scenarios.schema.placement import PlacementScenario

SAME = 1e-6
"""Ratio of times, less 1, up to which two orders count as equal."""


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="+")
    parser.add_argument("--episodes", type=int, default=100)
    given = parser.parse_args()
    for name in given.scenarios:
        scenario = load_scenario(name, expect=PlacementScenario)
        first = scenario.splits["test"].first_seed
        problems = [draw_problem(scenario, "test", first + index) for index in range(given.episodes)]
        best_s = [best_times_s(problem, scenario.problem.algorithm) for problem in problems]
        ratios = [max(times_s) / min(times_s) for times_s in best_s]
        lost = [math.log(times_s[0] / min(times_s)) for times_s in best_s]
        systems = Counter(
            problem.hierarchy.name
            for problem, ratio in zip(problems, ratios, strict=True)
            if ratio > 1 + SAME
        )
        print(
            f"{name}: the optimum depends on the order of the axes in {systems.total()} of {given.episodes}"
            f" episodes ({', '.join(f'{system} {count}' for system, count in systems.items())}), by up to"
            f" {max(ratios):.2f} x; the episode's order is not the best in"
            f" {sum(one > SAME for one in lost)}, and loses {fmean(lost):.4f} on average"
        )


def best_times_s(problem: PlacementProblem, algorithm: str) -> list[float]:
    """Return the time of the best placement of the axes in each order, the given one first."""
    model = CostModel(problem.hierarchy, algorithm)
    orders = itertools.permutations(range(problem.n_axes))
    return [model.best_placement(problem.reordered(order))[1] for order in orders]


if __name__ == "__main__":
    main()
