"""Score tuned Swift with delays that fit the rate, to see what of a law's lead over it is a matter of units.

    python scripts/swift_by_rate.py results/beyond-classics-wide --law adaptive_swift

Swift's two delays are constants in nanoseconds (``per_hop_ns`` and ``flow_scaling_range_ns``). A rule of one
line divides both by the rate over 10 Gb/s, where the rate is higher. The faster scenarios of a results folder
are played again with it, on the same seeds; of the others the rows stand. Prints the mean scores (see
``scripts/power_scores.py``) of each training of tuned Swift so scaled, and of the law, and their difference
with an interval over scenarios drawn anew.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.congestion.episodes import Episode
from sysgym.agents.learned.congestion.tuned_swift.search import LAW as TUNED_SWIFT
from sysgym.bench.leaderboard.power import log_power, log_powers, scores_of
from sysgym.bench.results.rows import Row, read_rows
from sysgym.bench.statistics import estimate, mean
from sysgym.bench.tables import interval_text
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.transports.swift import CONSTANTS, FLOW_SCALING_RANGE_NS, PER_HOP_NS
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError

Array = NDArray[np.float64]

FULL_DELAYS_BPS = 10e9
TUNED = "tuned_swift"
METRICS = "goodput_bps", "queue_p99_bytes", "fct_slowdown_p99"


def main() -> None:
    """Play, score and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="results with rows of tuned_swift and its trainings")
    parser.add_argument("--law", default="adaptive_swift")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    try:
        compare(given.folder, given.law, given.threads)
    except SysgymError as error:
        sys.exit(f"error: {error}")


def compare(folder: Path, own: str, n_threads: int) -> None:
    """Score both laws and print the scores.

    Raises:
        SysgymError: If the folder has no rows of one of the two, or no trainings of tuned Swift.
    """
    paths = sorted((folder / "training").glob(f"{TUNED}*/final.json"))
    trainings = [TUNED_SWIFT.form.read(path).parameters for path in paths]
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in read_rows(folder):
        rows[row.scenario].append(row)
    law, tuned, scaled = [], [], []
    for scenario, of_scenario in rows.items():
        scores, best = scores_of(of_scenario)
        if not trainings or not {own, TUNED} <= set(scores):
            raise SysgymError(
                f"{folder}: {scenario}: expected rows of {own} and {TUNED}, and trainings of {TUNED};"
                f" there are {len(trainings)} trainings, and rows of {', '.join(scores)}"
            )
        law.append(scores[own].mean())
        tuned.append(scores[TUNED].mean())
        by_rate = scaled_scores(scenario, of_scenario, best, trainings, n_threads)
        scaled.append(scores[TUNED].mean(axis=1) if by_rate is None else by_rate)
    each = np.mean(scaled, axis=0)
    print(f"{own} {np.mean(law):.2f}, {TUNED} {np.mean(tuned):.2f}, over {len(law)} scenarios")
    print(f"{TUNED} with delays by rate, each training: {', '.join(f'{score:.2f}' for score in each)}")
    for name, theirs in ((TUNED, tuned), (f"{TUNED} by rate", [one.mean() for one in scaled])):
        less = estimate(np.array([law]) - np.array([theirs]), statistic=mean)
        print(f"{own} less {name}: {interval_text(less, 2)} over scenarios drawn anew")


def scaled_scores(
    name: str, rows: list[Row], best: str, trainings: Sequence[Sequence[float]], n_threads: int
) -> Array | None:
    """Return the score of every training with delays that fit the rate, or None if they are the same."""
    scenario = load_scenario(name, expect=CongestionScenario)
    factor = FULL_DELAYS_BPS / float(build_topology(scenario.topology).link_rate_bps.max())
    if factor >= 1.0:
        return None
    seeds = sorted({row.seed for row in rows})
    laws = [TUNED_SWIFT.form.transport(with_delays(parameters, factor)) for parameters in trainings]
    jobs = [(law, Episode(scenario, rows[0].split, seed)) for law in laws for seed in seeds]
    with ThreadPoolExecutor(n_threads) as pool:
        played = list(pool.map(lambda job: job[1].play(job[0]), jobs))
    powers = [log_power(*(one[name] for name in METRICS if name in one)) for one in played]
    return np.asarray((np.reshape(powers, (len(laws), len(seeds))) - log_powers(rows)[best]).mean(axis=1))


def with_delays(parameters: Sequence[float], factor: float) -> list[float]:
    """Return constants of Swift with both delays multiplied, within their bounds."""
    changed = list(parameters)
    for place in (PER_HOP_NS, FLOW_SCALING_RANGE_NS):
        changed[place] = max(parameters[place] * factor, CONSTANTS[place].least)
    return changed


if __name__ == "__main__":
    main()
