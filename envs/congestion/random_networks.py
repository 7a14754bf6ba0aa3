"""Networks drawn at random, on which flows begin by themselves, and incasts.

A suite has few networks, and designers of laws have seen them. These come from ranges that are wide in every
respect: kind and rate of the network, round trip, buffers, marks, traffic, losses, jitter and receivers.
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
"""Packets of the line in the time in which flows arrive, which is at least 60 round trips."""

PACKETS_AN_ACK = 1, 1, 2, 4
UNKNOWN_RTT = 0.2
"""Share of the networks whose hosts are not told of the base round trip, as on the Internet."""

SIZES = "websearch", "facebook-hadoop", "alibaba-storage"
ROUNDS = 20
"""Rounds of answers in an incast."""

PACKET_BITS = 12_000
PAYLOAD_BYTES = 1460
STEPS = 40
"""Decision intervals in which flows arrive; laws decide nothing in them."""

SPLIT = "test"
LEAF_SPINE = "leafspine-2to1-websearch-drained"


class Network(NamedTuple):
    """Network that was drawn.

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
    """Rate of the links of hosts, and base round trip."""

    rate_bps: float
    rtt_s: float

    @property
    def packet_s(self) -> float:
        """Time that a packet takes, s."""
        return PACKET_BITS / self.rate_bps


def draw_networks(number: int, seed: int) -> list[Network]:
    """Return networks with seeds of the test split, an equal number of each kind.

    Each comes from a generator of its own, so that more networks leave the first ones as they are.

    Args:
        number: Number of networks.
        seed: Seed of the draw.
    """
    generators = (np.random.default_rng([seed, index]) for index in range(number))
    return [draw_network(index, SPLIT, rng) for index, rng in enumerate(generators)]


def draw_network(index: int, split: str, rng: np.random.Generator) -> Network:
    """Return a network of the kind whose turn it is, with a seed of a split."""
    kind = list(KINDS)[index % len(KINDS)]
    scenario = KINDS[kind](rng)
    first, last = scenario.splits[split].seeds
    return Network(kind, scenario, int(rng.integers(first, last + 1)))


def log_uniform(rng: np.random.Generator, least: float, most: float) -> float:
    """Return a number whose logarithm is uniform between those of two others."""
    return math.exp(rng.uniform(math.log(least), math.log(most)))


def _fabric(scenario: str, links: int, sharing: int, rng: np.random.Generator) -> CongestionScenario:
    """Return a network on which flows begin by themselves.

    Args:
        scenario: Scenario that is varied.
        links: Links of the longest path, one way.
        sharing: Hosts on one of whose links all their traffic meets.
        rng: Generator.
    """
    line = _line(rng)
    arrivals_s = max(log_uniform(rng, *ARRIVAL_PACKETS) * line.packet_s, 60.0 * line.rtt_s)
    arrivals_s *= max(sharing / 2, 1.0)  # one link has fewer flows
    rest_s = 2.0 * arrivals_s + 200.0 * line.rtt_s
    changes = {
        **_common_changes(line, links, rng),
        "workload.load": float(rng.uniform(*LOADS)) / sharing,
        "workload.flow_sizes": str(rng.choice(SIZES)),
        "workload.last_arrival_s": arrivals_s,
        "control.decision_interval_s": arrivals_s / STEPS,
        "control.episode_steps": math.ceil(STEPS * (1.0 + rest_s / arrivals_s)),
    }
    if scenario == LEAF_SPINE:  # eight hosts and two uplinks of a leaf
        oversubscription = float(rng.choice([1.0, 2.0]))
        changes["topology.uplink_rate_bps"] = 4.0 * line.rate_bps / oversubscription
        changes["workload.load"] /= oversubscription
    return load_scenario(scenario, expect=CongestionScenario).with_overrides(changes)


def _incast(rng: np.random.Generator) -> CongestionScenario:
    """Return rounds of answers of many senders."""
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
    """Return what all kinds have: line, buffers, marks, receivers, losses and jitter.

    Args:
        line: Rate and round trip.
        links: Links of the longest path, one way.
        rng: Generator.
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
"""Kind of network -> how it is drawn."""
