"""Random early detection of the port program follows the simulator's law on the kernel's packets."""

from __future__ import annotations

import dataclasses
import math
import time

import numpy as np
import pytest

from sysgym.emulator.linux.kernel.early_detection import EarlyDetection
from sysgym.emulator.linux.kernel.queues import PortSettings
from sysgym.emulator.packets.engine.discipline import red_probability

from ..conftest import ROUTER_PORT, Wire

pytestmark = [pytest.mark.linux, pytest.mark.xdist_group("linux")]

RATE_BPS = 50e6
LAW = EarlyDetection(min_bytes=20_000, max_bytes=60_000, max_probability=0.2)
HELD = dataclasses.replace(LAW, weight=1e-9)
"""Its average stays where it is put."""


def early_at(wire: Wire, average_bytes: float) -> tuple[int, int]:
    """Packets that fit into the buffer, and those marked or dropped early, while the average is held."""
    record = wire.programs.ports()
    record["red_average_q24"][ROUTER_PORT] = round(average_bytes * 2**24)
    before, tc_before = record[ROUTER_PORT].copy(), wire.queues.counters(wire.router, "r1")
    wire.transfer(0.25)
    tc, after = wire.queues.counters(wire.router, "r1"), record[ROUTER_PORT].copy()
    assert after["red_average_q24"] / 2**24 == pytest.approx(average_bytes, rel=1e-3)
    tail_drops = tc.dropped_packets - tc_before.dropped_packets
    n_dropped = int(after["dropped_packets"] - before["dropped_packets"]) - tail_drops
    n_packets = int(after["packets"] - before["packets"]) - tail_drops
    return n_packets, n_dropped + int(after["marked_packets"] - before["marked_packets"])


@pytest.mark.parametrize("gentle", [True, False])
def test_probability_of_a_mark_is_that_of_the_average(wire: Wire, gentle: bool) -> None:
    law = dataclasses.replace(HELD, gentle=gentle)
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=400_000, early_detection=law))
    wire.connect("dctcp")
    for average_bytes in (30_000.0, 55_000.0, 80_000.0, 110_000.0, 130_000.0, 19_000.0):
        n_packets, n_marked = early_at(wire, average_bytes)
        wanted = float(red_probability(average_bytes, 20_000.0, 60_000.0, 0.2, gentle))
        assert n_packets > 200
        interval = 4.5 * math.sqrt(n_packets * wanted * (1.0 - wanted))
        # A packet or two is a probe that is not ECN capable, or is being marked while we look.
        assert -interval - 3 <= n_marked - n_packets * wanted <= interval


def test_drops_early_what_it_would_mark_and_counts_it(wire: Wire) -> None:
    law = dataclasses.replace(HELD, drops=True)
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=400_000, early_detection=law))
    wire.connect("cubic")
    n_packets, n_dropped = early_at(wire, 24_000.0)
    assert n_dropped > 0
    assert abs(n_dropped - 0.02 * n_packets) <= 4.5 * math.sqrt(0.02 * n_packets)
    time.sleep(0.1)  # the queue drains
    final, record = wire.queues.readings([ROUTER_PORT])[:, 0], wire.programs.ports()[ROUTER_PORT]
    tc = wire.queues.counters(wire.router, "r1")
    assert tc.backlog_packets == 0
    assert final[4] == tc.sent_packets
    assert final[3] == tc.sent_bytes - 14 * tc.sent_packets
    assert record["packets"] == final[4] + final[6]
    assert record["bytes"] == final[3] + final[7]
    assert final[5] == 0


def test_packets_that_are_not_ecn_capable_pass(wire: Wire) -> None:
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=400_000, early_detection=HELD))
    wire.connect("cubic")
    n_packets, n_marked = early_at(wire, 200_000.0)
    assert n_packets > 200
    assert n_marked == 0


def test_average_queue_is_held_between_the_thresholds(wire: Wire) -> None:
    law = dataclasses.replace(LAW, weight=0.01)
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=200_000, early_detection=law))
    for _ in range(3):
        wire.connect("dctcp")
    wire.transfer(0.3)
    averages: list[float] = []
    before, begun = wire.queues.readings([ROUTER_PORT])[:, 0], time.monotonic()
    record = wire.programs.ports()
    wire.transfer(0.7, lambda: averages.append(record["red_average_q24"][ROUTER_PORT] / 2**24))
    after, elapsed_s = wire.queues.readings([ROUTER_PORT])[:, 0], time.monotonic() - begun
    assert 20_000 < np.mean(averages) < 60_000
    assert np.mean(averages) == pytest.approx((after[1] - before[1]) / elapsed_s, rel=0.1)
    assert after[6] == before[6]
    wanted = np.mean([red_probability(average, 20_000, 60_000, 0.2, True) for average in averages])
    assert (after[5] - before[5]) / (after[4] - before[4]) == pytest.approx(wanted, rel=0.2)


def test_average_falls_while_the_queue_is_empty(wire: Wire) -> None:
    law = dataclasses.replace(LAW, weight=0.001)
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=200_000, early_detection=law))
    connection = wire.connect("cubic")
    time.sleep(0.05)
    record = wire.programs.ports()
    record["red_average_q24"][ROUTER_PORT] = 100_000 << 24
    last_ns = int(record["last_ns"][ROUTER_PORT])
    time.sleep(0.15)
    connection.sender.send(b"?")
    connection.finish()
    idle_packets = (int(record["last_ns"][ROUTER_PORT]) - last_ns) / (1500 * 8e9 / RATE_BPS)
    assert idle_packets > 500
    wanted = 100_000 * (1 - 0.001) ** (idle_packets + 1)
    assert record["red_average_q24"][ROUTER_PORT] / 2**24 == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("rate_bps", [1e3, 1e7, 1e11])
@pytest.mark.parametrize("weight", [1e-6, 0.002, 0.5, 1.0])
def test_half_life_is_that_of_the_weight(rate_bps: float, weight: float) -> None:
    fields = dataclasses.replace(LAW, weight=weight).record(rate_bps)
    half_life_s = fields["red_half_life_ns"] * 1e-9
    if weight == 1.0:
        assert half_life_s == 0
        return
    wanted = 0.5 ** (1500 * 8 / rate_bps / half_life_s)
    if half_life_s < 2**47 * 1e-9:
        assert wanted == pytest.approx(1 - weight, rel=0.005)
