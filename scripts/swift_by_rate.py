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
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.congestion.episodes import Episode
from sysgym.agents.learned.congestion.tuned_swift.search import LAW as TUNED_SWIFT
from sysgym.bench.leaderboard.power import LEAST_QUEUE_BYTES, log_powers, scores_of
from sysgym.bench.results.rows import Row, read_rows
from sysgym.bench.statistics import RESAMPLES, SEED
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.transports.swift import CONSTANTS, FLOW_SCALING_RANGE_NS, PER_HOP_NS
from sysgym.scenarios import CongestionScenario, load_scenario

Array = NDArray[np.float64]

FULL_DELAYS_BPS = 10e9
TUNED = "tuned_swift"


def main() -> None:
    """Play, score and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="results with rows of tuned_swift and its trainings")
    parser.add_argument("--law", default="adaptive_swift")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    paths = sorted((given.folder / "training").glob(f"{TUNED}*/final.json"))
    trainings = [TUNED_SWIFT.form.read(path).parameters for path in paths]
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in read_rows(given.folder):
        rows[row.scenario].append(row)
    law, tuned, scaled = [], [], []
    for scenario, of_scenario in rows.items():
        scores, best = scores_of(of_scenario)
        law.append(scores[given.law].mean())
        tuned.append(scores[TUNED].mean())
        by_rate = scaled_scores(scenario, of_scenario, best, trainings, given.threads)
        scaled.append(scores[TUNED].mean(axis=1) if by_rate is None else by_rate)
    each = np.mean(scaled, axis=0)
    print(f"{given.law} {np.mean(law):.2f}, {TUNED} {np.mean(tuned):.2f}, over {len(law)} scenarios")
    print(f"{TUNED} with delays by rate, each training: {', '.join(f'{score:.2f}' for score in each)}")
    for name, theirs in ((TUNED, tuned), (f"{TUNED} by rate", [one.mean() for one in scaled])):
        less = np.array(law) - np.array(theirs)
        low, high = interval(less)
        print(
            f"{given.law} less {name}: {less.mean():.2f}, [{low:.2f}, {high:.2f}] over scenarios drawn anew"
        )


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
        powers = list(pool.map(lambda job: power(job[1].play(job[0])), jobs))
    return np.asarray((np.reshape(powers, (len(laws), len(seeds))) - log_powers(rows)[best]).mean(axis=1))


def with_delays(parameters: Sequence[float], factor: float) -> list[float]:
    """Return constants of Swift with both delays multiplied, within their bounds."""
    changed = list(parameters)
    for place in (PER_HOP_NS, FLOW_SCALING_RANGE_NS):
        changed[place] = max(parameters[place] * factor, CONSTANTS[place].least)
    return changed


def power(metrics: dict[str, float]) -> float:
    """Return log2 of the power of an episode."""
    found = np.log2(metrics["goodput_bps"]) - np.log2(max(metrics["queue_p99_bytes"], LEAST_QUEUE_BYTES))
    return float(found - np.log2(metrics.get("fct_slowdown_p99", 1.0)))


def interval(values: Array) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a mean."""
    drawn = np.random.default_rng(SEED).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(values[drawn].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


if __name__ == "__main__":
    main()
