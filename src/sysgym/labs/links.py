"""One shared link for experiments: hosts on the left send to hosts on the right through one queue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport
from sysgym.scenarios import CongestionScenario, load_scenario

PACKET_BYTES = 1500

CORE = "west->east"
"""Name of the shared link."""

_HOPS = 6
"""Number of links that a packet and its ACK cross."""


@dataclass(frozen=True)
class Link:
    """Link that flows share, with the queue in front of it.

    Attributes:
        rate_bps: Rate of the link; the hosts' links are twice as fast, so that the queue is at this link.
        rtt_s: Round-trip time of an empty path.
        buffer_bytes: Size of the buffer.
        mark_bytes: Queue length above which packets are marked (ECN); None: never.
        flows: Number of flows, each from a host of its own.
    """

    rate_bps: float
    rtt_s: float
    buffer_bytes: float
    mark_bytes: float | None = None
    flows: int = 2

    @property
    def bdp_bytes(self) -> float:
        """Bandwidth-delay product: the data in flight when the link is just full."""
        return self.rate_bps * self.rtt_s / 8.0

    def with_buffer(self, buffer_bytes: float) -> Link:
        """Return the same link with another buffer."""
        return replace(self, buffer_bytes=buffer_bytes)

    def with_marks(self, mark_bytes: float | None) -> Link:
        """Return the same link with another marking threshold."""
        return replace(self, mark_bytes=mark_bytes)

    def scenario(self) -> CongestionScenario:
        """Return the link as a scenario of the package."""
        propagation_s = self.rtt_s / _HOPS
        return load_scenario(
            "dumbbell-10g",
            overrides={
                "topology.hosts_per_side": self.flows,
                "topology.link_rate_bps": 2.0 * self.rate_bps,
                "topology.core_rate_bps": self.rate_bps,
                "topology.link_delay_s": propagation_s,
                "queue.buffer_bytes": int(max(self.buffer_bytes, PACKET_BYTES)),
                # Without marks: the buffer size, a threshold that no queue exceeds.
                "queue.ecn_threshold_bytes": int(
                    max(self.buffer_bytes if self.mark_bytes is None else self.mark_bytes, 1.0)
                ),
                "transport.min_rto_s": 0.2,
                "transport.max_rto_s": 60.0,
                "workload.start_jitter_s": self.rtt_s,
                "workload.flows_per_pair": 1,
            },
            expect=CongestionScenario,
        )


class Played(NamedTuple):
    """Measurements of a link."""

    used: float
    """Share of the link's rate that was used."""
    queue_bytes: float
    """Mean queue length."""
    queue_max_bytes: float
    """Maximum queue length."""
    delay_s: float
    """Mean time that a packet waits in the queue."""
    rtt_s: float
    """Mean round-trip time."""
    marked: float
    """Share of marked packets."""
    dropped: float
    """Share of dropped packets."""
    fairness: float
    """Jain's index of the flows' shares; 1 is equal shares."""


def play(
    link: Link,
    law: str | Transport,
    *,
    seed: int = 0,
    duration_s: float | None = None,
    warm_s: float | None = None,
) -> Played:
    """Simulate flows of one law on a shared link, and return measurements after a warm-up.

    Args:
        link: The link.
        law: Name of a transport, such as ``reno``, or a transport of your own.
        seed: Seed of the times at which flows start.
        duration_s: Simulated time; None: 1,000 round trips.
        warm_s: Time before the measurement; None: a third of the duration.
    """
    duration_s = 1000 * link.rtt_s if duration_s is None else duration_s
    warm_s = duration_s / 3 if warm_s is None else warm_s
    network = _network(link, law, seed)
    core = network.topology.link_names.index(CORE)
    network.advance(warm_s)
    network.clear_maxima()
    before, hosts_before = network.ports(), network.hosts()
    delivered = network.flows().delivered_bytes
    network.advance(duration_s - warm_s)
    after, hosts = network.ports(), network.hosts()
    shares = (network.flows().delivered_bytes - delivered).astype(np.float64)
    measured_s = duration_s - warm_s
    accepted = after.accepted_packets[core] - before.accepted_packets[core]
    dropped = after.dropped_packets[core] - before.dropped_packets[core]
    queue_bytes = float(after.queue_byte_s[core] - before.queue_byte_s[core]) / measured_s
    samples = (hosts.rtt_samples - hosts_before.rtt_samples).sum()
    return Played(
        used=float(after.sent_bytes[core] - before.sent_bytes[core]) * 8.0 / measured_s / link.rate_bps,
        queue_bytes=queue_bytes,
        queue_max_bytes=float(after.queue_max_bytes[core]),
        delay_s=8.0 * queue_bytes / link.rate_bps,
        rtt_s=float((hosts.rtt_sum_s - hosts_before.rtt_sum_s).sum() / max(samples, 1)),
        marked=float((after.marked_packets[core] - before.marked_packets[core]) / max(accepted, 1)),
        dropped=float(dropped / max(accepted + dropped, 1)),
        fairness=float(shares.sum() ** 2 / max(len(shares) * (shares**2).sum(), 1.0)),
    )


class Watched(NamedTuple):
    """Time series of a link, sampled at regular times."""

    time_s: NDArray[np.float64]
    """Times of the samples, shape (n,)."""
    queue_bytes: NDArray[np.float64]
    """Queue lengths, shape (n,)."""
    used: NDArray[np.float64]
    """Share of the link's rate that was used since the previous sample, shape (n,)."""
    cwnd_packets: NDArray[np.float64]
    """Congestion windows, shape (n, flows)."""
    rtt_s: NDArray[np.float64]
    """Smoothed round-trip times, shape (n, flows)."""


def watch(
    link: Link, law: str | Transport, *, seed: int = 0, duration_s: float | None = None, samples: int = 1000
) -> Watched:
    """Simulate flows as :func:`play` does, and return time series from the start, without a warm-up."""
    duration_s = 1000 * link.rtt_s if duration_s is None else duration_s
    network = _network(link, law, seed)
    n_flows = len(network.schedule.src)
    recording = network.record([CORE], range(n_flows), packets_of=(), sample_interval_s=duration_s / samples)
    network.advance(duration_s)
    ports, flows = recording.port_samples(), recording.flow_samples()
    times_s = ports["time_s"]
    windows = np.full((len(times_s), n_flows), np.nan)
    round_trips = np.full((len(times_s), n_flows), np.nan)
    row = np.searchsorted(times_s, flows["time_s"] - 1e-12).clip(0, len(times_s) - 1)
    windows[row, flows["flow"]] = flows["cwnd_packets"]
    round_trips[row, flows["flow"]] = flows["srtt_s"]
    sent = np.diff(ports["sent_bytes"], prepend=0.0)
    spans_s = np.diff(times_s, prepend=0.0)
    used = 8.0 * sent / np.maximum(spans_s, 1e-12) / link.rate_bps
    return Watched(times_s, ports["queue_bytes"].copy(), used, windows, round_trips)


def _network(link: Link, law: str | Transport, seed: int) -> PacketNetwork:
    network = PacketNetwork(link.scenario(), transport=law)
    network.reset(seed)
    return network
