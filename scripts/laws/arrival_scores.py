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
from contextlib import closing
from typing import Any

import numpy as np

from sysgym.agents.congestion.max import MaxAgent
from sysgym.bench.leaderboard.power import CLASSICS, log_power
from sysgym.bench.run.episodes import play
from sysgym.bench.tables import markdown_table
from sysgym.cli.parallel import in_parallel
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.scenarios import CongestionScenario, load_scenario, load_suite
from sysgym.scenarios.errors import SysgymError
from sysgym.studies.neighbours import transports_of

WITH_TELEMETRY = "hpcc"
SUITE = "beyond-classics-wide"


def powers(scenario: CongestionScenario, seed: int, law: Transport) -> tuple[float, float]:
    """Return log2 of a law's power in an episode: with the whole of it, and up to the last arrival."""
    last_s = getattr(scenario.workload, "last_arrival_s", None)
    goodputs_bps: list[float] = []
    queues_bytes: list[float] = []
    with closing(DatacenterCC(scenario=scenario, split="test", transport=law)) as env:

        def note(step: int, info: dict[str, Any]) -> None:
            if not queues_bytes:
                goodputs_bps.append(info["metrics"]["goodput_bps"])
                if last_s is not None and env.network.now_s >= last_s * (1.0 - 1e-9):
                    ports = env.network.queue_quantile_bytes(0.99)[env.fabric.port_links]
                    queues_bytes.append(float(ports.max()))

        metrics = play(env, MaxAgent(), seed, note).info["episode_metrics"]
    slowdown = metrics.get("fct_slowdown_p99", 1.0)
    whole = log_power(metrics["goodput_bps"], metrics["queue_p99_bytes"], slowdown)
    if not queues_bytes:
        return whole, whole
    return whole, log_power(np.mean(goodputs_bps), queues_bytes[0], slowdown)


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
