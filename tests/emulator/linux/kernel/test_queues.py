"""Ports of the Linux kernel: rate, buffer, marks and counters, compared with tc's counters."""

from __future__ import annotations

import time

import numpy as np
import pytest

from sysgym.emulator.linux.kernel.bpf_programs import bucket_middles
from sysgym.emulator.linux.kernel.queues import PortSettings
from sysgym.errors import BackendError

from ..conftest import ROUTER_PORT, SENDER_PORT, Wire

pytestmark = [pytest.mark.linux, pytest.mark.xdist_group("linux")]

RATE_BPS = 20e6


def best_rate(wire: Wire, netns_pid: int, interface: str) -> float:
    """Rate at which IP packets have left a port, bit/s, in the best of some intervals.

    A processor that is needed elsewhere sends late, and then makes up for less than a packet or two.
    """
    rates = []
    for _ in range(6):
        before, begun = wire.queues.counters(netns_pid, interface), time.monotonic()
        wire.transfer(0.25)
        after, ended = wire.queues.counters(netns_pid, interface), time.monotonic()
        n_bytes = (after.sent_bytes - before.sent_bytes) * 1500 / 1514
        rates.append(n_bytes * 8 / (ended - begun))
    return max(rates)


def test_port_keeps_its_rate_and_counts_as_tc_does(wire: Wire) -> None:
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=60_000))
    wire.connect("cubic")
    wire.connect("cubic")
    wire.transfer(0.5)
    backlogs = []
    assert best_rate(wire, wire.router, "r1") == pytest.approx(RATE_BPS, rel=0.02)
    before, begun = wire.queues.readings([ROUTER_PORT])[:, 0], time.monotonic()
    wire.transfer(1.0, lambda: backlogs.append(wire.queues.counters(wire.router, "r1").backlog_bytes), 0.003)
    after, elapsed_s = wire.queues.readings([ROUTER_PORT])[:, 0], time.monotonic() - begun
    change = after - before

    # TCP fills the buffer and loses packets; the port saw each of them.
    mean_backlog = np.mean(backlogs) * 1500 / 1514
    assert change[1] / elapsed_s == pytest.approx(mean_backlog, rel=0.15)
    assert 55_000 < after[2] <= 60_000 + 1500  # a packet is being sent as well
    time.sleep(0.2)  # the queue drains
    tc = wire.queues.counters(wire.router, "r1")
    final = wire.queues.readings([ROUTER_PORT])[:, 0]
    assert tc.backlog_bytes == 0
    assert final[0] == 0
    assert tc.dropped_packets > 0
    assert final[6] == tc.dropped_packets
    assert final[7] == pytest.approx(1500 * tc.dropped_packets, rel=0.1)
    assert final[4] == tc.sent_packets
    assert final[3] == pytest.approx(tc.sent_bytes - 14 * tc.sent_packets)
    assert final[5] == 0


def test_marks_above_the_threshold_and_only_there(wire: Wire) -> None:
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=200_000, ecn_threshold_bytes=15_000))
    wire.connect("dctcp")
    wire.transfer(1.0)
    ports = np.array([ROUTER_PORT])
    marked = wire.queues.readings(ports)
    assert marked[5, 0] > 0
    assert marked[6, 0] == 0
    assert wire.queues.quantiles(ports, 0.5)[0] < 30_000

    wire.programs.ports()["ecn_threshold_bytes"][ROUTER_PORT] = 10**9
    before = wire.queues.readings(ports)
    wire.queues.clear_maxima(ports)
    wire.transfer(0.5)
    after = wire.queues.readings(ports)
    assert after[2, 0] > 15_000
    assert after[5, 0] == before[5, 0]


def test_quantiles_are_those_of_time(wire: Wire) -> None:
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=60_000))
    wire.connect("reno")
    wire.transfer(0.3)
    wire.programs.clear_port(ROUTER_PORT)
    backlogs: list[float] = []
    wire.transfer(1.5, lambda: backlogs.append(wire.queues.counters(wire.router, "r1").backlog_bytes), 0.002)
    for quantile in (0.25, 0.5, 0.9):
        measured = wire.queues.quantiles([ROUTER_PORT], quantile)[0]
        assert measured == pytest.approx(np.quantile(backlogs, quantile) * 1500 / 1514, rel=0.2)


def test_middles_of_buckets_grow_by_a_sixteenth_at_most() -> None:
    middles = bucket_middles()
    assert middles[:32].tolist() == list(range(32))
    growth = middles[33:] / middles[32:-1]
    assert growth.min() > 1.0
    assert growth.max() <= 1.0 + 1.0 / 16.0 + 1e-9


def test_cap_of_a_host_holds_and_is_lifted(wire: Wire) -> None:
    settings = PortSettings(RATE_BPS, buffer_bytes=400_000)
    wire.queues.set_port(wire.sender, "s0", settings, SENDER_PORT)
    wire.connect("reno")
    rates = []
    for cap_bps in (RATE_BPS, 5e6, float("inf")):
        wire.queues.set_host_cap(wire.sender, "s0", cap_bps)
        wire.transfer(0.3)
        rates.append(best_rate(wire, wire.sender, "s0"))
    assert rates == pytest.approx([RATE_BPS, 5e6, RATE_BPS], rel=0.03)


def test_cap_takes_well_under_a_millisecond(wire: Wire) -> None:
    """A guard against a process for each cap: the limit is far above the 40 us that a message takes."""
    wire.queues.set_port(wire.sender, "s0", PortSettings(1e9, buffer_bytes=400_000))
    took = []
    for change in range(200):
        begun = time.perf_counter()
        wire.queues.set_host_cap(wire.sender, "s0", 1e6 + change)
        took.append(time.perf_counter() - begun)
    assert np.median(took) < 1e-3


def test_reset_empties_queue_and_counters(wire: Wire) -> None:
    wire.bottleneck(PortSettings(1e6, buffer_bytes=60_000))
    wire.connect("reno")
    wire.transfer(0.3)
    assert wire.queues.counters(wire.router, "r1").backlog_bytes > 0
    assert wire.queues.readings([ROUTER_PORT])[0, 0] > 0
    wire.connections[0].receiver.close()
    wire.connections[0].sender.close()
    time.sleep(0.05)
    wire.queues.set_host_cap(wire.router, "r1", 5e5)
    wire.queues.reset_port(wire.router, "r1")
    wire.queues.reset_port(wire.router, "r1")
    assert not wire.queues.readings([ROUTER_PORT])[:, 0].any()
    assert wire.queues.counters(wire.router, "r1").sent_packets == 0
    settings = wire.programs.ports()[ROUTER_PORT]
    assert settings["rate_bytes_per_s"] == 125_000
    assert settings["buffer_bytes"] == 60_000


def test_a_second_process_sees_the_same_memory(wire: Wire) -> None:
    other = type(wire.programs)(wire.programs.sid)
    other.open()
    wire.programs.ports()["ecn_threshold_bytes"][77] = 4321
    assert other.ports()["ecn_threshold_bytes"][77] == 4321
    wire.programs.ports()["ecn_threshold_bytes"][77] = 0
    other.unload()


def test_what_cannot_be_says_why(wire: Wire) -> None:
    with pytest.raises(BackendError, match="no interface r9"):
        wire.queues.set_port(wire.router, "r9", PortSettings(RATE_BPS, buffer_bytes=60_000))
    with pytest.raises(ValueError, match="port is 0"):
        wire.programs.attach_port(wire.router, "r1", 4096)
    with pytest.raises(BackendError, match="no eBPF program"):
        type(wire.programs)("0bad").open()
    wire.processes[0].kill()
    wire.processes[0].wait()
    with pytest.raises(BackendError, match="no network namespace"):
        wire.queues.counters(wire.sender, "s0")
