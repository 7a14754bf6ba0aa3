"""Measurements of one decision interval: differences between two readings of the network's counters.

Observation, reward and metrics are computed from the same :class:`Interval`, so they are always consistent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.counters.statistics import HostCounters, PortCounters
from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.emulator.packets.topology.round_trips import longest_round_trip_s
from sysgym.envs.congestion.datacenter.derived import Derived, FabricArrays
from sysgym.scenarios import CongestionScenario

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Fabric:
    """Constants of an episode. Ports are the output ports of switches, as in ``port_links``.

    Attributes:
        topology: The network.
        port_links: Link of every switch port, shape (n_ports,).
        port_names: ``source->target`` of every switch port.
        host_names: Name of every host.
        port_rate_bps: Rate of every switch port, shape (n_ports,).
        line_rate_bps: Rate of every host's uplink, shape (n_hosts,).
        exit_ports: Whether a switch port leads to a host, shape (n_ports,).
        buffer_bytes: Buffer size of the scenario's switch ports.
        port_buffer_bytes: Bytes that can wait at each switch port: its buffer for each class and, with
            priority flow control, for each link into the switch; shape (n_ports,).
        ecn_threshold_bytes: Queue length above which arriving packets are marked; None: no marking.
        payload_fraction: Share of payload in a full-size packet.
        base_rtt_s: Round-trip time of one full-size packet and its ACK over the longest of the shortest
            paths of the empty network.
    """

    topology: Topology
    port_links: IntArray
    port_names: tuple[str, ...]
    host_names: tuple[str, ...]
    port_rate_bps: FloatArray
    line_rate_bps: FloatArray
    exit_ports: NDArray[np.bool_]
    buffer_bytes: float
    port_buffer_bytes: FloatArray
    ecn_threshold_bytes: float | None
    payload_fraction: float
    base_rtt_s: float

    @property
    def n_hosts(self) -> int:
        """Number of hosts."""
        return len(self.host_names)

    @property
    def n_ports(self) -> int:
        """Number of switch ports."""
        return len(self.port_names)

    @cached_property
    def arrays(self) -> FabricArrays:
        """The constants that compiled code needs."""
        return FabricArrays(
            port_links=self.port_links,
            exits=np.flatnonzero(self.exit_ports),
            host_downlink=np.asarray(self.topology.host_downlink, dtype=np.int64),
            port_rate_bps=self.port_rate_bps,
            line_rate_bps=self.line_rate_bps,
            port_buffer_bytes=self.port_buffer_bytes,
            payload_fraction=self.payload_fraction,
            base_rtt_s=self.base_rtt_s,
        )

    def equals(self, other: Fabric) -> bool:
        """Return whether measurements are the same with either fabric."""
        return (
            self.port_names == other.port_names
            and self.payload_fraction == other.payload_fraction
            and self.base_rtt_s == other.base_rtt_s
            and np.array_equal(self.port_buffer_bytes, other.port_buffer_bytes)
            and np.array_equal(self.port_rate_bps, other.port_rate_bps)
            and np.array_equal(self.line_rate_bps, other.line_rate_bps)
        )

    @classmethod
    def of(cls, scenario: CongestionScenario) -> Fabric:
        """Return the fabric of a scenario."""
        topology = build_topology(scenario.topology)
        ports = np.asarray(topology.switch_ports, dtype=np.int64)
        names = topology.node_names
        source, target = topology.link_source[ports], topology.link_target[ports]
        return cls(
            topology=topology,
            port_links=ports,
            port_names=tuple(f"{names[a]}->{names[b]}" for a, b in zip(source, target, strict=True)),
            host_names=tuple(names[: topology.n_hosts]),
            port_rate_bps=np.asarray(topology.link_rate_bps[ports], dtype=np.float64),
            line_rate_bps=np.asarray(topology.link_rate_bps[topology.host_uplink], dtype=np.float64),
            exit_ports=np.asarray(topology.to_host[ports], dtype=np.bool_),
            buffer_bytes=float(scenario.queue.buffer_bytes),
            port_buffer_bytes=_port_buffers_bytes(scenario, topology),
            ecn_threshold_bytes=scenario.queue.ecn_threshold_bytes,
            payload_fraction=1.0 - scenario.transport.header_bytes / scenario.transport.mtu_bytes,
            base_rtt_s=longest_round_trip_s(
                topology, scenario.transport.mtu_bytes, scenario.transport.ack_bytes
            ),
        )


def _port_buffers_bytes(scenario: CongestionScenario, topology: Topology) -> FloatArray:
    """Return the bytes that can wait at each switch port, shape (n_ports,)."""
    queue, ports = scenario.queue, topology.switch_ports
    found = topology.buffers_bytes(queue.buffer_bytes)[ports] * queue.classes
    if queue.pfc_pause_bytes is not None:
        links_into = np.bincount(topology.link_target, minlength=len(topology.node_names))
        found *= links_into[topology.link_source[ports]]
    return found


@dataclass(frozen=True)
class Reading:
    """Counters of a network at one moment; for many networks, arrays have an additional first axis."""

    now_s: float | FloatArray
    ports: PortCounters
    hosts: HostCounters


class Routing(NamedTuple):
    """Paths of all flows of an episode, whether they have begun or not.

    Attributes:
        uses: Whether a switch port is on a data path of a host, shape (n_hosts, n_ports).
        fair_rates: Max-min fair send rate of each host with all flows active, as a fraction of its line rate,
            shape (n_hosts,).
    """

    uses: BoolArray
    fair_rates: FloatArray


@dataclass(frozen=True)
class Interval:
    """Measurements between two readings. Arrays over ports cover switch ports only, shape (n_ports,).

    For many networks with a common fabric, all arrays have an additional first axis, and scalars are arrays.

    Attributes:
        fabric: The network.
        before: Reading at the beginning.
        after: Reading at the end.
        action: Send rate in force, as a fraction of the line rate, shape (n_hosts,).
        ideal_bytes: Payload that each host would deliver at its max-min fair rate, shape (n_hosts,); 0 for a
            host that had nothing to send at the beginning of the interval.
        routing: Who sends over which ports; None if no feature of the observation needs it.
    """

    fabric: Fabric
    before: Reading
    after: Reading
    action: FloatArray
    ideal_bytes: FloatArray
    routing: Routing | None = None

    @cached_property
    def duration_s(self) -> FloatArray:
        """Duration in simulated time; 0 at a reset without warm-up."""
        return np.asarray(self.after.now_s - self.before.now_s)

    @cached_property
    def derived(self) -> Derived:
        """Everything that the counters say, computed by one call of compiled code."""
        readings = (self.before, self.after)
        ports = np.array([reading.ports for reading in readings], dtype=np.float64)
        hosts = np.array([reading.hosts for reading in readings], dtype=np.float64)
        if self.duration_s.ndim:
            return Derived.of(
                self.fabric.arrays, ports, hosts, self.duration_s, self.action, self.ideal_bytes
            )
        return Derived.of_one(
            self.fabric.arrays,
            ports[:, :, np.newaxis],
            hosts[:, :, np.newaxis],
            self.duration_s[np.newaxis],
            self.action[np.newaxis],
            self.ideal_bytes[np.newaxis],
        )

    @property
    def queue_bytes(self) -> FloatArray:
        """Queue of every port at the end of the interval."""
        return self.derived.ports.queue_bytes

    @property
    def queue_mean_bytes(self) -> FloatArray:
        """Time-averaged queue of every port."""
        return self.derived.ports.queue_mean_bytes

    @property
    def queue_max_bytes(self) -> FloatArray:
        """Largest queue of every port."""
        return self.derived.ports.queue_max_bytes

    @property
    def sent_bytes(self) -> FloatArray:
        """Bytes sent by every port."""
        return self.derived.ports.sent_bytes

    @property
    def accepted_packets(self) -> FloatArray:
        """Packets accepted into the queue of every port."""
        return self.derived.ports.accepted_packets

    @property
    def marked_packets(self) -> FloatArray:
        """Packets marked by every port."""
        return self.derived.ports.marked_packets

    @property
    def dropped_packets(self) -> FloatArray:
        """Packets dropped by every port."""
        return self.derived.ports.dropped_packets

    @property
    def delivered_bytes(self) -> FloatArray:
        """Payload delivered in order by the flows of every host."""
        return self.derived.hosts.delivered_bytes

    @property
    def arrived_bytes(self) -> FloatArray:
        """Bytes on the wire that reached every host, shape (n_hosts,)."""
        return self.derived.hosts.arrived_bytes

    @property
    def rtt_mean_s(self) -> FloatArray:
        """Mean round-trip time of the flows of every host; NaN without a sample."""
        return self.derived.hosts.rtt_mean_s

    @cached_property
    def active_flows(self) -> IntArray:
        """Number of flows of every host with data left to send, at the end of the interval."""
        return np.asarray(self.after.hosts.active_flows, dtype=np.int64)

    @property
    def dropped_bytes(self) -> Any:
        """Bytes dropped in the whole network, the queues of hosts included; a scalar."""
        return self.derived.totals.dropped_bytes

    @property
    def waiting_byte_s(self) -> Any:
        """Integral over time of the bytes waiting in switch queues, summed over ports; a scalar."""
        return self.derived.totals.waiting_byte_s

    @property
    def left_bytes(self) -> Any:
        """Bytes that left the network to the hosts; a scalar."""
        return self.derived.totals.left_bytes

    @property
    def queueing_delay_s(self) -> Any:
        """Mean time that bytes leaving the network have waited in switch queues; a scalar.

        Little's law: the integral of the waiting bytes divided by the bytes that left to the hosts. Infinite
        if bytes wait and none leave.
        """
        return self.derived.totals.queueing_delay_s

    @property
    def loss_fraction(self) -> Any:
        """Share of bytes dropped among all bytes that left the network or were dropped; a scalar."""
        return self.derived.totals.loss_fraction
