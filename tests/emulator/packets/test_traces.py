"""Recordings and their files: Chrome's JSON, and pcap as read by tshark if installed."""

from __future__ import annotations

import copy
import json
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.memory.records import PACKET_CE, PACKET_IS_ACK, PACKET_TRIMMED
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.traces import checksum, write_chrome_trace, write_pcap
from sysgym.errors import SysgymError, UnknownName

MakeNetwork = Callable[..., PacketNetwork]


@pytest.fixture
def lossy(make_network: MakeNetwork) -> PacketNetwork:
    """A network with losses, marks and SACKs."""
    return make_network("dctcp", queue__buffer_bytes=60_000, queue__ecn_threshold_bytes=45_000)


def test_a_recording_changes_nothing(make_network: MakeNetwork) -> None:
    alone, recorded = make_network("cubic"), make_network("cubic")
    for network in (alone, recorded):
        network.advance(3e-3)
    recorded.record(["*"], range(4), sample_interval_s=7e-6)
    for network in (alone, recorded):
        network.advance(10e-3)
    assert np.array_equal(alone.ports().accepted_packets, recorded.ports().accepted_packets)
    assert np.array_equal(alone.flows().delivered_bytes, recorded.flows().delivered_bytes)
    assert alone.packet_hops == recorded.packet_hops


def test_every_packet_of_a_link_is_kept_in_order(lossy: PacketNetwork) -> None:
    recording = lossy.record(["west->east", "h0->west"])
    lossy.advance(10e-3)
    packets = recording.packets
    for name in ("west->east", "h0->west"):
        (link,) = lossy.topology.links_named(name)
        of_link = packets[packets["link"] == link]
        assert len(of_link) == lossy.ports().accepted_packets[link]
        gaps_ns = np.diff(of_link["time_ns"])
        assert np.all(gaps_ns >= 1199), "a packet goes out before the one ahead of it is over"
    assert recording.missed_packets == 0
    (core,) = lossy.topology.links_named("west->east")
    marked = (packets["flags"][packets["link"] == core] & PACKET_CE) > 0
    assert marked.sum() == lossy.ports().marked_packets[core]


def test_samples_are_those_of_the_counters(lossy: PacketNetwork) -> None:
    recording = lossy.record(["west->east"], [0, 2], sample_interval_s=50e-6)
    lossy.advance(1.02e-3)
    assert recording.port_samples()["time_s"].tolist() == [step / 20_000 for step in range(1, 21)]
    assert set(recording.flow_samples()["flow"]) <= {0, 2}
    lossy.advance(1.08e-3)
    (core,) = lossy.topology.links_named("west->east")
    port, flows = recording.port_samples()[-1], recording.flow_samples()[-2:]
    assert port["time_s"] == pytest.approx(lossy.now_s)
    assert port["port"] == core
    assert port["queue_bytes"] == lossy.ports().queue_bytes[core]
    assert flows["flow"].tolist() == [0, 2]
    assert np.array_equal(flows["delivered_bytes"], lossy.flows().delivered_bytes[[0, 2]])


def test_a_recording_is_bounded_and_ends_with_a_reset(lossy: PacketNetwork) -> None:
    most = 10 * lossy.n_links + 1
    recording = lossy.record(["*"], sample_interval_s=1e-6, max_packets=100, max_rows=most)
    lossy.advance(1e-3)
    assert len(recording.packets) == 100
    assert recording.missed_packets > 100
    assert len(recording.port_samples()) == 10 * lossy.n_links
    assert recording.missed_samples == 990
    twin = copy.deepcopy(lossy)
    twin.advance(1e-3)
    lossy.reset(1)
    lossy.advance(1e-3)
    assert len(recording.packets) == 100
    assert len(recording.port_samples()) == 10 * lossy.n_links


def test_what_cannot_be_recorded_is_refused(lossy: PacketNetwork) -> None:
    with pytest.raises(UnknownName, match="west->east"):
        lossy.record(["west->eats"])
    with pytest.raises(SysgymError, match="flows 0 to 99"):
        lossy.record(flows=[0, 99])
    with pytest.raises(SysgymError, match="positive"):
        lossy.record(["*"], sample_interval_s=0.0)


def test_chrome_trace_has_queues_and_flows(lossy: PacketNetwork, tmp_path: Path) -> None:
    recording = lossy.record(["west->east", "east->h4"], range(4), sample_interval_s=50e-6)
    lossy.advance(5e-3)
    write_chrome_trace(tmp_path / "new" / "trace.json", lossy, recording)
    events = json.loads((tmp_path / "new" / "trace.json").read_text())["traceEvents"]
    by_phase: dict[str, list[Any]] = {}
    for event in events:
        by_phase.setdefault(event["ph"], []).append(event)
        assert {"name", "ph", "pid"} <= set(event)
        assert event["ph"] == "M" or 0 <= event["ts"] <= 5000
    assert len(by_phase["b"]) == len(by_phase["e"]) == 4
    queues = [event for event in by_phase["C"] if event["name"] == "queue west->east"]
    assert len(queues) == 100
    assert max(event["args"]["bytes"] for event in queues) > 40_000
    goodput = [event["args"]["bit/s"] for event in by_phase["C"] if event["name"].startswith("goodput")]
    assert sum(goodput) / 100 == pytest.approx(9e9, rel=0.15)


def read_pcap(path: Path) -> list[tuple[int, int, bytes]]:
    """Time in ns, length on the wire and kept bytes of every frame."""
    data = path.read_bytes()
    magic, major, minor, _, _, _, link_type = struct.unpack_from("<IHHiIII", data)
    assert (magic, major, minor, link_type) == (0xA1B23C4D, 2, 4, 1)
    frames, offset = [], 24
    while offset < len(data):
        seconds, nanoseconds, kept, length = struct.unpack_from("<IIII", data, offset)
        frames.append((seconds * 10**9 + nanoseconds, length, data[offset + 16 : offset + 16 + kept]))
        offset += 16 + kept
    assert offset == len(data)
    return frames


@pytest.mark.parametrize("link", ["west->east", "east->west", "h0->west"])
def test_pcap_says_what_was_recorded(lossy: PacketNetwork, tmp_path: Path, link: str) -> None:
    recording = lossy.record([link])
    lossy.advance(10e-3)
    assert write_pcap(tmp_path / "a.pcap", lossy, recording, link) == len(recording.packets)
    frames = read_pcap(tmp_path / "a.pcap")
    n_sacks = 0
    for packet, (time_ns, length, frame) in zip(recording.packets, frames, strict=True):
        is_ack = bool(packet["flags"] & PACKET_IS_ACK)
        assert time_ns == packet["time_ns"]
        assert length == 14 + packet["size_bytes"]
        assert frame[12:14] == b"\x08\x00"
        ip, tcp = frame[14:34], frame[34:]
        assert checksum(ip) == 0, "IPv4 checksum"
        total = struct.unpack(">H", ip[2:4])[0]
        pseudo = ip[12:20] + struct.pack(">BBH", 0, 6, total - 20)
        assert checksum(pseudo + tcp) == 0, "TCP checksum; the payload is zeros"
        ecn = ip[1] & 3
        assert ecn == (0 if is_ack else 3 if packet["flags"] & PACKET_CE else 2)
        flow = int(packet["flow"])
        ends = int(lossy.schedule.src[flow]), int(lossy.schedule.dst[flow])
        src, dst = (struct.unpack(">I", ip[at : at + 4])[0] - (10 << 24) - 1 for at in (12, 16))
        assert (src, dst) == (ends[::-1] if is_ack else ends)
        seq, ack = struct.unpack(">II", tcp[4:12])
        assert len(tcp) == (tcp[12] >> 4) * 4
        if is_ack:
            assert ack == 1 + packet["ack"] * 1460
            assert bool(tcp[13] & 0x40) == bool(packet["flags"] & PACKET_CE)
            if packet["seq"] > packet["ack"]:
                n_sacks += 1
                assert tcp[22:24] == bytes([5, 10])
                assert struct.unpack(">II", tcp[24:32]) == tuple(
                    1 + (int(packet["seq"]) + k) * 1460 for k in (0, 1)
                )
        else:
            assert seq == 1 + packet["seq"] * 1460
            assert total == packet["size_bytes"]
    assert len(frames) > 100
    assert (n_sacks > 0) == (link == "east->west")


def test_reports_of_trimmed_packets_acknowledge_nothing_selectively(
    make_network: MakeNetwork, tmp_path: Path
) -> None:
    """Data are never lost here, only trimmed, and packets arrive in order but for those sent again."""
    queue = {"buffer_bytes": 12_000, "classes": 2, "trim": True}
    network = make_network("cubic", queue=queue, transport__host_jitter_s=0.0)
    recording = network.record(["east->west"])
    network.advance(3e-3)
    packets = recording.packets
    nack = PACKET_IS_ACK | PACKET_TRIMMED
    reports = (packets["flags"] & nack) == nack
    assert (packets["seq"] > packets["ack"])[reports].any()
    write_pcap(tmp_path / "acks.pcap", network, recording, "east->west")
    content, place = (tmp_path / "acks.pcap").read_bytes(), 24
    for is_report, packet in zip(reports, packets, strict=True):
        (length,) = struct.unpack_from("<I", content, place + 8)
        frame = content[place + 16 : place + 16 + length]
        place += 16 + length
        has_sack = bytes([1, 1, 5, 10]) in frame[54:]
        assert has_sack == (not is_report and packet["seq"] > packet["ack"])


def test_a_link_that_was_not_recorded_is_refused(lossy: PacketNetwork, tmp_path: Path) -> None:
    recording = lossy.record(["west->east"])
    for name in ("east->west", "*", "nonsense"):
        with pytest.raises(SysgymError, match="recorded: west->east"):
            write_pcap(tmp_path / "a.pcap", lossy, recording, name)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("link", ["west->east", "east->west"])
def test_tshark_reads_it(lossy: PacketNetwork, tmp_path: Path, link: str) -> None:
    recording = lossy.record([link])
    lossy.advance(5e-3)
    write_pcap(tmp_path / "a.pcap", lossy, recording, link)
    fields = ["frame.time_epoch", "ip.src", "tcp.seq_raw", "tcp.ack_raw", "ip.dsfield.ecn", "frame.len"]
    fields += ["tcp.options.sack_le", "_ws.malformed", "ip.checksum.status"]
    command = ["tshark", "-r", str(tmp_path / "a.pcap"), "-T", "fields", "-o", "ip.check_checksum:TRUE"]
    for field in fields:
        command += ["-e", field]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    packets = recording.packets
    assert len(printed) == len(packets)
    n_sacks = 0
    for line, packet in zip(printed, packets, strict=True):
        time_s, src, seq, ack, ecn, length, sack, malformed, good = line.split("\t")
        assert round(float(time_s.partition(".")[2])) == int(packet["time_ns"])
        assert src.startswith("10.0.0.")
        assert int(length) == 14 + packet["size_bytes"]
        assert malformed == ""
        assert good == "1"
        if packet["flags"] & PACKET_IS_ACK:
            assert int(ack) == 1 + packet["ack"] * 1460
            n_sacks += sack != ""
        else:
            assert int(seq) == 1 + packet["seq"] * 1460
            assert int(ecn) == (3 if packet["flags"] & PACKET_CE else 2)
    assert (n_sacks > 0) == (link == "east->west")
