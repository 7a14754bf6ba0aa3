"""Score laws by the p99 queue and the goodput of the time in which flows arrive.

    python scripts/laws/arrival_scores.py adaptive_swift
    python scripts/laws/arrival_scores.py one=adaptive_swift@LAW.json two=tuned_swift@LAW.json

In scenarios that go on until flows have ended, much of an episode has no arrivals, and an empty network in it
shortens the p99 queue of all laws, the more, the sooner flows end. Plays the laws, the classics and HPCC on
the scenarios and seeds of beyond-classics-wide, and prints mean scores (docs/beyond-classics.md) with the
queue and goodput of the whole episode, and with those up to the last arrival. Laws are named as contenders of
a benchmark are.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from sysgym.agents.learned.congestion.episodes import Episode
from sysgym.bench.leaderboard.power import CLASSICS, log_power
from sysgym.bench.tables import markdown_table
from sysgym.cli.parallel import in_parallel
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.envs.congestion.random_networks import SPLIT
from sysgym.scenarios import CongestionScenario, load_scenario, load_suite
from sysgym.scenarios.errors import SysgymError
from sysgym.studies.laws import transports_of
from sysgym.studies.random_networks.study import WITH_TELEMETRY

SUITE = "beyond-classics-wide"


def powers(scenario: CongestionScenario, seed: int, law: Transport) -> list[float]:
    """Return log2 of a law's power in an episode: with the whole of it, and up to the last arrival."""
    whole, of_arrivals = Episode(scenario, SPLIT, seed).play_by_parts(law)
    slowdown = whole.get("fct_slowdown_p99", 1.0)
    return [log_power(one["goodput_bps"], one["queue_p99_bytes"], slowdown) for one in (whole, of_arrivals)]


def main() -> None:
    """Play, score and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("laws", nargs="+", help="laws, as contenders: NAME, or NAME=AGENT@CHECKPOINT")
    given = parser.parse_args()
    try:
        laws = {name: get_transport(name) for name in (*CLASSICS, WITH_TELEMETRY)}
        laws |= transports_of(given.laws, "dumbbell-10g")
        scores: dict[str, list[Any]] = {name: [] for name in laws}
        for task in load_suite(SUITE).tasks:
            scenario = load_scenario(task.scenario, expect=CongestionScenario)
            seeds = task.seed_values
            jobs = [(scenario, seed, law) for law in laws.values() for seed in seeds]
            played = in_parallel(lambda job: powers(*job), jobs, task.scenario)
            means = np.array(played).reshape(len(laws), len(seeds), 2).mean(axis=1)
            best = means[: len(CLASSICS)].max(axis=0)
            for name, mean in zip(laws, means, strict=True):
                scores[name].append(mean - best)
    except SysgymError as error:
        sys.exit(f"error: {error}")
    rows = [[name, *(f"{score:.2f}" for score in np.mean(found, axis=0))] for name, found in scores.items()]
    print(markdown_table(["law", ">score, whole episodes", ">up to the last arrival"], rows))


if __name__ == "__main__":
    main()
