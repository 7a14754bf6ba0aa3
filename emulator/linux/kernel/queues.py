"""Output queues of a world: rate, buffer, ECN marks, early detection and counters of every port.

A port is an ``htb`` shaper with one class over a byte-limited FIFO, preceded by the port program. Rates,
limits and readings are in bytes of IP packets, 1500 for a full one, as in the simulator. The kernel's queues
count the 14 bytes of Ethernet's header as well, so their settings are larger by that share of a full packet.
A bundle of packets (GSO) counts as the packets that it will be on the wire.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.kernel import netlink
from sysgym.emulator.linux.kernel.bpf_programs import Programs, bucket_middles
from sysgym.emulator.linux.kernel.early_detection import NO_EARLY_DETECTION, EarlyDetection
from sysgym.emulator.linux.kernel.netlink import (
    CREATE,
    EXCLUSIVE,
    ROOT,
    Netlink,
    QueueCounters,
    attribute,
    nested,
    tc_message,
)
from sysgym.emulator.packets.counters.rows import PORT_ROW
from sysgym.emulator.packets.topology.graph import shaper_burst_s

__all__ = ["PortSettings", "QueueCounters", "Queues"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

PACKET_BYTES = 1500
_ON_WIRE = (PACKET_BYTES + 14) / PACKET_BYTES  # Ethernet's header
_MOST_COPIES = 4  # after this many, a record may mix two moments: an error of one packet
_TICK_S = 64e-9  # unit of time of htb, PSCHED_SHIFT
_HANDLE, _CLASS, _LEAF = 0x10000, 0x10001, 0x20000
_ETHERNET = 1  # TC_LINKLAYER_ETHERNET: the kernel computes times itself, without a table
_RATE = struct.Struct("=BBHhHI")
_HTB_CLASS = struct.Struct("=12s12sIIIII")
_LARGEST_RATE = 0xFFFFFFFF


@dataclass(frozen=True)
class PortSettings:
    """Settings of a port.

    Attributes:
        rate_bps: Line rate, of IP packets.
        buffer_bytes: Limit of the queue; a packet that does not fit is dropped.
        ecn_threshold_bytes: ECN-capable packets that find a longer queue are marked; None for no marking.
        early_detection: Marks or drops before the buffer is full; None for none.
        loss_probability: Probability that a packet is lost at random on the cable behind the queue.
    """

    rate_bps: float
    buffer_bytes: int
    ecn_threshold_bytes: int | None = None
    early_detection: EarlyDetection | None = None
    loss_probability: float = 0.0


class Queues:
    """Setter and reader of the ports of a world's namespaces.

    Args:
        programs: The loaded programs; the port program is attached to every port with a number.

    Raises:
        BackendError: From every method, if the kernel refuses a request; names the request.
    """

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._settings: dict[tuple[int, str], tuple[PortSettings, int | None]] = {}
        self._caps: dict[tuple[int, str], float] = {}
        self._records = programs.ports()
        self._histograms = programs.port_histograms()

    def set_port(
        self, netns_pid: int, interface: str, settings: PortSettings, port: int | None = None
    ) -> None:
        """Make an interface a port, replacing its queue.

        Args:
            netns_pid: Process in whose network namespace the interface is; 0 for this process.
            interface: Its name there.
            settings: Rate, buffer and marking.
            port: Index of its record in :meth:`Programs.ports`; None for no program, no marks and no
                counters.

        Raises:
            BackendUnavailable: The kernel lacks a queueing discipline.
        """
        socket = self._programs.sockets.of(netns_pid)
        self._settings[netns_pid, interface] = (settings, port)
        self._caps.pop((netns_pid, interface), None)
        self._build_queue(socket, interface, settings)
        if port is not None:
            self._programs.attach_port(netns_pid, interface, port)
            record = self._records[port]
            record["rate_bytes_per_s"] = settings.rate_bps / 8
            record["ecn_threshold_bytes"] = settings.ecn_threshold_bytes or 0
            record["buffer_bytes"] = settings.buffer_bytes
            record["loss_q32"] = round(settings.loss_probability * 2**32)
            early = settings.early_detection
            for key, value in (
                NO_EARLY_DETECTION if early is None else early.record(settings.rate_bps)
            ).items():
                record[key] = value
            self._programs.clear_port(port)

    def set_host_cap(self, netns_pid: int, interface: str, rate_bps: float) -> None:
        """Limit the rate of a host's interface; its queue and the packets in it stay.

        Args:
            netns_pid: As for :meth:`set_port`, which must have been called.
            interface: The host's interface.
            rate_bps: Positive; the line rate or more lifts the cap.
        """
        settings, port = self._settings[netns_pid, interface]
        rate_bps = min(rate_bps, settings.rate_bps)
        if self._caps.get((netns_pid, interface), settings.rate_bps) == rate_bps:
            return
        socket = self._programs.sockets.of(netns_pid)
        body = _class_body(socket.index(interface), rate_bps)
        socket.request(netlink.RTM_NEWTCLASS, 0, body, f"set the rate of {interface}")
        if port is not None:
            self._records["rate_bytes_per_s"][port] = rate_bps / 8
        self._caps[netns_pid, interface] = rate_bps

    def reset_port(self, netns_pid: int, interface: str) -> None:
        """Empty a port's queue, lift its cap and set its counters to zero."""
        settings, port = self._settings[netns_pid, interface]
        self._caps.pop((netns_pid, interface), None)
        self._build_queue(self._programs.sockets.of(netns_pid), interface, settings)
        if port is not None:
            self._records["rate_bytes_per_s"][port] = settings.rate_bps / 8
            self._programs.clear_port(port)

    def limit_bundles(self, netns_pid: int, interface: str, packets: int = 1) -> None:
        """Limit the bundles (GSO) that TCP hands to an interface to so many packets, instead of 64 kB.

        A bundle passes a queue as one packet, is marked or dropped as one, and is forwarded by routers as it
        is. 1 is the view of a switch; more costs less processor time. Sockets read the limit when they find
        their route: call this before they are opened.
        """
        socket = self._programs.sockets.of(netns_pid)
        body = netlink.link_message(socket.index(interface))
        body += attribute(netlink.IFLA_GSO_MAX_SEGS, packets)
        socket.request(netlink.RTM_NEWLINK, 0, body, f"limit bundles of {interface}")

    def counters(self, netns_pid: int, interface: str) -> QueueCounters:
        """Return the counters of tc itself at a port since it was set or reset."""
        return self._programs.sockets.of(netns_pid).queue_counters(interface)

    def readings(self, ports: Sequence[int] | IntArray) -> FloatArray:
        """Return the counters of ports, extrapolated to this moment.

        A backlog falls at the port's rate since the last packet that arrived.

        Args:
            ports: Indices of the ports' records.

        Returns:
            Shape (11, n): rows and units as ``emulator.packets.statistics.PortCounters``.
        """
        record = self._snapshot(np.asarray(ports))
        left, area = self._since_last(record)
        out = np.zeros((len(PORT_ROW), len(record)))
        dropped_bytes = record["dropped_bytes"].astype(np.float64)
        out[PORT_ROW.queue_bytes] = left
        out[PORT_ROW.queue_byte_s] = (record["backlog_integral_byte_ns"] + area) * 1e-9
        out[PORT_ROW.queue_max_bytes] = np.maximum(record["backlog_max_bytes"], left)
        out[PORT_ROW.sent_bytes] = record["bytes"] - dropped_bytes - left
        out[PORT_ROW.accepted_packets] = record["packets"] - record["dropped_packets"]
        out[PORT_ROW.marked_packets] = record["marked_packets"]
        out[PORT_ROW.dropped_packets] = record["dropped_packets"]
        out[PORT_ROW.dropped_bytes] = dropped_bytes
        return out

    def quantiles(self, ports: Sequence[int] | IntArray, quantile: float) -> FloatArray:
        """Return the time-weighted quantile of each port's backlog since its reset, in bytes, shape (n,).

        The result is exact to one part in sixteen; the time since the last packet is counted as empty.
        """
        ports = np.asarray(ports)
        time_ns = self._histograms[ports].astype(np.float64)
        total_ns = time.monotonic_ns() - self._records[ports]["since_ns"].astype(np.float64)
        time_ns[:, 0] += total_ns - time_ns.sum(axis=1)
        reached = np.cumsum(time_ns, axis=1) >= quantile * total_ns[:, None]
        backlog: FloatArray = bucket_middles()[reached.argmax(axis=1)]
        return backlog

    def clear_maxima(self, ports: Sequence[int] | IntArray) -> None:
        """Begin a new interval for the maxima of the backlogs."""
        ports = np.asarray(ports)
        left, _ = self._since_last(self._snapshot(ports))
        self._records["backlog_max_bytes"][ports] = left

    def _snapshot(self, ports: IntArray) -> NDArray[Any]:
        """Return a consistent copy of records, which a packet may change while they are copied."""
        for _ in range(_MOST_COPIES):
            before = self._records["last_ns"][ports]
            record = self._records[ports]
            if np.array_equal(before, self._records["last_ns"][ports]):
                break
        return record

    def _since_last(self, record: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Return the current backlog in bytes, and its integral since the last packet in bytes·ns."""
        elapsed_ns = np.maximum(time.monotonic_ns() - record["last_ns"].astype(np.float64), 0.0)
        before = record["backlog_bytes"].astype(np.float64)
        per_ns = record["rate_bytes_per_s"].astype(np.float64) * 1e-9
        left = np.maximum(before - per_ns * elapsed_ns, 0.0)
        drained_ns = np.divide(before - left, per_ns, out=np.zeros_like(left), where=per_ns > 0)
        return left, 0.5 * (before + left) * drained_ns

    def _build_queue(self, socket: Netlink, interface: str, settings: PortSettings) -> None:
        index = socket.index(interface)
        gone = tc_message(index, 0, ROOT)
        socket.request(netlink.RTM_DELQDISC, 0, gone, f"empty {interface}", ignore=netlink.MISSING)
        root = tc_message(index, _HANDLE, ROOT) + attribute(netlink.TCA_KIND, "htb")
        root += nested(netlink.TCA_OPTIONS, attribute(2, struct.pack("=IIIII", 3, 10, 1, 0, 0)))
        netlink.add_queue(socket, root, "htb")
        body = _class_body(index, settings.rate_bps)
        socket.request(netlink.RTM_NEWTCLASS, CREATE | EXCLUSIVE, body, f"set the rate of {interface}")
        leaf = tc_message(index, _LEAF, _CLASS) + attribute(netlink.TCA_KIND, "bfifo")
        leaf += attribute(netlink.TCA_OPTIONS, struct.pack("=I", round(settings.buffer_bytes * _ON_WIRE)))
        netlink.add_queue(socket, leaf, "bfifo")


def _class_body(index: int, rate_bps: float) -> bytes:
    """Return the message body of htb's one class at a rate.

    With a smaller bucket a late timer of the kernel would cost capacity.
    """
    rate = max(rate_bps / 8 * _ON_WIRE, 1.0)
    small = min(math.ceil(rate), _LARGEST_RATE)
    specification = _RATE.pack(0, _ETHERNET, 0, 0, 0, small)
    packet_s = PACKET_BYTES * _ON_WIRE / rate
    ticks = math.ceil(shaper_burst_s(packet_s) / _TICK_S)
    options = _HTB_CLASS.pack(specification, specification, ticks, ticks, PACKET_BYTES, 0, 0)
    exact = b"".join(attribute(kind, struct.pack("=Q", round(rate))) for kind in (6, 7))
    body = tc_message(index, _CLASS, _HANDLE) + attribute(netlink.TCA_KIND, "htb")
    return body + nested(netlink.TCA_OPTIONS, attribute(1, options), exact)
