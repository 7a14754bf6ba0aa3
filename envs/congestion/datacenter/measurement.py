"""Measurements of one decision interval: the difference of two readings of the network's counters.

Observation, reward and metrics all read the same :class:`Interval`, so they cannot disagree about what was
measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.counters.statistics import HostCounters, PortCounters
from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.emulator.packets.topology.round_trips import longest_round_trip_s
from sysgym.scenarios import CongestionScenario

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Fabric:
    """What does not change within an episode. Ports are the output ports of switches, as in ``port_links``.

    Attributes:
        topology: The network.
        port_links: Link of every switch port, shape (n_ports,).
        port_names: ``source->target`` of every switch port.
        host_names: Name of every host.
        port_rate_bps: Rate of every switch port, shape (n_ports,).
        line_rate_bps: Rate of every host's uplink, shape (n_hosts,).
        exit_ports: Which switch ports lead to a host, shape (n_ports,).
        buffer_bytes: Buffer of every switch port.
        ecn_threshold_bytes: A packet that finds more in the queue is marked; None: no marking.
        payload_fraction: Payload's share of a full packet.
        base_rtt_s: Round trip of one full packet and its ACK over the longest of the shortest paths, network
            empty.
    """

    topology: Topology
    port_links: IntArray
    port_names: tuple[str, ...]
    host_names: tuple[str, ...]
    port_rate_bps: FloatArray
    line_rate_bps: FloatArray
    exit_ports: NDArray[np.bool_]
    buffer_bytes: float
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
    def exits(self) -> IntArray:
        """Switch ports that lead to a host, ascending."""
        return np.flatnonzero(self.exit_ports)

    def equals(self, other: Fabric) -> bool:
        """Whether nothing that is measured depends on which of the two a network has."""
        return (
            self.port_names == other.port_names
            and self.buffer_bytes == other.buffer_bytes
            and self.payload_fraction == other.payload_fraction
            and self.base_rtt_s == other.base_rtt_s
            and np.array_equal(self.port_rate_bps, other.port_rate_bps)
            and np.array_equal(self.line_rate_bps, other.line_rate_bps)
        )

    @classmethod
    def of(cls, scenario: CongestionScenario) -> Fabric:
        """Read what the environment needs off a scenario."""
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
            ecn_threshold_bytes=scenario.queue.ecn_threshold_bytes,
            payload_fraction=1.0 - scenario.transport.header_bytes / scenario.transport.mtu_bytes,
            base_rtt_s=longest_round_trip_s(
                topology, scenario.transport.mtu_bytes, scenario.transport.ack_bytes
            ),
        )


@dataclass(frozen=True)
class Reading:
    """The network's counters at one moment; of many networks, each array has one axis more, the first."""

    now_s: float | FloatArray
    ports: PortCounters
    hosts: HostCounters


@dataclass(frozen=True)
class Interval:
    """What happened between two readings. Arrays over ports are those of switches, shape (n_ports,).

    Of many networks with a common fabric, all arrays have one axis more, the first, and what is one number of
    a network is an array.

    Attributes:
        fabric: The network.
        before: Reading at the beginning.
        after: Reading at the end.
        action: Send rate in force, as a fraction of line rate, shape (n_hosts,).
        ideal_bytes: Payload that each host would deliver at its max-min fair rate, shape (n_hosts,); nothing
            for a host that had nothing to send when the interval began.
    """

    fabric: Fabric
    before: Reading
    after: Reading
    action: FloatArray
    ideal_bytes: FloatArray

    @cached_property
    def duration_s(self) -> FloatArray:
        """Simulated time that passed; 0 for the moment of a reset without warm-up."""
        return np.asarray(self.after.now_s - self.before.now_s)

    @cached_property
    def each_duration_s(self) -> FloatArray:
        """The same, to reckon with arrays over ports or hosts: an axis of length 1 stands for them."""
        return self.duration_s[..., np.newaxis]

    def _of_ports(self, of_links: NDArray[Any]) -> FloatArray:
        return np.asarray(np.take(of_links, self.fabric.port_links, axis=-1), dtype=np.float64)

    def _port_difference(self, counter: str) -> FloatArray:
        return self._of_ports(getattr(self.after.ports, counter) - getattr(self.before.ports, counter))

    def _host_difference(self, counter: str) -> FloatArray:
        difference = getattr(self.after.hosts, counter) - getattr(self.before.hosts, counter)
        return np.asarray(difference, dtype=np.float64)

    @cached_property
    def queue_bytes(self) -> FloatArray:
        """Queue of every port at the end."""
        return self._of_ports(self.after.ports.queue_bytes)

    @cached_property
    def queue_mean_bytes(self) -> FloatArray:
        """Mean queue of every port over time."""
        mean_bytes = self.queue_bytes.copy()
        passed_s = self.each_duration_s
        return np.divide(
            self._port_difference("queue_byte_s"), passed_s, out=mean_bytes, where=passed_s > 0.0
        )

    @cached_property
    def queue_max_bytes(self) -> FloatArray:
        """Largest queue of every port."""
        return self._of_ports(self.after.ports.queue_max_bytes)

    @cached_property
    def sent_bytes(self) -> FloatArray:
        """Bytes that every port put on the wire."""
        return self._port_difference("sent_bytes")

    @cached_property
    def accepted_packets(self) -> FloatArray:
        """Packets that every port took into its queue."""
        return self._port_difference("accepted_packets")

    @cached_property
    def marked_packets(self) -> FloatArray:
        """Packets that every port marked."""
        return self._port_difference("marked_packets")

    @cached_property
    def dropped_packets(self) -> FloatArray:
        """Packets that every port dropped."""
        return self._port_difference("dropped_packets")

    @cached_property
    def dropped_bytes(self) -> FloatArray:
        """Bytes dropped anywhere, the hosts' own queues included; one number."""
        dropped = self.after.ports.dropped_bytes - self.before.ports.dropped_bytes
        return np.asarray(dropped.sum(axis=-1), dtype=np.float64)

    @cached_property
    def delivered_bytes(self) -> FloatArray:
        """Payload that every host's flows delivered in order."""
        return self._host_difference("delivered_bytes")

    @cached_property
    def arrived_bytes(self) -> FloatArray:
        """Wire bytes that reached every host, shape (n_hosts,)."""
        arrived = self.after.ports.sent_bytes - self.before.ports.sent_bytes
        return np.asarray(np.take(arrived, self.fabric.topology.host_downlink, axis=-1), dtype=np.float64)

    @cached_property
    def rtt_mean_s(self) -> FloatArray:
        """Mean round trip of every host's flows; nan without a sample."""
        samples = self._host_difference("rtt_samples")
        mean_s = np.full(samples.shape, np.nan)
        np.divide(self._host_difference("rtt_sum_s"), samples, out=mean_s, where=samples > 0)
        return mean_s

    @cached_property
    def active_flows(self) -> IntArray:
        """Flows of every host with something left to send, at the end."""
        return np.asarray(self.after.hosts.active_flows, dtype=np.int64)

    @cached_property
    def waiting_byte_s(self) -> FloatArray:
        """Integral over time of the bytes that waited in switch queues, all ports; one number.

        The counters also hold the packet being sent with what is left of it; half a packet for the time that
        sending takes is therefore taken off (exact where a port's packets are of one size).
        """
        mean_packet_bytes = np.divide(
            self.sent_bytes,
            self.accepted_packets,
            out=np.zeros_like(self.sent_bytes),
            where=self.accepted_packets > 0.0,
        )
        sending_byte_s = 0.5 * mean_packet_bytes * self.sent_bytes * 8.0 / self.fabric.port_rate_bps
        waiting = np.maximum(self.queue_mean_bytes * self.each_duration_s - sending_byte_s, 0.0)
        return np.asarray(waiting.sum(axis=-1))

    @cached_property
    def left_bytes(self) -> FloatArray:
        """Bytes that left the network to the hosts; one number."""
        return np.asarray(np.take(self.sent_bytes, self.fabric.exits, axis=-1).sum(axis=-1))

    @cached_property
    def queueing_delay_s(self) -> FloatArray:
        """Mean time that a byte which leaves the network has waited in switch queues.

        By Little's law: the integral of what waits over the bytes that left to the hosts. With a queue and
        nothing leaving it is infinite. One number.
        """
        nothing_left_s = np.where(self.waiting_byte_s > 0.0, np.inf, 0.0)
        return np.divide(
            self.waiting_byte_s, self.left_bytes, out=nothing_left_s, where=self.left_bytes > 0.0
        )

    @cached_property
    def loss_fraction(self) -> FloatArray:
        """Of the bytes that left the network, the share that was dropped; one number."""
        gone_bytes = self.dropped_bytes + self.left_bytes
        return np.divide(
            self.dropped_bytes, gone_bytes, out=np.zeros_like(gone_bytes), where=gone_bytes > 0.0
        )
