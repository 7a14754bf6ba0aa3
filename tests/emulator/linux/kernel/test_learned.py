"""Windows and rates set from Python take effect in the kernel, and its reports are correct."""

from __future__ import annotations

import socket
import time

import numpy as np
import pytest

from sysgym.emulator.linux.kernel.bpf_programs import (
    FLOW_SLOTS,
    LEARNED_WITHOUT_ECN,
    Programs,
    scaling,
)
from sysgym.emulator.linux.kernel.queues import PortSettings
from sysgym.emulator.linux.laws import BASE_LAWS
from sysgym.emulator.packets.counters.rows import PORT_ROW

from ..conftest import ROUTER_PORT, Wire

pytestmark = [pytest.mark.linux, pytest.mark.xdist_group("linux")]

SLOT = 321
RATE_BPS = 50e6


@pytest.fixture(autouse=True)
def slot_is_clear(programs: Programs) -> None:
    programs.clear_flow(SLOT)


def test_window_from_python_holds_at_once(wire: Wire) -> None:
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=600_000))
    actions, flows = wire.programs.flow_slots()
    actions["cwnd_packets"][SLOT] = 4
    wire.connect("learned", SLOT)
    queues = []
    highest: list[int] = []
    for window in (4, 20, 80, 200):
        actions["cwnd_packets"][SLOT] = window
        wire.transfer(0.2)
        highest.clear()
        wire.transfer(0.3, lambda: highest.append(int(flows["in_flight"][SLOT])))
        assert flows["cwnd_packets"][SLOT] == window
        assert window - 4 <= max(highest) <= window
        queues.append(wire.queues.readings([ROUTER_PORT])[0, 0])
        # What is under way waits at the router: the round trip is the time that its queue takes.
        drain_us = window * 1500 * 8 / RATE_BPS * 1e6
        assert 0.6 * drain_us < flows["srtt_us"][SLOT] < 3 * drain_us + 2000  # more on a busy processor
    assert queues == sorted(queues)
    # TCP may take packets for lost that two processors exchanged between them; the port lost none.
    assert wire.queues.readings([ROUTER_PORT])[PORT_ROW.dropped_packets, 0] == 0
    taken_for_lost = int(flows["lost"][SLOT])
    actions["cwnd_packets"][SLOT] = 2000  # 3 MB do not fit
    wire.transfer(0.5)
    assert wire.queues.readings([ROUTER_PORT])[PORT_ROW.dropped_packets, 0] > 100
    assert flows["lost"][SLOT] > taken_for_lost + 100
    assert flows["retransmitted"][SLOT] > 100


def test_pacing_rate_from_python_holds(wire: Wire) -> None:
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=600_000))
    actions, _ = wire.programs.flow_slots()
    actions["cwnd_packets"][SLOT] = 200
    wire.connect("learned", SLOT)
    goodputs = []
    for rate_bps in (5e6, 20e6, 0.0):
        actions["pacing_bytes_per_s"][SLOT] = rate_bps / 8
        wire.transfer(0.3)
        goodputs.append(wire.transfer(0.7))
    for goodput, paced in zip(goodputs, (5e6, 20e6, RATE_BPS), strict=True):
        assert 0.7 * paced < goodput < 1.06 * paced * 1448 / 1514  # less on a busy processor


def test_reports_agree_with_the_socket_and_the_port(wire: Wire) -> None:
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=200_000, ecn_threshold_bytes=30_000))
    actions, flows = wire.programs.flow_slots()
    actions["cwnd_packets"][SLOT] = 60
    connection = wire.connect("learned", SLOT)
    wire.transfer(0.5)
    actions["cwnd_packets"][SLOT] = 10  # below the threshold: no more marks
    wire.transfer(0.5)
    connection.finish()
    report = flows[SLOT]
    port = wire.queues.readings([ROUTER_PORT])[:, 0]
    assert report["phase"] == 1
    assert report["in_flight"] == 0
    assert report["delivered_bytes"] == connection.received_bytes
    assert report["delivered"] == pytest.approx(report["delivered_bytes"] / 1448, rel=0.01)
    assert report["sent"] == pytest.approx(report["delivered"] + report["retransmitted"], rel=0.01)
    # DCTCP's receiver tells exactly which packets were marked.
    assert 0 < port[5] < report["delivered"]
    assert report["delivered_ce"] == pytest.approx(port[5], rel=0.02, abs=2)
    assert 0 < report["marked_acks"] <= report["acks"]
    assert report["rtt_sum_us"] / report["rtt_samples"] >= report["min_rtt_us"] > 0
    information = connection.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    fields = np.frombuffer(information, np.uint32, offset=8)
    assert fields[15] == pytest.approx(report["srtt_us"], abs=1)  # tcpi_rtt
    assert fields[18] == report["cwnd_packets"]  # tcpi_snd_cwnd
    connection.sender.close()
    connection.receiver.close()
    time.sleep(0.05)
    assert flows["phase"][SLOT] == 2


def test_without_a_window_it_is_reno(wire: Wire) -> None:
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=45_000))
    _, flows = wire.programs.flow_slots()
    wire.connect("learned", SLOT)
    windows: list[int] = []
    wire.transfer(0.5)
    goodput = wire.transfer(1.5, lambda: windows.append(int(flows["cwnd_packets"][SLOT])), 0.002)
    assert goodput > 0.75 * RATE_BPS
    assert flows["lost"][SLOT] > 0
    # A sawtooth between the buffer's size and half of it.
    assert 25 <= max(windows) <= 60
    assert 8 <= np.percentile(windows, 5) <= 0.75 * max(windows)


@pytest.mark.parametrize("base", BASE_LAWS)
def test_the_window_of_a_base_law_is_multiplied_at_once(wire: Wire, base: str) -> None:
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=900_000))
    actions, flows = wire.programs.flow_slots()
    actions["base"][SLOT] = BASE_LAWS[base]
    actions["most_packets"][SLOT] = 200
    actions["cwnd_packets"][SLOT] = 30
    wire.connect("learned" if base == "dctcp" else LEARNED_WITHOUT_ECN, SLOT)
    wire.transfer(0.2)
    actions["cwnd_packets"][SLOT] = 0  # from here on it is the law's
    for number, factor in enumerate((1.0, 4.0, 4.0, 0.25), start=1):
        before = int(flows["cwnd_packets"][SLOT])
        actions["scaling"][SLOT] = scaling(number, factor)
        wire.transfer(0.01)
        assert flows["scaled"][SLOT] == number
        # The law itself adds a packet or two in this time.
        expected = min(before * factor, 200)
        assert int(expected) <= flows["cwnd_packets"][SLOT] <= expected + 4, (factor, before)
    assert flows["lost"][SLOT] == 0


def test_a_base_law_without_ecn_has_no_marks(wire: Wire) -> None:
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=100_000, ecn_threshold_bytes=15_000))
    actions, flows = wire.programs.flow_slots()
    actions["base"][SLOT] = BASE_LAWS["cubic"]
    wire.connect(LEARNED_WITHOUT_ECN, SLOT)
    wire.transfer(0.5)
    # The first loss is at a full buffer, and not at the threshold.
    assert flows["lost"][SLOT] > 0
    assert flows["delivered_ce"][SLOT] == 0
    assert flows["cwnd_packets"][SLOT] > 30


@pytest.mark.parametrize("transport", ["dctcp", "newvegas"])
def test_round_trips_of_our_other_laws_are_reported(wire: Wire, transport: str) -> None:
    if not wire.programs.reports(transport):
        pytest.skip(f"the kernel has {transport} itself")
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=200_000, ecn_threshold_bytes=30_000))
    _, flows = wire.programs.flow_slots()
    connection = wire.connect(transport, SLOT)
    wire.transfer(0.5)
    report = flows[SLOT]
    smoothed_us = np.frombuffer(connection.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), "u4")[
        17
    ]
    # An ACK for every two packets (RFC 1122), each with a sample.
    assert report["rtt_samples"] > 0.3 * connection.received_bytes / 1448
    assert 0.3 * smoothed_us < report["rtt_sum_us"] / report["rtt_samples"] < 3.0 * smoothed_us
    assert report["phase"] == 0  # the rest is of `learned` alone


def test_write_and_read_take_no_system_call(programs: Programs) -> None:
    actions, flows = programs.flow_slots()
    assert len(actions) == len(flows) == FLOW_SLOTS
    windows, delivered = actions["cwnd_packets"], flows["delivered"]
    took = []
    for _ in range(5):
        begun = time.perf_counter()
        for window in range(2000):
            windows[SLOT] = window
            delivered[SLOT]
        took.append((time.perf_counter() - begun) / 2000)
    programs.clear_flow(SLOT)
    print(f"one write and one read take {min(took) * 1e6:.2f} us")
    assert min(took) < 5e-6
