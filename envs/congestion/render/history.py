"""History of an episode, for rendering."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.congestion.datacenter.measurement import Fabric, Interval
from sysgym.envs.congestion.render.frame import Series

FloatArray = NDArray[np.float64]

PORTS_DRAWN = 3
MOST_HOSTS_DRAWN = 6
LEAST_LEAD = 1.25
"""Factor by which a port's queue must exceed that of a port with a curve to replace it."""
LEAST_RECEIVED = 4.0
"""Ratio of received to sent bytes above which a host is a receiver; ACKs are at most a twentieth of data."""
LEAST_QUEUE_DRAWN = 0.05
"""Fraction of the longest queue below which a port has no curve."""


class History:
    """Recorded intervals of an episode, one row each; the first row is measured at the reset.

    The recorded values alone determine the ports and hosts that have curves. A curve keeps its colour.

    Args:
        fabric: The network.
        end_s: End of the episode; None: unknown.
    """

    def __init__(self, fabric: Fabric, end_s: float | None) -> None:
        self.fabric, self.end_s = fabric, end_s
        self.time_s = Series()
        self.queue_max_bytes = Series(fabric.n_ports)
        self.rate_bps = Series(fabric.n_hosts)
        """Allowed send rates."""
        self.sent_bps = Series(fabric.n_hosts)
        self.goodput_bps = Series(fabric.n_hosts)
        self.ideal_bps = Series(fabric.n_hosts)
        """Payload at max-min fair rates."""
        self.active = Series(fabric.n_hosts)
        self.dropped_packets = Series()
        self.carried_bytes: FloatArray = np.zeros(fabric.topology.n_links)
        """Bytes carried by every link since the beginning of the episode."""
        self.longest_queue_bytes: FloatArray = np.zeros(fabric.n_ports)
        self.utilization: FloatArray = np.zeros(fabric.topology.n_links)
        """Utilization of every link in the newest interval."""
        self.queue_bytes: FloatArray = np.zeros(fabric.n_ports)
        """Queue of every port at the end of the newest interval."""
        self.ports: list[int] = []
        """Ports with curves."""
        self.senders: list[int] = []
        """Hosts that have sent, in the order of their first data."""

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def now_s(self) -> float:
        """End of the newest interval."""
        return float(self.time_s.column[-1])

    def add(self, interval: Interval) -> None:
        """Record one interval."""
        topology = self.fabric.topology
        duration_s = float(interval.duration_s)
        to_bps = 8.0 / duration_s if duration_s > 0.0 else 0.0
        sent_bytes = interval.after.ports.sent_bytes - interval.before.ports.sent_bytes
        self.carried_bytes += sent_bytes
        self.utilization = sent_bytes * to_bps / topology.link_rate_bps
        self.queue_bytes = interval.queue_bytes
        self.time_s.append(interval.after.now_s)
        self.queue_max_bytes.append(interval.queue_max_bytes)
        self.rate_bps.append(interval.action * self.fabric.line_rate_bps)
        self.sent_bps.append(sent_bytes[topology.host_uplink] * to_bps)
        self.goodput_bps.append(interval.delivered_bytes * to_bps)
        self.ideal_bps.append(interval.ideal_bytes * to_bps)
        active = interval.active_flows > 0
        self.active.append(active.astype(np.float64))
        self.dropped_packets.append(float(interval.dropped_packets.sum()))
        self.longest_queue_bytes = np.maximum(self.longest_queue_bytes, interval.queue_max_bytes)
        self._choose_ports()
        sending = np.flatnonzero(active | (interval.delivered_bytes > 0.0))
        self.senders += [int(host) for host in sending if int(host) not in self.senders]

    @property
    def receivers(self) -> NDArray[np.bool_]:
        """Mask of the hosts that have only received data and sent ACKs, shape (n_hosts,)."""
        up = self.fabric.topology.host_uplink
        # The two directions of a cable have adjacent indices.
        found: NDArray[np.bool_] = self.carried_bytes[up ^ 1] > LEAST_RECEIVED * self.carried_bytes[up]
        found[self.senders] = False
        return found

    @property
    def curves(self) -> list[tuple[int, int]]:
        """Positions and indices of the ports with curves, without those whose queues stayed small."""
        least = LEAST_QUEUE_DRAWN * float(self.longest_queue_bytes.max())
        return [
            (place, port) for place, port in enumerate(self.ports) if self.longest_queue_bytes[port] >= least
        ]

    def _choose_ports(self) -> None:
        longest = self.longest_queue_bytes
        best = [int(port) for port in np.argsort(-longest, kind="stable")[:PORTS_DRAWN]]
        for port in best:
            if (
                port in self.ports
                or longest[port] < LEAST_QUEUE_DRAWN * longest[best[0]]
                or longest[port] <= 0.0
            ):
                continue
            if len(self.ports) < PORTS_DRAWN:
                self.ports.append(port)
                continue
            place = int(np.argmin(longest[self.ports]))
            if longest[port] > LEAST_LEAD * longest[self.ports[place]]:
                self.ports[place] = port
