"""Trace files: a recording as Chrome/Perfetto JSON, or the packets of a link as pcap.

The JSON opens in https://ui.perfetto.dev and chrome://tracing. The pcap has nanosecond timestamps and headers
of TCP over IPv4 over Ethernet: addresses 10.x.y.z from host ids, ports of the schedule, sequence numbers in
bytes from 1, ECN bits and SACK options. Payloads are zeros and truncated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sysgym.emulator.chrome_trace import Event, counter, named_process, rounded_us, trace_text
from sysgym.emulator.packets.counters.recording import Recording
from sysgym.emulator.packets.memory.records import (
    PACKET_CE,
    PACKET_ECN_CAPABLE,
    PACKET_IS_ACK,
    PACKET_TRIMMED,
    SYN,
)
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.workloads import FlowSchedule
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.files import make_folder, replacing, write_atomically

PCAP_MAGIC_NS = 0xA1B23C4D
LINKTYPE_ETHERNET = 1
SNAP_BYTES = 134
"""Longest frame kept: Ethernet, IPv4 and TCP headers with all options."""
ETHERNET_BYTES = 14

_IPV4, _TCP, _TTL, _DO_NOT_FRAGMENT = 0x0800, 6, 64, 0x4000
_SYN_FLAG, _ACK_FLAG, _ECE_FLAG = 0x02, 0x10, 0x40
_ECT_0, _CE = 0b10, 0b11
_NOP, _SACK_OPTION, _SACK_BYTES = 1, 5, 10
_MOST_OPTION_BYTES = 40
_QUEUES_PID, _FLOWS_PID = 1, 2

MOST_TRACED_FLOWS = 256
"""Largest number of flows in a trace, the first ones; a file of this size still opens quickly."""


def write_chrome_trace(path: Path, network: PacketNetwork, recording: Recording) -> None:
    """Write queues as counters and flows as spans with windows and rates, in Chrome's JSON format.

    Args:
        path: File to write.
        network: Recorded network.
        recording: Recording of the network.

    Raises:
        StorageError: If the file cannot be written.
    """
    events = [*_queue_events(network, recording), *_flow_events(network, recording)]
    make_folder(path.parent)
    write_atomically(path, trace_text(events).encode())


def _queue_events(network: PacketNetwork, recording: Recording) -> Iterator[Event]:
    yield from named_process(_QUEUES_PID, f"queues of {network.scenario.name}")
    for port in recording.port_samples():
        name = f"queue {network.topology.link_names[port['port']]}"
        yield counter(_QUEUES_PID, name, port["time_s"], "bytes", round(float(port["queue_bytes"])))


def _flow_events(network: PacketNetwork, recording: Recording) -> Iterator[Event]:
    yield from named_process(_FLOWS_PID, "flows")
    table, names = network.flows(), network.topology.node_names
    shown = recording.flows[:MOST_TRACED_FLOWS]
    for flow in shown[table.started[shown]]:
        end_s = table.finish_s[flow] if np.isfinite(table.finish_s[flow]) else network.now_s
        span = {
            "cat": "flow",
            "name": f"flow {flow}: {names[table.src[flow]]} to {names[table.dst[flow]]}",
            "id": int(flow),
            "pid": _FLOWS_PID,
            "tid": int(table.src[flow]),
        }
        facts = {
            "size_bytes": int(table.size_bytes[flow]),
            "delivered_bytes": int(table.delivered_bytes[flow]),
            "retransmitted_packets": int(table.retransmitted_packets[flow]),
        }
        yield {**span, "ph": "b", "ts": rounded_us(table.start_s[flow]), "args": facts}
        yield {**span, "ph": "e", "ts": rounded_us(end_s)}
    samples = recording.flow_samples()
    for sample in samples[np.isin(samples["flow"], shown)]:
        flow, time_s = sample["flow"], sample["time_s"]
        if np.isfinite(sample["cwnd_packets"]):
            window = round(float(sample["cwnd_packets"]), 3)
            yield counter(_FLOWS_PID, f"window {flow}", time_s, "packets", window)
        yield counter(_FLOWS_PID, f"goodput {flow}", time_s, "bit/s", round(float(sample["goodput_bps"])))


def write_pcap(path: Path, network: PacketNetwork, recording: Recording, link: str) -> int:
    """Write the packets of a recorded link as a pcap file with nanoseconds, and return their number.

    Args:
        path: File to write.
        network: Recorded network.
        recording: Recording of the network.
        link: Name of the link.

    Raises:
        SysgymError: If the link was not recorded.
        StorageError: If the file cannot be written.
    """
    chosen = network.topology.links_named(link)
    if len(chosen) != 1 or chosen[0] not in recording.links:
        recorded = ", ".join(network.topology.link_names[known] for known in recording.links)
        raise SysgymError(f'pcap: "{link}" is not one recorded link; recorded: {recorded or "none"}')
    packets = recording.packets
    packets = packets[packets["link"] == chosen[0]]
    frames = _Frames(network)
    make_folder(path.parent)
    with replacing(path) as file:
        file.write(struct.pack("<IHHiIII", PCAP_MAGIC_NS, 2, 4, 0, 0, SNAP_BYTES, LINKTYPE_ETHERNET))
        for packet in packets:
            frame, wire_bytes = frames.frame(packet)
            seconds, nanoseconds = divmod(int(packet["time_ns"]), 10**9)
            file.write(struct.pack("<IIII", seconds, nanoseconds, len(frame), wire_bytes) + frame)
    return len(packets)


class _Frames:
    """Headers of the packets of a network."""

    def __init__(self, network: PacketNetwork) -> None:
        self._schedule: FlowSchedule = network.schedule
        ends = network.scenario.transport
        self._payload_bytes = ends.payload_bytes
        self._data_options = _option_bytes(ends.header_bytes)
        self._ack_options = _option_bytes(ends.ack_bytes)
        self._header_bytes = ends.header_bytes

    def frame(self, packet: Any) -> tuple[bytes, int]:
        """Return the frame without its payload, and its length on the wire."""
        is_ack = bool(packet["flags"] & PACKET_IS_ACK)
        is_syn = packet["seq"] == SYN
        flow = int(packet["flow"])
        src, dst = int(self._schedule.src[flow]), int(self._schedule.dst[flow])
        ports = int(self._schedule.src_port[flow]), int(self._schedule.dst_port[flow])
        if is_ack:
            src, dst, ports = dst, src, ports[::-1]
        marked = bool(packet["flags"] & PACKET_CE)
        if is_syn:
            tcp = self._syn_header(ports, is_ack)
            payload_bytes, ecn = 0, 0
        elif is_ack:
            # A report of a trimmed packet has nothing to acknowledge beyond what arrived in order.
            seq = int(packet["ack" if packet["flags"] & PACKET_TRIMMED else "seq"])
            tcp = self._ack_header(ports, flow, seq, int(packet["ack"]), marked)
            payload_bytes, ecn = 0, 0
        else:
            tcp = self._data_header(ports, int(packet["seq"]))
            payload_bytes = int(packet["size_bytes"]) - self._header_bytes
            ecn = (_CE if marked else _ECT_0) if packet["flags"] & (PACKET_ECN_CAPABLE | PACKET_CE) else 0
        total_bytes = 20 + len(tcp) + payload_bytes
        addresses = _address(src) + _address(dst)
        pseudo = addresses + struct.pack(">BBH", 0, _TCP, len(tcp) + payload_bytes)
        tcp = tcp[:16] + struct.pack(">H", checksum(pseudo + tcp)) + tcp[18:]
        fixed = struct.pack(">BBHHHBB", 0x45, ecn, total_bytes, 0, _DO_NOT_FRAGMENT, _TTL, _TCP)
        ip = fixed + struct.pack(">H", checksum(fixed + b"\0\0" + addresses)) + addresses
        ethernet = _hardware_address(dst) + _hardware_address(src) + struct.pack(">H", _IPV4)
        wire_bytes = ETHERNET_BYTES + max(total_bytes, int(packet["size_bytes"]))
        return ethernet + ip + tcp, wire_bytes

    def _syn_header(self, ports: tuple[int, int], is_answer: bool) -> bytes:
        options = bytes([_NOP]) * self._ack_options
        return _tcp_header(ports, 0, int(is_answer), _SYN_FLAG | (_ACK_FLAG if is_answer else 0), options)

    def _data_header(self, ports: tuple[int, int], seq: int) -> bytes:
        options = bytes([_NOP]) * self._data_options
        return _tcp_header(ports, 1 + seq * self._payload_bytes, 1, _ACK_FLAG, options)

    def _ack_header(self, ports: tuple[int, int], flow: int, seq: int, ack: int, marked: bool) -> bytes:
        options = b""
        if seq > ack:
            block = struct.pack(">II", *(self._byte(flow, end) & 0xFFFFFFFF for end in (seq, seq + 1)))
            options = bytes([_NOP, _NOP, _SACK_OPTION, _SACK_BYTES]) + block
        options += bytes([_NOP]) * (self._ack_options - len(options))
        flags = _ACK_FLAG | (_ECE_FLAG if marked else 0)
        return _tcp_header(ports, 1, self._byte(flow, ack), flags, options)

    def _byte(self, flow: int, packet: int) -> int:
        """Return the sequence number of a packet's first byte; after the last one, that of the end."""
        size_bytes = int(self._schedule.size_bytes[flow])
        first = packet * self._payload_bytes
        return 1 + (min(first, size_bytes) if size_bytes >= 0 else first)


def _option_bytes(header_bytes: int) -> int:
    """Return the size of the options that fill IPv4 and TCP headers up to a size, in whole words."""
    return min(max(header_bytes - 40, 0) // 4 * 4, _MOST_OPTION_BYTES)


def _tcp_header(ports: tuple[int, int], seq: int, ack: int, flags: int, options: bytes) -> bytes:
    words = (20 + len(options)) // 4
    numbers = seq & 0xFFFFFFFF, ack & 0xFFFFFFFF
    return struct.pack(">HHIIBBHHH", *ports, *numbers, words << 4, flags, 65535, 0, 0) + options


def _address(host: int) -> bytes:
    return struct.pack(">I", (10 << 24) + host + 1)


def _hardware_address(host: int) -> bytes:
    return b"\x02\0" + struct.pack(">I", host + 1)


def checksum(data: bytes) -> int:
    """Return the internet checksum (RFC 1071)."""
    padded = data + b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
