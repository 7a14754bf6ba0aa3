"""What many agents steer: the flows, or the hosts, of one network, simulated or of the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.counters.single_flows import (
    ACKED_PACKETS,
    ACTIVE_FLOWS,
    CWND_PACKETS,
    DELIVERED_PACKETS,
    IN_FLIGHT_PACKETS,
    LOST_PACKETS,
    MARKED_PACKETS,
    RTT_SAMPLES,
    RTT_SUM_S,
    SENT_PACKETS,
    TIMEOUTS,
    read_flows,
    read_hosts,
)
from sysgym.emulator.packets.network import PacketNetwork

FloatArray = NDArray[np.float64]


class PacketAgents:
    """Flows or hosts of a simulated network.

    Args:
        network: The network, at the beginning of an episode.
        n: How many there are: the first flows, or hosts.
        hosts: Whether they are hosts.
    """

    def __init__(self, network: PacketNetwork, n: int, *, hosts: bool) -> None:
        self._network, self._ids = network, np.arange(n, dtype=np.int64)
        self._hosts = hosts

    def set_rates(self, rates_bps: FloatArray) -> None:
        """Set what each sends, or of hosts what it sends at most (inf: no cap), shape (n,)."""
        if self._hosts:
            self._network.set_host_rate_caps(rates_bps)
        else:
            self._network.set_flow_rates(self._ids, rates_bps)

    def multiply_windows(self, factors: FloatArray) -> None:
        """Multiply each flow's window, shape (n,)."""
        self._network.scale_windows(self._ids, factors)

    def pass_time(self, duration_s: float, out: FloatArray) -> None:
        """Let time pass and read the counters at its end, shape (n, N_COUNTERS), as in ``single_flows``."""
        self._network.advance(duration_s)
        (read_hosts if self._hosts else read_flows)(self._network.address, self._ids, out)

    def pass_interval(self, interval_s: float, middle: FloatArray, after: FloatArray) -> float:
        """Let an interval pass; read in its middle and at its end.

        Returns:
            How long it was, s.
        """
        half_s = 0.5 * interval_s
        self.pass_time(half_s, middle)
        self.pass_time(interval_s - half_s, after)
        return interval_s


class LiveAgents:
    """The same of a network of the kernel: what is set goes there with the interval that it holds for.

    Args:
        network: A :class:`~sysgym.emulator.linux.client.LinuxNetwork` at the beginning of an episode.
        n: How many there are: the first flows, or hosts.
        hosts: Whether they are hosts.
    """

    def __init__(self, network: Any, n: int, *, hosts: bool) -> None:
        self._network = network
        self._src = np.asarray(network.schedule.src, dtype=np.int64)
        self._hosts = hosts
        self._ids = np.arange(len(self._src) if hosts else n, dtype=np.int64)
        self._n = n
        self._settings: dict[str, Any] = {}
        self._caps_bps: FloatArray | None = None

    def set_rates(self, rates_bps: FloatArray) -> None:
        """Set what each sends, or of hosts what it sends at most (inf: no cap), shape (n,)."""
        if self._hosts:
            self._caps_bps = rates_bps
        else:
            self._settings["flow_rates"] = (self._ids, rates_bps)

    def multiply_windows(self, factors: FloatArray) -> None:
        """Multiply each flow's window, shape (n,)."""
        self._settings["window_factors"] = (self._ids, factors)

    def pass_time(self, duration_s: float, out: FloatArray) -> None:
        """Let time pass and read the counters at its end, shape (n, N_COUNTERS), as in ``single_flows``."""
        if duration_s <= 0.0:
            read = self._network.refresh(self._ids)
        else:
            caps_bps, settings = self._caps_bps, self._settings
            self._caps_bps, self._settings = None, {}
            read = self._network.step(caps_bps, duration_s, read_flows=self._ids, **settings)
        if self._hosts:
            self._of_hosts(read, out)
        else:
            out[:] = read.flow_counters

    def pass_interval(self, interval_s: float, middle: FloatArray, after: FloatArray) -> float:
        """Let an interval pass; read in its middle and at its end.

        Returns:
            How long it was, s, by the kernel's clock.
        """
        began_s: float = self._network.now_s
        self.pass_time(0.5 * interval_s, middle)
        self.pass_time(began_s + interval_s - self._network.now_s, after)
        return float(self._network.now_s - began_s)

    def _of_hosts(self, read: Any, out: FloatArray) -> None:
        """Counters of hosts; of what is under way now, the sums of their flows."""
        hosts, flows = read.hosts, read.flow_counters
        out[:] = 0.0
        out[:, SENT_PACKETS] = hosts.sent_packets
        out[:, ACKED_PACKETS] = hosts.acked_packets
        out[:, MARKED_PACKETS] = hosts.marked_packets
        out[:, LOST_PACKETS] = hosts.retransmitted_packets
        out[:, DELIVERED_PACKETS] = hosts.delivered_bytes / self._network.scenario.transport.payload_bytes
        out[:, RTT_SUM_S] = hosts.rtt_sum_s
        out[:, RTT_SAMPLES] = hosts.rtt_samples
        out[:, TIMEOUTS] = hosts.timeouts
        out[:, ACTIVE_FLOWS] = hosts.active_flows
        active = flows[:, ACTIVE_FLOWS] > 0.0
        for column in (IN_FLIGHT_PACKETS, CWND_PACKETS):
            out[:, column] = np.bincount(self._src[active], weights=flows[active, column], minlength=self._n)
