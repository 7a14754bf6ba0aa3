"""Randomly drawn links for long-lived flows of one or two congestion control laws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sysgym.envs.congestion.random_networks import PACKET_BITS, log_uniform
from sysgym.scenarios import CongestionScenario, load_scenario

NETWORK = "dumbbell-10g"
"""Scenario whose settings are varied."""

CROWD_RATES_BPS, SHARED_RATES_BPS = (0.5e9, 100e9), (0.1e9, 40e9)
CROWD_PACKETS, SHARED_PACKETS = (80e3, 160e3), 300e3
"""Packets that the line can carry in an episode."""

FLOWS_PER_PAIR_OF_A_CROWD = 2.0, 64.99
"""Bounds before truncation to an integer, which give 2 to 64 flows for each of the four pairs of hosts."""


class Link(NamedTuple):
    """Randomly drawn link.

    Attributes:
        scenario: Scenario of a dumbbell.
        packets: Packets that the line can carry in an episode.
    """

    scenario: CongestionScenario
    packets: float

    @property
    def duration_s(self) -> float:
        """Length of an episode, s."""
        return self.packets * PACKET_BITS / self.scenario.topology.link_rate_bps


def draw_crowd(rng: np.random.Generator) -> Link:
    """Return a link of 0.5 to 100 Gb/s for 8 to 256 flows of one law."""
    rate_bps = log_uniform(rng, *CROWD_RATES_BPS)
    flows_per_pair = int(log_uniform(rng, *FLOWS_PER_PAIR_OF_A_CROWD))
    packets = log_uniform(rng, *CROWD_PACKETS)
    changes = {
        "topology.link_rate_bps": rate_bps,
        "topology.link_delay_s": log_uniform(rng, 1e-6, 50e-6),
        "workload.flows_per_pair": flows_per_pair,
        "workload.start_jitter_s": packets * PACKET_BITS / rate_bps * rng.uniform(0.001, 0.3),
        "transport.initial_window_packets": int(rng.choice([1, 2, 10, 10, 10])),
    }
    return _link(changes, packets, int(log_uniform(rng, 200e3, 4e6)), rng)


def draw_shared_link(rng: np.random.Generator) -> Link:
    """Return a link of 0.1 to 40 Gb/s for 2 to 24 flows, half of which run a second law."""
    rate_bps = log_uniform(rng, *SHARED_RATES_BPS)
    changes = {
        "topology.link_rate_bps": rate_bps,
        "topology.link_delay_s": log_uniform(rng, 1e-6, 60e-6),
        "topology.hosts_per_side": int(rng.choice([2, 4])),
        "workload.flows_per_pair": int(rng.choice([1, 1, 2, 3, 6])),
    }
    return _link(changes, SHARED_PACKETS, int(log_uniform(rng, 150e3, 3e6)), rng)


def _link(changes: Mapping[str, Any], packets: float, buffer_bytes: int, rng: np.random.Generator) -> Link:
    packets_an_ack = int(rng.choice([1, 2]))
    scenario = load_scenario(NETWORK, expect=CongestionScenario).with_overrides(
        {
            **changes,
            "queue.buffer_bytes": buffer_bytes,
            "queue.ecn_threshold_bytes": int(buffer_bytes * rng.uniform(0.04, 0.5)),
            "transport.delayed_ack_packets": packets_an_ack,
        }
    )
    return Link(scenario, packets)
