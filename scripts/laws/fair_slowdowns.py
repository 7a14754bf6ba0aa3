"""Compare slowdowns by size with those of flows that share all links fairly at every moment.

    python scripts/laws/fair_slowdowns.py results/beyond-classics-wide --law adaptive_swift
    python scripts/laws/fair_slowdowns.py results/entries/beyond-classics-wide/adaptive_swift

For each scenario of a results folder whose flows end and begin by themselves, computes the slowdowns under
max-min fair sharing on the seeds of its rows, without packets. Prints how far DCTCP, the law and fair sharing
are from each other, in percent: means of logarithms, with 95 % intervals (bootstrap over seeds, and over
trainings of the law). Where fair sharing is worse than DCTCP, DCTCP favours flows of that size over others.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sysgym.bench.leaderboard.power import values_of
from sysgym.bench.results.rows import Row, read_rows
from sysgym.bench.statistics import Interval, estimate, mean
from sysgym.bench.tables import interval_text, markdown_table
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.datacenter.fair_sharing import fair_slowdowns
from sysgym.envs.congestion.datacenter.metrics import slowdown_quantiles
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError

BASELINE = "dctcp"
SIZES = {
    "": "all",
    "_small": "below 100 kB",
    "_medium": "100 kB to 1 MB",
    "_large": "1 MB and more",
    "_huge": "10 MB and more",
}
LABELS = {
    f"fct_slowdown_{quantile}{size}": f"{title}, {word}"
    for size, title in SIZES.items()
    for quantile, word in (("p50", "median"), ("p99", "p99"))
}
Array = NDArray[np.float64]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="results with rows of DCTCP and of the law")
    parser.add_argument("--law", default="adaptive_swift", help="law that is compared (%(default)s)")
    given = parser.parse_args()
    rows: dict[str, list[Row]] = defaultdict(list)
    try:
        for row in read_rows(given.folder):
            rows[row.scenario].append(row)
        body = [line for name, some in rows.items() for line in lines_of(name, some, given.law)]
        if not body:
            raise SysgymError(
                f"{given.folder}: in no scenario there do all flows end and begin by themselves"
            )
    except SysgymError as error:
        sys.exit(f"error: {error}")
    heads = ["scenario", "slowdown", ">fair sharing against DCTCP, %", f">`{given.law}` against DCTCP, %"]
    print(markdown_table([*heads, f">`{given.law}` against fair sharing, %"], body))


def lines_of(name: str, rows: list[Row], law: str) -> list[list[str]]:
    """Return a line for each median and p99, of all flows and by size; none where flows do not end."""
    scenario = load_scenario(name, expect=CongestionScenario)
    if scenario.workload.kind != "poisson" or scenario.workload.last_arrival_s is None:
        return []
    missing = {BASELINE, law} - {row.contender.name for row in rows}
    if missing:
        raise SysgymError(f"{name}: no rows of {', '.join(sorted(missing))}")
    fair = fair_values(scenario, rows[0].split, sorted({row.seed for row in rows}))
    lines = []
    for metric, theirs in fair.items():
        values = values_of(rows, metric)
        ours, base = np.log(values[law]), np.log(values[BASELINE])
        differences = (np.log(theirs) - base, ours - base, ours - np.log(theirs))
        lines.append([f"`{name}`", LABELS[metric], *map(_percent, differences)])
    return lines


def fair_values(scenario: CongestionScenario, split: str, seeds: list[int]) -> Mapping[str, Array]:
    """Return quantiles of slowdowns under fair sharing, by metric, each of shape (1, n_seeds)."""
    found: dict[str, list[float]] = defaultdict(list)
    env = DatacenterCC(scenario=scenario, split=split)
    for seed in seeds:
        env.reset(options={"episode_seed": seed})
        slowdowns = fair_slowdowns(env.network, env.fabric)
        sizes = env.network.schedule.size_bytes
        for metric, value in slowdown_quantiles(slowdowns, sizes, drained=True).items():
            found[metric].append(value)
    env.close()
    return {metric: np.array([values]) for metric, values in found.items() if len(values) == len(seeds)}


def _percent(logarithms: Array) -> str:
    """Return the mean change with its interval, in percent."""
    interval = estimate(logarithms, statistic=mean)
    return interval_text(Interval(*(100.0 * np.expm1(one) for one in interval)), 2)


if __name__ == "__main__":
    main()
