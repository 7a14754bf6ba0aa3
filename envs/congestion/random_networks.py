"""Randomly drawn networks with flows that arrive at random, or with incasts.

A suite has few networks, and the designers of laws have seen them. The networks drawn here have wide ranges
in every respect: kind and rate of the network, round-trip time, buffers, marking, traffic, losses, jitter and
receivers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from sysgym.scenarios import CongestionScenario, load_scenario

RATES_BPS = 20e6, 400e9
RTTS_S = 4e-6, 10e-3
PATH_PACKETS = 2.0, 1500.0
"""Packets that the empty path holds."""

BUFFER_PACKETS = 40.0, 2000.0
SENDERS = 4.0, 256.99
LOADS = 0.2, 0.8
ARRIVAL_PACKETS = 20e3, 60e3
"""Packets that the line carries while flows arrive; the arrivals last at least 60 round-trip times."""

PACKETS_AN_ACK = 1, 1, 2, 4
UNKNOWN_RTT = 0.2
"""Share of the networks whose hosts do not know the base round-trip time, as on the Internet."""

SIZES = "websearch", "facebook-hadoop", "alibaba-storage"
ROUNDS = 20
"""Number of rounds of answers in an incast."""

PACKET_BITS = 12_000
PAYLOAD_BYTES = 1460
STEPS = 40
"""Number of decision intervals in which flows arrive; they have no effect on congestion control laws."""

SPLIT = "test"
LEAF_SPINE = "leafspine-2to1-websearch-drained"


class Network(NamedTuple):
    """Randomly drawn network.

    Attributes:
        kind: Form of the network, one of :data:`KINDS`.
        scenario: The scenario.
        seed: Seed of the episode.
    """

    kind: str
    scenario: CongestionScenario
    seed: int

    @property
    def rate_bps(self) -> float:
        """Rate of the links of hosts."""
        return self.scenario.topology.link_rate_bps


class _Line(NamedTuple):
    """Rate of the hosts' links, and base round-trip time."""

    rate_bps: float
    rtt_s: float

    @property
    def packet_s(self) -> float:
        """Transmission time of a full packet, s."""
        return PACKET_BITS / self.rate_bps


def draw_networks(number: int, seed: int) -> list[Network]:
    """Return networks with seeds of the test split, an equal number of each kind.

    Each network has its own generator, so that a larger number leaves the first networks unchanged.

    Args:
        number: Number of networks.
        seed: Seed of the draw.
    """
    generators = (np.random.default_rng([seed, index]) for index in range(number))
    return [draw_network(index, SPLIT, rng) for index, rng in enumerate(generators)]


def draw_network(index: int, split: str, rng: np.random.Generator) -> Network:
    """Return a network with a seed of a split; successive indices go through all kinds in turn."""
    kind = list(KINDS)[index % len(KINDS)]
    scenario = KINDS[kind](rng)
    first, last = scenario.splits[split].seeds
    return Network(kind, scenario, int(rng.integers(first, last + 1)))


def log_uniform(rng: np.random.Generator, least: float, most: float) -> float:
    """Return a log-uniformly distributed number between two bounds."""
    return math.exp(rng.uniform(math.log(least), math.log(most)))


def _fabric(scenario: str, links: int, sharing: int, rng: np.random.Generator) -> CongestionScenario:
    """Return a network on which flows arrive at random.

    Args:
        scenario: Scenario whose settings are varied.
        links: Number of links of the longest path, one way.
        sharing: Number of hosts whose traffic shares one link.
        rng: Random generator.
    """
    line = _line(rng)
    arrivals_s = max(log_uniform(rng, *ARRIVAL_PACKETS) * line.packet_s, 60.0 * line.rtt_s)
    arrivals_s *= max(sharing / 2, 1.0)  # a single shared link carries fewer flows
    rest_s = 2.0 * arrivals_s + 200.0 * line.rtt_s
    changes = {
        **_common_changes(line, links, rng),
        "workload.load": float(rng.uniform(*LOADS)) / sharing,
        "workload.flow_sizes": str(rng.choice(SIZES)),
        "workload.last_arrival_s": arrivals_s,
        "control.decision_interval_s": arrivals_s / STEPS,
        "control.episode_steps": math.ceil(STEPS * (1.0 + rest_s / arrivals_s)),
    }
    if scenario == LEAF_SPINE:  # a leaf has eight hosts and two uplinks
        oversubscription = float(rng.choice([1.0, 2.0]))
        changes["topology.uplink_rate_bps"] = 4.0 * line.rate_bps / oversubscription
        changes["workload.load"] /= oversubscription
    return load_scenario(scenario, expect=CongestionScenario).with_overrides(changes)


def _incast(rng: np.random.Generator) -> CongestionScenario:
    """Return an incast: rounds of simultaneous answers of many senders."""
    line = _line(rng)
    senders = int(log_uniform(rng, *SENDERS))
    burst_packets = log_uniform(rng, 200.0, 4000.0)
    request_bytes = max(int(burst_packets * PAYLOAD_BYTES / senders), PAYLOAD_BYTES)
    burst_s = senders * -(-request_bytes // PAYLOAD_BYTES) * line.packet_s
    period_s = burst_s / rng.uniform(0.3, 0.8) + 2.0 * line.rtt_s
    changes = {
        **_common_changes(line, 2, rng),
        "topology.hosts": senders + 1,
        "workload.senders": senders,
        "workload.request_bytes": request_bytes,
        "workload.period_s": period_s,
        "workload.jitter_s": min(log_uniform(rng, 0.01, 1.0) * line.rtt_s, 0.2 * period_s),
        "control.decision_interval_s": ROUNDS * period_s / STEPS,
        "control.episode_steps": STEPS,
    }
    return load_scenario("incast-32", expect=CongestionScenario).with_overrides(changes)


def _line(rng: np.random.Generator) -> _Line:
    while True:
        line = _Line(log_uniform(rng, *RATES_BPS), log_uniform(rng, *RTTS_S))
        if PATH_PACKETS[0] <= line.rtt_s / line.packet_s <= PATH_PACKETS[1]:
            return line


def _common_changes(line: _Line, links: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return the settings that all kinds have: line, buffers, marking, receivers, losses and jitter.

    Args:
        line: Rate and round-trip time.
        links: Number of links of the longest path, one way.
        rng: Random generator.
    """
    min_rto_s = max(1e-3, 10.0 * line.rtt_s, 40.0 * line.packet_s) * log_uniform(rng, 1.0, 5.0)
    buffer_bytes = int(log_uniform(rng, *BUFFER_PACKETS) * PACKET_BITS / 8)
    unmarked = rng.random() < 0.15
    return {
        "topology.link_rate_bps": line.rate_bps,
        "topology.link_delay_s": line.rtt_s / (2 * links),
        "topology.link_jitter_s": log_uniform(rng, 1e-7, 2e-6) if rng.random() < 0.25 else 0.0,
        "queue.buffer_bytes": buffer_bytes,
        "queue.ecn_threshold_bytes": int(buffer_bytes * (1.0 if unmarked else rng.uniform(0.05, 0.5))),
        "transport.min_rto_s": min_rto_s,
        "transport.delayed_ack_packets": int(rng.choice(PACKETS_AN_ACK)),
        "transport.delayed_ack_timeout_s": min_rto_s / 4,
        "transport.max_window_packets": 65_536,
        "transport.path_delay": "least_seen" if rng.random() < UNKNOWN_RTT else "known",
        "faults.loss_probability": log_uniform(rng, 1e-5, 1e-3) if rng.random() < 0.2 else 0.0,
    }


KINDS: Mapping[str, Callable[[np.random.Generator], CongestionScenario]] = {
    "fat_tree": lambda rng: _fabric("fattree-k4-websearch-drained", 6, 1, rng),
    "leaf_spine": lambda rng: _fabric(LEAF_SPINE, 4, 1, rng),
    "dumbbell": lambda rng: _fabric("dumbbell-40g-websearch", 3, 8, rng),
    "incast": _incast,
}
"""Mapping from kinds of networks to the functions that draw them."""
