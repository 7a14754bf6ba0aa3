"""Lessons of the search: episodes of given scenarios, random networks, and links shared with other laws.

Networks are drawn anew for every lesson (domain randomisation):

- dumbbells from 20 Mb/s to 100 Gb/s with round trips from 6 us to 6 ms, buffers of half a bandwidth-delay
  product and more, marking thresholds from 8 to 50 % of the buffer or no marks, delayed ACKs, random losses,
  and jitter;
- slow dumbbells with few flows;
- parking lots;
- collectives on a fat tree;
- crowds of 24 to 96 flows that start one after the other on links of 5 to 100 Gb/s.

Receivers delay ACKs in two of five crowds and shared links, and in half of the long shared links. No test
scenario is given by name, but an incast of 64 senders is `incast-64`, and random networks are variations of
`dumbbell-10g`, `parking-lot-4` and `alltoall-fattree-k4`.

A search may also use networks of ``sysgym study networks``, with seeds of the split of the lessons. It then
has more crowds, and additional long links shared with other laws, because CUBIC takes about a second to gain
or lose its share. It may also use links of ``sysgym study links``, which vary more than those above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sysgym.agents.learned.congestion.episodes import Episode
from sysgym.envs.congestion.random_links import draw_crowd, draw_shared_link
from sysgym.envs.congestion.random_networks import draw_network, log_uniform
from sysgym.envs.congestion.sharing import WINDOWS
from sysgym.scenarios import CongestionScenario, load_scenario

FLOWS, INCAST, LINKS = "flows", "incast", "links"
SLOW, LOTS, COLLECTIVES = "slow links", "parking lots", "rounds of messages"
"""Kinds of lessons compared with DCTCP: finite flows, incasts, long-lived flows; slow links with few flows,
several bottlenecks in a row, and rounds of messages that depend on each other."""

ITSELF, CROWDS, ANY_CROWDS = "itself", "crowds", "crowds on any link"
"""Kinds of lessons in which the law's flows share a link with each other: few flows, and so many that windows
are a packet or less, in which case a law may mistake its own flows for those of another law."""

NETWORKS = "random networks"
"""Kind of lesson on the networks of :mod:`sysgym.envs.congestion.random_networks`."""

VERSION = 2
"""Version of lessons and fitness; a search can only be resumed with the version with which it began."""

DUMBBELL, LOT, COLLECTIVE = "dumbbell-10g", "parking-lot-4", "alltoall-fattree-k4"
"""Scenarios of which random networks are variations."""

EPISODES_OF_A_SCENARIO = 2
RANDOM_NETWORKS = {LINKS: 4, SLOW: 2, LOTS: 2, COLLECTIVES: 3}
"""Number of random networks of each kind."""
LINKS_OF_A_NEIGHBOUR = 2
CROWDS_A_GENERATION = 12
"""Numbers of shared links for each law, and of crowds; unfair crowds are rare, so many are needed."""
LONG_LINKS_OF_A_NEIGHBOUR = 4
MORE_CROWDS = 12
"""Numbers of further shared links and crowds of a search that uses networks of the study."""
CROWDS_OF_A_LINK = 3
"""Number of crowds on any link for each link of any kind that is shared with each law."""
PACKET_BITS = 12_000
STEPS = 100
"""Largest number of decision intervals in an episode that is compared with DCTCP."""
MOST_PACKETS = 200_000
"""Largest number of packets at line rate in 150 round trips of a random link."""
CROWD_PACKETS = 80_000
"""Duration of an episode of a crowd, in packets at line rate."""
SHARED_PACKETS = 150_000
"""Duration of an episode of a shared link, in packets at line rate."""
LONG_SHARED_PACKETS = 800_000
"""Duration of an episode of a long shared link, in packets at line rate."""

THRESHOLDS, NEAR_THRESHOLDS = (30e3, 1e6), (50e3, 120e3)
"""Bounds of the marking threshold in a crowd, bytes."""

SENDERS = 16, 32, 32, 48, 64, 128
SIZES = "websearch", "facebook-hadoop", "alibaba-storage"


@dataclass(frozen=True)
class Lesson:
    """Episode in which laws are compared.

    Attributes:
        kind: One of the kinds above, or the kind of link that is shared with another law.
        episode: Scenario, split and seed.
        duration_s: Simulated time of a shared link or a crowd; 0 otherwise.
        beside: Name of the law with which the link is shared; empty if there is none.
    """

    kind: str
    episode: Episode
    duration_s: float = 0.0
    beside: str = ""

    @property
    def steps(self) -> int:
        """Number of decision intervals, or of measurement windows of a shared link."""
        return WINDOWS if self.duration_s > 0.0 else self.episode.scenario.control.episode_steps


def draw_lessons(
    scenarios: Sequence[CongestionScenario],
    neighbours: Sequence[str],
    split: str,
    rng: np.random.Generator,
    networks: int = 0,
    links: int = 0,
) -> list[Lesson]:
    """Return the lessons of a generation.

    Args:
        scenarios: Scenarios, from each of which two episodes are drawn.
        neighbours: Names of the laws with which links are shared: two links each, and four further ones if
            ``networks`` is positive.
        split: Split of the seeds.
        rng: Generator of seeds and networks.
        networks: Number of networks of the study. If it is positive, there are further crowds and long shared
            links.
        links: Number of links of any kind that are shared with each law; three crowds are added for each
            number.
    """
    lessons = [_given(scenario, split, rng) for scenario in scenarios for _ in range(EPISODES_OF_A_SCENARIO)]
    bases = {name: load_scenario(name, expect=CongestionScenario) for name in (DUMBBELL, LOT, COLLECTIVE)}
    for kind, number in RANDOM_NETWORKS.items():
        base, changes = _RANDOM[kind]
        for _ in range(number):
            network = bases[base].with_overrides(changes(rng))
            lessons.append(Lesson(kind, _episode(network, split, rng)))
    if networks > 0:
        drawn = (draw_network(index, split, rng) for index in range(networks))
        lessons += [Lesson(NETWORKS, Episode(one.scenario, split, one.seed)) for one in drawn]
    shared = [(law, law, shared_link, SHARED_PACKETS) for law in _each(neighbours, LINKS_OF_A_NEIGHBOUR)]
    shared += [(ITSELF, "", shared_link, SHARED_PACKETS)]
    shared += [(CROWDS, "", random_crowd, CROWD_PACKETS)] * CROWDS_A_GENERATION
    if networks > 0:
        long = _each(neighbours, LONG_LINKS_OF_A_NEIGHBOUR)
        shared += [(law, law, datacenter_link, LONG_SHARED_PACKETS) for law in long]
        shared += [(CROWDS, "", random_crowd, CROWD_PACKETS)] * MORE_CROWDS
    for kind, law, link, packets in shared:
        network = bases[DUMBBELL].with_overrides(link(rng))
        duration_s = packets * PACKET_BITS / network.topology.link_rate_bps
        lessons.append(Lesson(kind, _episode(network, split, rng), duration_s, law))
    any_links = [(f"{law} on any link", law, draw_shared_link) for law in _each(neighbours, links)]
    any_links += [(ANY_CROWDS, "", draw_crowd)] * (CROWDS_OF_A_LINK * links)
    for kind, law, draw in any_links:
        drawn_link = draw(rng)
        episode = _episode(drawn_link.scenario, split, rng)
        lessons.append(Lesson(kind, episode, drawn_link.duration_s, law))
    return lessons


def _each(laws: Sequence[str], times: int) -> list[str]:
    return [law for law in laws for _ in range(times)]


def _given(scenario: CongestionScenario, split: str, rng: np.random.Generator) -> Lesson:
    workload = scenario.workload.kind
    kind = {"incast": INCAST, "long_lived": LINKS}.get(workload, FLOWS)
    changes = fewer_steps(scenario)
    if workload == "incast" and scenario.topology.kind == "single_switch":
        changes |= other_senders(scenario, rng)
    elif workload == "poisson" and rng.random() < 0.6:
        changes |= other_fabric(rng)
    return Lesson(kind, _episode(scenario.with_overrides(changes), split, rng))


def _episode(scenario: CongestionScenario, split: str, rng: np.random.Generator) -> Episode:
    first, last = scenario.splits[split].seeds
    return Episode(scenario, split, int(rng.integers(first, last + 1)))


def fewer_steps(scenario: CongestionScenario) -> dict[str, Any]:
    """Return fewer and longer decision intervals for the same episode; laws do not depend on them."""
    control = scenario.control
    steps = min(control.episode_steps, STEPS)
    interval_s = control.decision_interval_s * control.episode_steps / steps
    return {"control.episode_steps": steps, "control.decision_interval_s": interval_s}


def other_fabric(rng: np.random.Generator) -> dict[str, Any]:
    """Return random flow sizes, load, rate of all links, buffer of switch ports, and marking threshold."""
    buffer_bytes = int(log_uniform(rng, 100e3, 1e6))
    threshold_bytes = int(buffer_bytes * rng.uniform(0.08, 0.4))
    return {
        "workload.load": float(rng.uniform(0.2, 0.6)),
        "workload.flow_sizes": str(rng.choice(SIZES)),
        "topology.link_rate_bps": log_uniform(rng, 4e9, 16e9),
        "queue.buffer_bytes": buffer_bytes,
        "queue.ecn_threshold_bytes": threshold_bytes,
    }


def other_senders(scenario: CongestionScenario, rng: np.random.Generator) -> dict[str, Any]:
    """Return a random number of senders of an incast, with the same number of bytes in a round."""
    workload: Any = scenario.workload
    senders = int(rng.choice(SENDERS))
    return {
        "topology.hosts": senders + 1,
        "workload.senders": senders,
        "workload.request_bytes": workload.senders * workload.request_bytes // senders,
    }


def random_link(rng: np.random.Generator) -> dict[str, Any]:
    """Return a bottleneck of random rate, delay and buffer with long-lived flows; maybe loss and jitter."""
    rate_bps = log_uniform(rng, 20e6, 100e9)
    delay_s = min(log_uniform(rng, 1e-6, 1e-3), MOST_PACKETS * PACKET_BITS / rate_bps / (150 * 6))
    rtt_s = 6 * delay_s + 4 * PACKET_BITS / rate_bps
    buffer_bytes = max(
        rate_bps * rtt_s / 8 * log_uniform(rng, 0.5, 6.0),
        40 * PACKET_BITS / 8 * log_uniform(rng, 0.7, 8.0),
    )
    buffer_bytes = min(buffer_bytes, 60e6)
    duration_s = max(150 * rtt_s, 15_000 * PACKET_BITS / rate_bps)
    changes: dict[str, Any] = {
        "topology.link_rate_bps": rate_bps,
        "topology.link_delay_s": delay_s,
        "topology.hosts_per_side": int(rng.choice([2, 3, 4])),
        "workload.flows_per_pair": int(rng.choice([1, 2, 6, 8])),
        "queue.buffer_bytes": int(buffer_bytes),
        "queue.ecn_threshold_bytes": int(buffer_bytes * rng.uniform(0.08, 0.5)),
        "transport.max_window_packets": 65_536,
        "workload.start_jitter_s": duration_s / 20,
        "control.decision_interval_s": duration_s / STEPS,
        "control.episode_steps": STEPS,
    }
    if rng.random() < 0.15:
        changes["queue.ecn_threshold_bytes"] = int(buffer_bytes)  # no marks
    if rng.random() < 0.25:
        changes["transport.delayed_ack_packets"] = 2
    if rng.random() < 0.35:
        changes["faults.loss_probability"] = log_uniform(rng, 2e-4, 1e-2) / 3  # a path has three links
    if rng.random() < 0.3:
        changes["topology.link_jitter_s"] = log_uniform(rng, 1e-7, 2e-6)
    return changes


def slow_link(rng: np.random.Generator) -> dict[str, Any]:
    """Return a bottleneck of 10 Mb/s to 1 Gb/s that is shared by few flows."""
    rate_bps = log_uniform(rng, 10e6, 1e9)
    delay_s = log_uniform(rng, 10e-6, 300e-6)
    buffer_bytes = int(log_uniform(rng, 100, 2000) * PACKET_BITS / 8)
    duration_s = 8_000 * PACKET_BITS / rate_bps
    return {
        "topology.link_rate_bps": rate_bps,
        "topology.link_delay_s": delay_s,
        "topology.hosts_per_side": int(rng.choice([2, 2, 3])),
        "workload.flows_per_pair": int(rng.choice([1, 1, 2])),
        "workload.start_jitter_s": duration_s / 50,
        "queue.buffer_bytes": buffer_bytes,
        "queue.ecn_threshold_bytes": int(min(log_uniform(rng, 3e3, 60e3), buffer_bytes)),
        "transport.min_rto_s": 0.2,
        "control.decision_interval_s": duration_s / STEPS,
        "control.episode_steps": STEPS,
    }


def random_lot(rng: np.random.Generator) -> dict[str, Any]:
    """Return a row of two to six bottlenecks of 1 to 40 Gb/s."""
    rate_bps = log_uniform(rng, 1e9, 40e9)
    bottlenecks = int(rng.integers(2, 7))
    duration_s = 8_000 * PACKET_BITS / rate_bps
    buffer_bytes = int(log_uniform(rng, 200e3, 2e6))
    return {
        "topology.bottlenecks": bottlenecks,
        "topology.link_rate_bps": rate_bps,
        "topology.link_delay_s": log_uniform(rng, 1e-6, 10e-6) * 10e9 / rate_bps,
        "workload.flows_per_pair": int(rng.choice([1, 2, 3, 4])),
        "workload.start_jitter_s": duration_s / 50,
        "queue.buffer_bytes": buffer_bytes,
        "queue.ecn_threshold_bytes": int(buffer_bytes * rng.uniform(0.05, 0.3)),
        "control.decision_interval_s": duration_s / STEPS,
        "control.episode_steps": STEPS,
    }


def random_collective(rng: np.random.Generator) -> dict[str, Any]:
    """Return a collective of one or two jobs on a fat tree of 4 to 40 Gb/s."""
    rate_bps = log_uniform(rng, 4e9, 40e9)
    kind = str(rng.choice(["ring_all_reduce", "all_to_all", "tree_all_reduce"]))
    jobs = int(rng.choice([1, 1, 2]))
    # In a ring or a tree, a host sends about twice the size in an iteration.
    size_bytes = int(log_uniform(rng, 0.5e6, 4e6)) // (1 if kind == "all_to_all" else 2)
    duration_s = 12e6 * 8 / rate_bps
    buffer_bytes = int(log_uniform(rng, 150e3, 1e6))
    return {
        "topology.link_rate_bps": rate_bps,
        "topology.link_delay_s": log_uniform(rng, 0.5e-6, 4e-6),
        "workload.collective": kind,
        "workload.jobs": jobs,
        "workload.job_hosts": 16 // jobs,
        "workload.size_bytes": size_bytes,
        "workload.compute_s": size_bytes * 8 / rate_bps / 4,
        "workload.placement": str(rng.choice(["packed", "scattered"])),
        "queue.buffer_bytes": buffer_bytes,
        "queue.ecn_threshold_bytes": int(buffer_bytes * rng.uniform(0.08, 0.4)),
        "control.decision_interval_s": duration_s / STEPS,
        "control.episode_steps": STEPS,
    }


def packets_an_ack(rng: np.random.Generator) -> int:
    """Return 2, for receivers that delay ACKs, with a probability of two fifths; 1 otherwise."""
    return 2 if rng.random() < 0.4 else 1


def random_crowd(rng: np.random.Generator) -> dict[str, Any]:
    """Return a bottleneck of 5 to 100 Gb/s for 24 to 96 long-lived flows.

    In seven of ten crowds the marking threshold is near the queue of laws with targets of tens of packets.
    """
    rate_bps = log_uniform(rng, 5e9, 100e9)
    duration_s = CROWD_PACKETS * PACKET_BITS / rate_bps
    buffer_bytes = int(log_uniform(rng, 500e3, 2e6))
    thresholds = NEAR_THRESHOLDS if rng.random() < 0.7 else THRESHOLDS
    return {
        "transport.delayed_ack_packets": packets_an_ack(rng),
        "topology.link_rate_bps": rate_bps,
        "topology.link_delay_s": log_uniform(rng, 1e-6, 5e-6),
        "workload.flows_per_pair": int(rng.choice([6, 8, 12, 16, 20, 24])),
        "workload.start_jitter_s": duration_s * rng.uniform(0.005, 0.1),
        "queue.buffer_bytes": buffer_bytes,
        "queue.ecn_threshold_bytes": int(min(log_uniform(rng, *thresholds), buffer_bytes)),
    }


def shared_link(rng: np.random.Generator) -> dict[str, Any]:
    """Return a bottleneck of 1 to 25 Gb/s that is shared by flows of two laws."""
    buffer_bytes = int(log_uniform(rng, 300e3, 2.4e6))
    return {
        "transport.delayed_ack_packets": packets_an_ack(rng),
        "topology.link_rate_bps": log_uniform(rng, 1e9, 25e9),
        "topology.link_delay_s": log_uniform(rng, 3e-6, 30e-6),
        "queue.buffer_bytes": buffer_bytes,
        "queue.ecn_threshold_bytes": int(buffer_bytes * rng.uniform(0.08, 0.2)),
        "workload.flows_per_pair": int(rng.choice([1, 2, 4, 6])),
    }


def datacenter_link(rng: np.random.Generator) -> dict[str, Any]:
    """Return a bottleneck like that of `dumbbell-10g` that is shared by flows of two laws."""
    buffer_bytes = int(log_uniform(rng, 0.5e6, 2e6))
    return {
        "transport.delayed_ack_packets": int(rng.choice([1, 2])),
        "topology.link_rate_bps": log_uniform(rng, 5e9, 20e9),
        "topology.link_delay_s": log_uniform(rng, 3e-6, 12e-6),
        "queue.buffer_bytes": buffer_bytes,
        "queue.ecn_threshold_bytes": int(log_uniform(rng, 50e3, 200e3)),
        "workload.flows_per_pair": int(rng.choice([1, 1, 2])),
    }


_RANDOM: dict[str, tuple[str, Callable[[np.random.Generator], dict[str, Any]]]] = {
    LINKS: (DUMBBELL, random_link),
    SLOW: (DUMBBELL, slow_link),
    LOTS: (LOT, random_lot),
    COLLECTIVES: (COLLECTIVE, random_collective),
}
"""Base scenario of each kind, and the function that draws its changes."""
