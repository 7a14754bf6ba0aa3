"""Lessons of the search: episodes of given scenarios, random networks, and links shared with other laws.

Networks are drawn anew for every lesson (domain randomisation): rates from 20 Mb/s to 100 Gb/s, round trips
from 6 us to 6 ms, buffers of half a bandwidth-delay product and more, thresholds of marks from 8 to 50 % of
them or no marks, delayed ACKs, and random losses. No test scenario is given by name, but an incast of 64
senders is `incast-64`, and links are variations of `dumbbell-10g`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sysgym.agents.learned.congestion.episodes import Episode
from sysgym.envs.congestion.sharing import WINDOWS
from sysgym.scenarios import CongestionScenario, load_scenario

FLOWS, INCAST, LINKS = "flows", "incast", "links"
"""Kinds of lessons compared with DCTCP: flows that end, bursts of them, long-lived flows."""

ITSELF = "itself"
"""Kind of the lesson in which the law's flows share a link with each other; with others, it is their law."""

SHARED_SCENARIO = "dumbbell-10g"
EPISODES_OF_A_SCENARIO = 2
RANDOM_NETWORKS = 5
PACKET_BITS = 12_000
SHARED_PACKETS = 300_000
"""Packets of the line in an episode of a shared link."""

SENDERS = 16, 32, 32, 48, 64, 128


@dataclass(frozen=True)
class Lesson:
    """Episode in which laws are compared.

    Attributes:
        kind: FLOWS, INCAST, LINKS, ITSELF, or the name of a law with which the link is shared.
        episode: Scenario, split and seed.
        duration_s: Simulated time of a shared link; 0 otherwise.
    """

    kind: str
    episode: Episode
    duration_s: float = 0.0

    @property
    def steps(self) -> int:
        """Number of decision intervals, or of windows of a shared link."""
        return WINDOWS if self.duration_s > 0.0 else self.episode.scenario.control.episode_steps


def draw_lessons(
    scenarios: Sequence[CongestionScenario],
    neighbours: Sequence[str],
    split: str,
    rng: np.random.Generator,
) -> list[Lesson]:
    """Return the lessons of a generation.

    Args:
        scenarios: Scenarios of which two episodes each are drawn.
        neighbours: Names of the laws with which a link is shared in one lesson each.
        split: Split of the seeds.
        rng: Generator of seeds and networks.
    """
    lessons = [_given(scenario, split, rng) for scenario in scenarios for _ in range(EPISODES_OF_A_SCENARIO)]
    dumbbell = load_scenario(SHARED_SCENARIO, expect=CongestionScenario)
    for _ in range(RANDOM_NETWORKS):
        network = dumbbell.with_overrides(random_link(rng))
        lessons.append(Lesson(LINKS, _episode(network, split, rng)))
    for kind in (*neighbours, ITSELF):
        network = dumbbell.with_overrides(shared_link(rng))
        duration_s = SHARED_PACKETS * PACKET_BITS / network.topology.link_rate_bps
        lessons.append(Lesson(kind, _episode(network, split, rng), duration_s))
    return lessons


def _given(scenario: CongestionScenario, split: str, rng: np.random.Generator) -> Lesson:
    workload = scenario.workload.kind
    kind = {"incast": INCAST, "long_lived": LINKS}.get(workload, FLOWS)
    changes: dict[str, Any] = {}
    if workload == "incast" and scenario.topology.kind == "single_switch":
        changes = other_senders(scenario, rng)
    elif workload == "poisson" and rng.random() < 0.4:
        changes = other_fabric(rng)
    return Lesson(kind, _episode(scenario.with_overrides(changes) if changes else scenario, split, rng))


def _episode(scenario: CongestionScenario, split: str, rng: np.random.Generator) -> Episode:
    first, last = scenario.splits[split].seeds
    return Episode(scenario, split, int(rng.integers(first, last + 1)))


def log_uniform(rng: np.random.Generator, least: float, most: float) -> float:
    """Return a number whose logarithm is uniform between those of two others."""
    return math.exp(rng.uniform(math.log(least), math.log(most)))


def other_fabric(rng: np.random.Generator) -> dict[str, Any]:
    """Return another load, rate of all links, buffer of switch ports, and threshold of marks."""
    buffer_bytes = int(log_uniform(rng, 150e3, 1e6))
    threshold_bytes = int(buffer_bytes * rng.uniform(0.08, 0.4))
    return {
        "workload.load": float(rng.uniform(0.2, 0.7)),
        "topology.link_rate_bps": log_uniform(rng, 4e9, 16e9),
        "queue.buffer_bytes": buffer_bytes,
        "queue.ecn_threshold_bytes": threshold_bytes,
    }


def other_senders(scenario: CongestionScenario, rng: np.random.Generator) -> dict[str, Any]:
    """Return another number of senders of an incast, with as many bytes in a round."""
    workload: Any = scenario.workload
    senders = int(rng.choice(SENDERS))
    return {
        "topology.hosts": senders + 1,
        "workload.senders": senders,
        "workload.request_bytes": workload.senders * workload.request_bytes // senders,
        "control.episode_steps": min(scenario.control.episode_steps, 200),
    }


def random_link(rng: np.random.Generator) -> dict[str, Any]:
    """Return a bottleneck of any rate, delay and buffer, long-lived flows, and perhaps random losses."""
    rate_bps = log_uniform(rng, 20e6, 100e9)
    delay_s = log_uniform(rng, 1e-6, 1e-3)
    rtt_s = 6 * delay_s + 4 * PACKET_BITS / rate_bps
    buffer_bytes = max(
        rate_bps * rtt_s / 8 * log_uniform(rng, 0.5, 6.0),
        40 * PACKET_BITS / 8 * log_uniform(rng, 0.7, 8.0),
    )
    buffer_bytes = min(buffer_bytes, 60e6)
    duration_s = max(150 * rtt_s, 25_000 * PACKET_BITS / rate_bps)
    steps = 200
    changes: dict[str, Any] = {
        "topology.link_rate_bps": rate_bps,
        "topology.link_delay_s": delay_s,
        "topology.hosts_per_side": int(rng.choice([2, 3, 4])),
        "workload.flows_per_pair": int(rng.choice([1, 2, 6, 8])),
        "queue.buffer_bytes": int(buffer_bytes),
        "queue.ecn_threshold_bytes": int(buffer_bytes * rng.uniform(0.08, 0.5)),
        "transport.max_window_packets": 65_536,
        "workload.start_jitter_s": duration_s / 20,
        "control.decision_interval_s": duration_s / steps,
        "control.episode_steps": steps,
    }
    if rng.random() < 0.15:
        changes["queue.ecn_threshold_bytes"] = int(buffer_bytes)  # no marks
    if rng.random() < 0.25:
        changes["transport.delayed_ack_packets"] = 2
    if rng.random() < 0.35:
        changes["faults.loss_probability"] = log_uniform(rng, 2e-4, 1e-2) / 3  # a path has three links
    return changes


def shared_link(rng: np.random.Generator) -> Mapping[str, Any]:
    """Return a bottleneck of 1 to 25 Gb/s on which flows of two laws meet."""
    buffer_bytes = int(log_uniform(rng, 300e3, 2.4e6))
    return {
        "topology.link_rate_bps": log_uniform(rng, 1e9, 25e9),
        "topology.link_delay_s": log_uniform(rng, 3e-6, 30e-6),
        "queue.buffer_bytes": buffer_bytes,
        "queue.ecn_threshold_bytes": int(buffer_bytes * rng.uniform(0.08, 0.2)),
        "workload.flows_per_pair": int(rng.choice([1, 2, 4, 6])),
    }
