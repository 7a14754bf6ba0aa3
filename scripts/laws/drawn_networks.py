"""Compare congestion control laws on networks drawn at random: scores, dominance, and slowdowns by size.

    python scripts/laws/drawn_networks.py adaptive_swift --networks 200
    python scripts/laws/drawn_networks.py a=adaptive_swift@ONE.json b=adaptive_swift@OTHER.json --networks 200
    python scripts/laws/drawn_networks.py adaptive_swift --networks 40 --seed 9 --rows rows.json

A suite has few networks, and a law's designer has seen them. These are drawn anew: fat trees, leaf-spine
networks and dumbbells on which flows begin by themselves, and incasts of 4 to 256 senders; 20 Mb/s to
400 Gb/s, base round trips of 4 us to 10 ms and 2 to 1,500 packets, buffers of 40 to 2,000 packets. Some mark
nothing, lose packets at random, delay packets by a jitter, or have receivers that delay ACKs. Every law plays
one episode on each network, until the flows have ended.

The score is that of docs/beyond-classics.md: log2 of power (goodput over p99 queue and p99 slowdown) over
that of the best of eight classics on the same network. Besides these, HPCC plays, and Swift by rate, whose
two delays are divided by the rate over 10 Gb/s, where the rate is higher. Prints scores, their difference
from those of both Swifts, on how many networks a classic is ahead in goodput, p99 queue and p99 slowdown at
once, and the share of flows that ended; the difference from Swift on some of the networks; and slowdowns by
size against DCTCP's. With ``--fair`` these are computed for flows that share all links fairly at every
moment, too; with ``--rows`` the metrics of all episodes are written. Brackets are 95 % intervals over
networks drawn anew. Laws are named as contenders of a benchmark are.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.congestion.episodes import Episode
from sysgym.agents.learned.congestion.law_search.lessons import log_uniform
from sysgym.bench.leaderboard.power import CLASSICS, LEAST_QUEUE_BYTES, log_power
from sysgym.bench.statistics import Interval, estimate, mean
from sysgym.bench.tables import interval_text, markdown_table
from sysgym.cli.parallel import in_parallel
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.packets.transports.swift import (
    CONSTANTS,
    FLOW_SCALING_RANGE_NS,
    PER_HOP_NS,
    swift_transport,
)
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.datacenter.fair_sharing import fair_slowdowns
from sysgym.envs.congestion.datacenter.metrics import slowdown_quantiles
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.files import write_atomically
from sysgym.studies.neighbours import transports_of

Array: TypeAlias = NDArray[np.float64]
Metrics: TypeAlias = Mapping[str, float]
Law: TypeAlias = Callable[["Network"], Transport]

BASELINE, RIVAL, WITH_TELEMETRY = "dctcp", "swift", "hpcc"
BY_RATE, FAIR = "swift by rate", "fair sharing"
REFERENCES = (*CLASSICS, WITH_TELEMETRY, BY_RATE)
FULL_DELAYS_BPS = 10e9
PACKET_BITS = 12_000
STEPS = 100
"""Decision intervals of an episode; laws decide nothing in them."""

MOST_PATH_PACKETS = 1500.0
SIZES = "websearch", "facebook-hadoop", "alibaba-storage"
SPLIT = "test"
EQUAL = 0.001
"""Relative difference that counts as none."""
CLEAR = 0.05
"""Relative difference from which a slowdown counts as worse, or as better."""

CLASSES = {"": "all flows", "_small": "below 100 kB", "_medium": "to 1 MB", "_large": "1 MB and more",
           "_huge": "10 MB and more"}  # fmt: skip
QUANTILES = {"p50": "median", "p99": "p99"}


class Network(NamedTuple):
    """Network that was drawn.

    Attributes:
        kind: Form of the network, or ``incast``.
        episode: The episode on it.
    """

    kind: str
    episode: Episode

    @property
    def rate_bps(self) -> float:
        """Rate of the links of hosts."""
        return self.episode.scenario.topology.link_rate_bps


class Line(NamedTuple):
    """Line of a network.

    Attributes:
        rate_bps: Rate of the links of hosts.
        rtt_s: Base round trip.
    """

    rate_bps: float
    rtt_s: float

    @property
    def packet_s(self) -> float:
        """Time that a packet takes, s."""
        return PACKET_BITS / self.rate_bps


def draw_line(rng: np.random.Generator) -> Line:
    """Return a rate and a round trip of 2 to 1,500 packets."""
    while True:
        line = Line(log_uniform(rng, 20e6, 400e9), log_uniform(rng, 4e-6, 10e-3))
        if 2.0 <= line.rtt_s / line.packet_s <= MOST_PATH_PACKETS:
            return line


def draw_changes(line: Line, links: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return what all kinds of networks have: line, buffers, marks, receivers, losses and jitter.

    Args:
        line: Rate and round trip.
        links: Links of the longest path, one way.
        rng: Generator.
    """
    least_rto_s = max(1e-3, 10.0 * line.rtt_s, 40.0 * line.packet_s) * log_uniform(rng, 1.0, 5.0)
    buffer_bytes = int(log_uniform(rng, 40.0, 2000.0) * PACKET_BITS / 8)
    unmarked = rng.random() < 0.15
    return {
        "topology.link_rate_bps": line.rate_bps,
        "topology.link_delay_s": line.rtt_s / (2 * links),
        "topology.link_jitter_s": log_uniform(rng, 1e-7, 2e-6) if rng.random() < 0.25 else 0.0,
        "queue.buffer_bytes": buffer_bytes,
        "queue.ecn_threshold_bytes": int(buffer_bytes * (1.0 if unmarked else rng.uniform(0.05, 0.5))),
        "transport.min_rto_s": least_rto_s,
        "transport.delayed_ack_packets": int(rng.choice([1, 1, 2])),
        "transport.delayed_ack_timeout_s": least_rto_s / 4,
        "transport.max_window_packets": 65_536,
        "faults.loss_probability": log_uniform(rng, 1e-5, 1e-3) if rng.random() < 0.2 else 0.0,
    }


def draw_fabric(scenario: str, links: int, paths: int, rng: np.random.Generator) -> CongestionScenario:
    """Return a network on which flows begin by themselves.

    Args:
        scenario: Scenario that is varied.
        links: Links of the longest path, one way.
        paths: Hosts that share the tightest links at a load of one.
        rng: Generator.
    """
    line = draw_line(rng)
    arrivals_s = log_uniform(rng, 10e3, 40e3) * line.packet_s + 20.0 * line.rtt_s
    duration_s = 6.0 * arrivals_s + 200.0 * line.rtt_s
    changes = {
        **draw_changes(line, links, rng),
        "workload.load": float(rng.uniform(0.2, 0.65)) / paths,
        "workload.flow_sizes": str(rng.choice(SIZES)),
        "workload.last_arrival_s": arrivals_s,
        "control.decision_interval_s": duration_s / STEPS,
        "control.episode_steps": STEPS,
    }
    if scenario == LEAF_SPINE:  # eight hosts and two uplinks of a leaf
        oversubscription = float(rng.choice([1.0, 2.0]))
        changes["topology.uplink_rate_bps"] = 4.0 * line.rate_bps / oversubscription
        changes["workload.load"] /= oversubscription
    return load_scenario(scenario, expect=CongestionScenario).with_overrides(changes)


def draw_incast(rng: np.random.Generator) -> CongestionScenario:
    """Return an incast of 4 to 256 senders."""
    line = draw_line(rng)
    senders = int(log_uniform(rng, 4.0, 256.99))
    burst_packets = log_uniform(rng, 200.0, 4000.0)
    request_bytes = max(int(burst_packets * 1460 / senders), 1460)
    burst_s = senders * -(-request_bytes // 1460) * line.packet_s
    period_s = burst_s / rng.uniform(0.3, 0.8) + 2.0 * line.rtt_s
    changes = {
        **draw_changes(line, 2, rng),
        "topology.hosts": senders + 1,
        "workload.senders": senders,
        "workload.request_bytes": request_bytes,
        "workload.period_s": period_s,
        "workload.jitter_s": min(log_uniform(rng, 0.01, 1.0) * line.rtt_s, 0.2 * period_s),
        "control.decision_interval_s": 20.0 * period_s / STEPS,
        "control.episode_steps": STEPS,
    }
    return load_scenario("incast-32", expect=CongestionScenario).with_overrides(changes)


LEAF_SPINE = "leafspine-2to1-websearch-drained"
KINDS: Mapping[str, Callable[[np.random.Generator], CongestionScenario]] = {
    "fat tree": lambda rng: draw_fabric("fattree-k4-websearch-drained", 6, 1, rng),
    "leaf-spine": lambda rng: draw_fabric(LEAF_SPINE, 4, 1, rng),
    "dumbbell": lambda rng: draw_fabric("dumbbell-40g-websearch", 3, 8, rng),
    "incast": draw_incast,
}
"""Kind of network -> how it is drawn; an equal number of each."""


def draw_networks(number: int, seed: int) -> list[Network]:
    """Return networks, each from a generator of its own: more draws leave the first ones as they are."""
    networks = []
    for index in range(number):
        rng = np.random.default_rng([seed, index])
        kind = list(KINDS)[index % len(KINDS)]
        scenario = KINDS[kind](rng)
        first, last = scenario.splits[SPLIT].seeds
        networks.append(Network(kind, Episode(scenario, SPLIT, int(rng.integers(first, last + 1)))))
    return networks


def swift_by_rate(network: Network) -> Transport:
    """Return Swift whose two delays are divided by the rate over 10 Gb/s, where the rate is higher."""
    factor = min(FULL_DELAYS_BPS / network.rate_bps, 1.0)
    values = [constant.value for constant in CONSTANTS]
    for place in (PER_HOP_NS, FLOW_SCALING_RANGE_NS):
        values[place] = max(values[place] * factor, CONSTANTS[place].least)
    return swift_transport(values)


def laws_of(texts: Sequence[str]) -> dict[str, Law]:
    """Return the references and the given laws, by name.

    Raises:
        SysgymError: If a law is unknown, or has the name of a reference.
    """
    own = transports_of(texts, "dumbbell-10g")
    if taken := sorted(set(own) & set(REFERENCES)):
        raise SysgymError(f"{taken[0]} plays in any case; give the law another name: NAME={taken[0]},...")
    known = {name: get_transport(name) for name in (*CLASSICS, WITH_TELEMETRY)} | own

    def always(law: Transport) -> Law:
        return lambda network: law

    laws = {name: always(law) for name, law in known.items()}
    return {**laws, BY_RATE: swift_by_rate}


def play(laws: Mapping[str, Law], networks: Sequence[Network]) -> dict[str, list[Metrics]]:
    """Return the metrics of every law on each network."""

    def measure(job: tuple[Law, Network]) -> Metrics:
        law, network = job
        return network.episode.play(law(network))

    jobs = [(law, network) for network in networks for law in laws.values()]
    found = in_parallel(measure, jobs, "episodes")
    return {name: found[place :: len(laws)] for place, name in enumerate(laws)}


def fair_metrics(network: Network) -> Metrics:
    """Return slowdowns of flows that share all links fairly at every moment; none for an incast."""
    if network.kind == "incast":
        return {}
    with closing(DatacenterCC(scenario=network.episode.scenario, split=SPLIT)) as env:
        env.reset(options={"episode_seed": network.episode.seed})
        slowdowns = fair_slowdowns(env.network, env.fabric)
        return slowdown_quantiles(slowdowns, env.network.schedule.size_bytes, drained=True)


def powers_of(played: Sequence[Metrics]) -> Array:
    """Return log2 of the power on each network, shape (n_networks,)."""
    return np.array(
        [
            log_power(one["goodput_bps"], one["queue_p99_bytes"], one.get("fct_slowdown_p99", 1.0))
            for one in played
        ]
    )


def is_ahead(classic: Metrics, law: Metrics) -> bool:
    """Return whether a classic is no worse in goodput, p99 queue and p99 slowdown, and better in one."""
    gains = [
        classic["goodput_bps"] / law["goodput_bps"] - 1.0,
        max(law["queue_p99_bytes"], LEAST_QUEUE_BYTES) / max(classic["queue_p99_bytes"], LEAST_QUEUE_BYTES)
        - 1.0,
        law["fct_slowdown_p99"] / classic["fct_slowdown_p99"] - 1.0,
    ]
    return min(gains) >= -EQUAL and max(gains) > EQUAL


def over_networks(values: Array) -> Interval:
    """Return a mean with its interval over networks drawn anew."""
    return estimate(values[None, :], statistic=mean)


def score_table(played: Mapping[str, Sequence[Metrics]]) -> str:
    """Return scores, differences from Swift's, and where a classic is ahead, in Markdown."""
    powers = {name: powers_of(one) for name, one in played.items()}
    best = np.max([powers[name] for name in CLASSICS], axis=0)
    body = []
    for name in sorted(powers, key=lambda one: -powers[one].mean()):
        leads = [
            "–" if name == rival else interval_text(over_networks(powers[name] - powers[rival]), 2)
            for rival in (RIVAL, BY_RATE)
        ]
        ended = np.mean([one["completed_flows"] / max(one["offered_flows"], 1.0) for one in played[name]])
        score = interval_text(over_networks(powers[name] - best), 2)
        body.append([name, score, *leads, f"{beaten(played, name)} of {len(best)}", f"{ended:.1%}"])
    heads = [">score", f">less {RIVAL}'s", f">less {BY_RATE}'s", ">a classic is ahead in everything"]
    return markdown_table(["law", *heads, ">flows that ended"], body)


def beaten(played: Mapping[str, Sequence[Metrics]], law: str) -> int:
    """Return on how many networks another classic is ahead of a law in everything."""
    others = [played[name] for name in CLASSICS if name != law]
    return sum(
        any(is_ahead(classic, ours) for classic in theirs)
        for ours, *theirs in zip(played[law], *others, strict=True)
    )


def part_table(
    networks: Sequence[Network], played: Mapping[str, Sequence[Metrics]], laws: Sequence[str]
) -> str:
    """Return how much higher each law's score is than Swift's on some of the networks, in Markdown."""
    powers = {name: powers_of(played[name]) for name in (*laws, RIVAL)}
    rates = np.array([network.rate_bps for network in networks])
    parts = {
        "below 1 Gb/s": rates < 1e9,
        "1 to 25 Gb/s": (rates >= 1e9) & (rates < 25e9),
        "25 Gb/s and more": rates >= 25e9,
        **{kind: np.array([network.kind == kind for network in networks]) for kind in KINDS},
    }
    body = []
    for part, chosen in parts.items():
        leads = [powers[name][chosen] - powers[RIVAL][chosen] for name in laws]
        cells = [interval_text(over_networks(lead), 2) if len(lead) else "–" for lead in leads]
        body.append([part, str(chosen.sum()), *cells])
    return markdown_table([f"score less {RIVAL}'s", ">networks", *(f">{name}" for name in laws)], body)


def slowdown_table(played: Mapping[str, Sequence[Metrics]], laws: Sequence[str]) -> str:
    """Return slowdowns by size against DCTCP's, geometric means over networks, in Markdown."""
    body = []
    for size, size_words in CLASSES.items():
        for quantile, quantile_words in QUANTILES.items():
            metric = f"fct_slowdown_{quantile}{size}"
            cells = []
            for name in laws:
                pairs = zip(played[name], played[BASELINE], strict=True)
                both = [(a[metric], b[metric]) for a, b in pairs if metric in a and metric in b]
                ratios = np.array([math.log(ours / theirs) for ours, theirs in both])
                cells.append(change_text(ratios) if len(ratios) else "–")
            body.append([f"{size_words}, {quantile_words}", *cells])
    head = "against DCTCP, %; networks on which more than 5 % worse / better, %"
    return markdown_table([head, *(f">{name}" for name in laws)], body)


def change_text(logarithms: Array) -> str:
    """Return the mean change in percent with its interval, and the shares of networks with a clear change."""
    value, low, high = (100.0 * float(np.expm1(end)) for end in over_networks(logarithms))
    shares = ((logarithms > math.log1p(CLEAR)).mean(), (logarithms < math.log1p(-CLEAR)).mean())
    worse, better = (f"{100.0 * share:.0f}" for share in shares)
    return f"{value:+.0f} [{low:+.0f}, {high:+.0f}], {worse} / {better}".replace("-", "−")


def main() -> None:
    """Draw networks, play every law on each, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("laws", nargs="+", help="laws, as contenders: NAME, or NAME=AGENT@CHECKPOINT")
    parser.add_argument("--networks", type=int, default=200, help="number of networks (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--fair", action="store_true", help="compare fair sharing, too (seconds a network)")
    parser.add_argument("--rows", type=Path, help="file for the metrics of all episodes, JSON")
    given = parser.parse_args()
    if given.networks < 1 or given.seed < 0:
        parser.error("expected --networks 1 or more, and --seed 0 or more")
    try:
        laws = laws_of(given.laws)
        networks = draw_networks(given.networks, given.seed)
        played = play(laws, networks)
    except SysgymError as error:
        sys.exit(f"error: {error}")
    if given.rows:
        rows = {"kinds": [one.kind for one in networks], "laws": played}
        write_atomically(given.rows, json.dumps(rows).encode())
    own = [name for name in laws if name not in REFERENCES]
    print(score_table(played), end="\n\n")
    print(part_table(networks, played, [*own, BY_RATE, WITH_TELEMETRY]), end="\n\n")
    compared = [*own, RIVAL, BY_RATE, WITH_TELEMETRY]
    if given.fair:
        played[FAIR] = in_parallel(fair_metrics, networks, FAIR)
        compared.append(FAIR)
    print(slowdown_table(played, compared))


if __name__ == "__main__":
    main()
