"""Incast for experiments: a client sends requests to many servers at once, in rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.scenarios import CongestionScenario, load_scenario

RATE_BPS = 10e9
STEP_S = 200e-6
"""Decision interval, the unit of an episode's length."""

PACKET_BYTES = 1500
_PAYLOAD_BYTES = 1460
_SLACK_S = 0.012
"""Time after the ideal end of a round, enough to recover from a timeout of 10 ms."""


@dataclass(frozen=True)
class Incast:
    """Servers that answer one client at once, through one port of a switch.

    Attributes:
        servers: Number of servers.
        buffer_packets: Size of the buffer in front of the client's link.
        window_packets: Initial window of each server.
        answer_packets: Length of an answer.
    """

    servers: int
    buffer_packets: int
    window_packets: int
    answer_packets: int = 20

    @property
    def ideal_s(self) -> float:
        """Time of all answers to a request on a link that is never idle."""
        return self.servers * self.answer_packets * PACKET_BYTES * 8.0 / RATE_BPS

    @property
    def period_s(self) -> float:
        """Time between requests."""
        return 2.0 * self.ideal_s + _SLACK_S

    def scenario(self, rounds: int = 20) -> CongestionScenario:
        """Return a scenario with some requests; packets are marked above a quarter of the buffer."""
        return load_scenario(
            "incast-32",
            overrides={
                "control.decision_interval_s": STEP_S,
                "control.episode_steps": math.ceil(rounds * self.period_s / STEP_S),
                "topology.hosts": self.servers + 1,
                "workload.senders": self.servers,
                "workload.request_bytes": self.answer_packets * _PAYLOAD_BYTES,
                "workload.period_s": self.period_s,
                "workload.jitter_s": 1e-6,
                "transport.initial_window_packets": self.window_packets,
                "queue.buffer_bytes": self.buffer_packets * PACKET_BYTES,
                "queue.ecn_threshold_bytes": self.buffer_packets * PACKET_BYTES // 4,
            },
            expect=CongestionScenario,
        )


class Rounds(NamedTuple):
    """Answers to requests; arrays have an element for each answer."""

    start_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    """nan if the last byte has not arrived."""
    request: NDArray[np.int64]
    """Number of the request."""
    queue_max_packets: float
    """Largest queue of the switch."""
    dropped_packets: int
    """Number of packets dropped at a full buffer."""
    slowdown: float
    """Mean over requests of the slowest answer's time over the ideal time; infinite if one is missing."""


def play_rounds(incast: Incast, law: str, *, seed: int = 0, rounds: int = 20) -> Rounds:
    """Simulate several requests, and return all answers.

    Args:
        incast: Servers, buffer and windows.
        law: Name of a transport.
        seed: Seed of the start times of answers, which differ by up to a microsecond.
        rounds: Number of requests.
    """
    network = PacketNetwork(incast.scenario(rounds), transport=law)
    network.reset(seed)
    network.advance(rounds * incast.period_s)
    flows, ports = network.flows(), network.ports()
    asked = flows.started & (flows.group >= 0) & (flows.group < rounds)
    start_s, finish_s, request = flows.start_s[asked], flows.finish_s[asked], flows.group[asked]
    times_s = [
        np.where(np.isnan(finish_s[mine]), np.inf, finish_s[mine]).max() - start_s[mine].min()
        for mine in (request == number for number in np.unique(request))
    ]
    return Rounds(
        start_s,
        finish_s,
        request,
        float(ports.queue_max_bytes.max()) / PACKET_BYTES,
        int(ports.dropped_packets.sum()),
        float(np.mean(times_s)) / incast.ideal_s,
    )
