"""Protocol of the networks of congestion control, common to the packet simulator and the Linux kernel.

Environments and agents are written against :class:`Network`. The packet simulator implements it in
:mod:`sysgym.emulator.packets.network`, the kernel in :mod:`sysgym.emulator.linux.client`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.counters.rows import FlowCounterArray
from sysgym.emulator.packets.counters.statistics import FlowTable, HostCounters, PortCounters
from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.workloads import FlowSchedule
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.errors import SysgymError

FloatArray = NDArray[np.float64]
FlowIds = NDArray[np.int64]


class PerFlow(NamedTuple):
    """One number for each of some flows.

    Attributes:
        flow_ids: Shape (n,).
        values: One value for all flows, or one for each.
    """

    flow_ids: FlowIds
    values: FloatArray | float


@dataclass(frozen=True)
class Controls:
    """Settings applied at once; None leaves a setting unchanged.

    Attributes:
        host_caps_bps: Rate cap of each host, headers included, shape (n_hosts,), positive; ``inf`` lifts a
            cap.
        flow_rates_bps: Pacing rates of single flows, headers included, positive and finite.
        window_factors: Factors of the congestion windows of single flows.
    """

    host_caps_bps: FloatArray | None = None
    flow_rates_bps: PerFlow | None = None
    window_factors: PerFlow | None = None


class Readings(NamedTuple):
    """All counters of a network at one time."""

    now_s: float
    """Time since the reset."""
    jitter_s: float
    """Delay of the reading behind its nominal time; 0 in simulated time."""
    ports: PortCounters
    hosts: HostCounters
    flow_counters: FlowCounterArray | None
    """Records of the type ``FLOW_COUNTERS``, shape (n,), for the requested flows."""


class Network(Protocol):
    """Datacenter network in simulated or real time."""

    @property
    def scenario(self) -> CongestionScenario:
        """Scenario of the network."""

    @property
    def topology(self) -> Topology:
        """Hosts, switches and links."""

    @property
    def schedule(self) -> FlowSchedule:
        """The flows of this episode."""

    @property
    def n_hosts(self) -> int:
        """Number of hosts."""

    @property
    def n_links(self) -> int:
        """Number of directed links, each with its output port."""

    @property
    def line_rate_bps(self) -> FloatArray:
        """Rate of every host's uplink, shape (n_hosts,)."""

    @property
    def link_rate_bps(self) -> FloatArray:
        """Present rate of every link, shape (n_links,)."""

    @property
    def now_s(self) -> float:
        """Time since the reset."""

    def reset(self, seed: int, schedule: FlowSchedule | None = None) -> None:
        """Empty the network, lift all caps and go back to time 0.

        Args:
            seed: Seed of the workload, unless there is a schedule.
            schedule: Flows to run instead of the scenario's workload.
        """

    def draw_schedule(self, seed: int) -> FlowSchedule:
        """Return the scenario's workload for a seed, as drawn by :meth:`reset`."""

    def apply(self, controls: Controls) -> None:
        """Set caps, paces and windows now."""

    def advance(self, duration_s: float) -> None:
        """Let time pass."""

    def step(self, controls: Controls, duration_s: float, *, read_flows: FlowIds | None = None) -> Readings:
        """Set caps, paces and windows, let time pass, and read all counters.

        Args:
            controls: Settings to apply first.
            duration_s: Length of the interval; 0 sets and reads.
            read_flows: Flows whose counters are returned.
        """

    def ports(self) -> PortCounters:
        """Return the counters of all output ports."""

    def hosts(self) -> HostCounters:
        """Return the counters of all hosts."""

    def flows(self) -> FlowTable:
        """Return the counters of all flows."""

    def clear_maxima(self) -> None:
        """Reset the largest queues: a new interval begins."""

    def routes(self, *, acks: bool = False) -> NDArray[np.int32]:
        """Return the links of each flow's data, or ACKs, shape (n_flows, longest route), padded with -1."""

    def queue_quantile_bytes(self, quantile: float) -> FloatArray:
        """Return the time-weighted quantile of every port's queue since the reset, shape (n_links,)."""

    def oracle_rates_bps(self) -> FloatArray:
        """Return the max-min fair send rates of the hosts for the active flows, bit/s, shape (n_hosts,)."""

    def close(self) -> None:
        """Release the network's resources; calling it more than once is harmless."""


def checked_host_caps(rate_bps: FloatArray, n_hosts: int) -> FloatArray:
    """Return checked rate caps of hosts as a new array of float64.

    Raises:
        SysgymError: If the shape is wrong or a rate is not positive.
    """
    caps_bps = np.array(rate_bps, dtype=np.float64)
    if caps_bps.shape != (n_hosts,) or not np.all(caps_bps > 0):
        raise SysgymError(
            f"host rate caps: got shape {caps_bps.shape}, least {caps_bps.min(initial=np.inf)}; "
            f"expected {n_hosts} positive rates in bit/s"
        )
    return caps_bps
