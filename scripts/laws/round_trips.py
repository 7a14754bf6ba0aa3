"""Play flows with long and short round trips on one link, to see what the long ones get.

    python scripts/laws/round_trips.py adaptive_swift dctcp swift
    python scripts/laws/round_trips.py mine=adaptive_swift@LAW.json --packets-an-ack 2

On dumbbell-10g, flows of two of four hosts have a round trip, over empty queues, that is 2, 4 and 8 times
that of the others. Prints their mean goodput over that of the others, in the second half of four episodes; 1
is fair. A last row has equal round trips: the time from the last flow's start until Jain's index of a
hundredth of the episode stays at 0.95. Laws are named as contenders of a benchmark are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np

from sysgym.bench.tables import markdown_table
from sysgym.cli.parallel import in_parallel
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.topology.round_trips import longest_round_trip_s
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.workloads import scenario_flows
from sysgym.envs.congestion.sharing import measure_sharing, play_together
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError
from sysgym.studies.laws import transports_of

NETWORK = "dumbbell-10g"
RATIOS = 2, 4, 8
FLOWS_PER_PAIR = 1, 6
"""Each of the four pairs has so many flows."""

EPISODE_S = 0.5
SEEDS = range(4)
FAR_HOSTS = 0, 2


def scenario_of(ratio: float, flows_per_pair: int, packets_an_ack: int) -> CongestionScenario:
    """Return the network in which the links of some hosts have the delay for this ratio of round trips."""
    plain = load_scenario(NETWORK, expect=CongestionScenario)
    ends, links = plain.transport, plain.topology
    shortest_s = longest_round_trip_s(build_topology(links), ends.mtu_bytes, ends.ack_bytes)
    delay_s = links.link_delay_s + (ratio - 1.0) * shortest_s / 2.0
    overrides: Mapping[str, Any] = {
        "topology.overrides": [{"link": f"h{host}<->*", "delay_s": delay_s} for host in FAR_HOSTS],
        "workload.flows_per_pair": flows_per_pair,
        "transport.delayed_ack_packets": packets_an_ack,
    }
    return plain.with_overrides(overrides)


def time_to_share(scenario: CongestionScenario, law: Transport) -> str:
    """Return the mean and the largest time until flows share, or in how many episodes they do not."""
    episodes = [measure_sharing(scenario, law, law, EPISODE_S, seed) for seed in SEEDS]
    times_s = [one.converged_s for one in episodes if one.converged_s is not None]
    if len(times_s) < len(episodes):
        return f"not in {len(episodes) - len(times_s)} of {len(episodes)}"
    return f"{1e3 * fmean(times_s):.0f} ms ({1e3 * max(times_s):.0f})"


def share_of_far(scenario: CongestionScenario, law: Transport) -> str:
    """Return the mean goodput of flows with long round trips over that of the others, and the range."""
    topology = build_topology(scenario.topology)
    shares = []
    for seed in SEEDS:
        sources = scenario_flows(scenario, topology, np.random.default_rng(seed)).src
        far = np.isin(sources, FAR_HOSTS)
        goodput_bps = play_together(scenario, law, law, EPISODE_S, seed).settled_bps
        shares.append(float(goodput_bps[far].mean() / goodput_bps[~far].mean()))
    return f"{fmean(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})"


def main() -> None:
    """Play every law and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("laws", nargs="+", help="laws, as contenders: NAME, or NAME=AGENT@CHECKPOINT")
    parser.add_argument("--packets-an-ack", type=int, default=1, help="2: receivers delay ACKs (RFC 1122)")
    given = parser.parse_args()
    try:
        laws = transports_of(given.laws, NETWORK)
        print(table(laws, given.packets_an_ack))
    except SysgymError as error:
        sys.exit(f"error: {error}")


def table(laws: Mapping[str, Transport], packets_an_ack: int) -> str:
    """Return a row for each number of flows and ratio of round trips, in Markdown."""
    rows = [(per_pair, ratio) for per_pair in FLOWS_PER_PAIR for ratio in (*RATIOS, 1)]
    jobs = [
        (share_of_far if ratio > 1 else time_to_share, scenario_of(ratio, per_pair, packets_an_ack), law)
        for per_pair, ratio in rows
        for law in laws.values()
    ]
    cells = iter(in_parallel(lambda job: job[0](job[1], job[2]), jobs, "episodes"))
    body = []
    for per_pair, ratio in rows:
        title = f"{4 * per_pair} flows, " + (f"round trips 1 to {ratio}" if ratio > 1 else "time to share")
        body.append([title, *(next(cells) for _ in laws)])
    return markdown_table(["", *(f">{name}" for name in laws)], body)


if __name__ == "__main__":
    main()
