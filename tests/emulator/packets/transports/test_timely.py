"""TIMELY against Mittal et al., SIGCOMM 2015, and its patched form against Zhu et al., CoNEXT 2016."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports.timely import (
    BETA,
    HIGH_QUEUE_NS,
    HYPERACTIVE_AFTER,
    HYPERACTIVE_STEPS,
    LOW_QUEUE_NS,
    MIN_RATE_FRACTION,
    NEW_SAMPLE,
    PATCHED_BETA,
    RATE_BPS,
    SEGMENT_BYTES,
)

Drive = Callable[..., Any]
MakeNetwork = Callable[..., PacketNetwork]
Measure = Callable[..., Any]

BASE_NS = 20_000
LOW_NS = BASE_NS + LOW_QUEUE_NS
HIGH_NS = BASE_NS + HIGH_QUEUE_NS
DELTA_BPS = 10e6
SEGMENT = -(-int(SEGMENT_BYTES) // 1500)


def at_rate(drive: Drive, rate_bps: float, name: str = "timely") -> Any:
    driver = drive(name, base_rtt_ns=BASE_NS)
    driver.flow.state[RATE_BPS] = rate_bps
    return driver


def complete(driver: Any, rtt_ns: float) -> float:
    """One completion event: a segment is acknowledged; returns the rate that follows."""
    driver.ack(packets=SEGMENT, rtt_ns=int(rtt_ns))
    return float(driver.flow.pacing_rate_bps)


def test_thresholds_are_the_papers_for_its_round_trip() -> None:
    assert (LOW_NS, HIGH_NS) == (50_000, 500_000)


def test_starts_at_line_rate(drive: Drive) -> None:
    assert drive("timely").flow.pacing_rate_bps == 10e9


def test_below_the_low_threshold_the_rate_grows_by_delta(drive: Drive) -> None:
    driver = at_rate(drive, 1e9)
    for step, rtt_ns in enumerate([21_000, 30_000, 49_999], 1):  # rising delays do not matter yet
        assert complete(driver, rtt_ns) == pytest.approx(1e9 + step * DELTA_BPS)


def test_above_the_high_threshold_the_delay_decides(drive: Drive) -> None:
    driver = at_rate(drive, 1e9)
    expected = 1e9
    for rtt_ns in (800_000, 700_000, 600_000):  # falling delays do not help
        expected *= 1 - BETA * (1 - HIGH_NS / rtt_ns)
        assert complete(driver, rtt_ns) == pytest.approx(expected)


def test_between_them_the_gradient_decides(drive: Drive) -> None:
    driver = at_rate(drive, 1e9)
    rng = np.random.default_rng(4)
    rate, previous, difference, good = 1e9, 0.0, 0.0, 0
    for rtt_ns in rng.integers(60_000, 80_000, 200):
        if previous:
            difference = (1 - NEW_SAMPLE) * difference + NEW_SAMPLE * (rtt_ns - previous)
        previous = float(rtt_ns)
        gradient = difference / BASE_NS
        if gradient <= 0:
            good += 1
            rate += DELTA_BPS * (HYPERACTIVE_STEPS if good >= HYPERACTIVE_AFTER else 1)
        else:
            good = 0
            rate = max(rate * (1 - BETA * gradient), MIN_RATE_FRACTION * 10e9)
        assert complete(driver, rtt_ns) == pytest.approx(rate, rel=1e-9)


def test_five_good_rounds_make_it_hyperactive(drive: Drive) -> None:
    driver = at_rate(drive, 1e9)
    rates = [complete(driver, 60_000) for _ in range(7)]
    assert np.diff(rates) == pytest.approx([DELTA_BPS] * 3 + [5 * DELTA_BPS] * 3)


def test_decides_once_a_segment(drive: Drive) -> None:
    driver = at_rate(drive, 1e9)
    for _ in range(SEGMENT - 1):
        driver.ack(rtt_ns=30_000, now_ns=driver.event.now_ns + 100)
    assert driver.flow.state[RATE_BPS] == 1e9
    driver.ack(rtt_ns=30_000)
    assert driver.flow.state[RATE_BPS] == 1e9 + DELTA_BPS


def test_decides_for_each_packet_of_a_slow_flow(drive: Drive) -> None:
    driver = at_rate(drive, 20e6)
    for step in range(1, 4):
        driver.ack(rtt_ns=30_000, now_ns=600_000 * step)
        assert driver.flow.state[RATE_BPS] == pytest.approx(20e6 + step * DELTA_BPS)


def test_never_slower_than_a_thousandth_of_the_line_nor_faster_than_it(drive: Drive) -> None:
    driver = at_rate(drive, 1e9)
    for _ in range(50):
        driver.lose()
    assert driver.flow.pacing_rate_bps == 10e6
    driver = at_rate(drive, 10e9)
    assert complete(driver, 30_000) == 10e9


@pytest.mark.parametrize(
    ("gradient", "weight"), [(-0.5, 0), (-0.25, 0), (-0.125, 0.25), (0, 0.5), (0.25, 1), (0.7, 1)]
)
def test_patched_form_weighs_the_distance_by_the_gradient(
    drive: Drive, gradient: float, weight: float
) -> None:
    # CoNEXT 2016, algorithm 2: w = 0 below -1/4, 2 g + 1/2 between, 1 above 1/4.
    driver = at_rate(drive, 2e9, "timely_patched")
    rtt_ns = 120_000
    complete(driver, rtt_ns - gradient * BASE_NS / NEW_SAMPLE)
    before = float(driver.flow.state[RATE_BPS])
    error = (rtt_ns - LOW_NS) / LOW_NS
    expected = DELTA_BPS * (1 - weight) + before * (1 - PATCHED_BETA * weight * error)
    assert complete(driver, rtt_ns) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("flows_per_pair", [1, 2])
def test_the_round_trip_stays_around_the_low_threshold(
    make_network: MakeNetwork, measure: Measure, flows_per_pair: int
) -> None:
    network = make_network("timely", workload__flows_per_pair=flows_per_pair)
    network.advance(50e-3)
    measured = measure(network)
    base_s = float(network._state.flows["base_rtt_ns"][0]) * 1e-9
    assert base_s < measured.rtt_s < base_s + 2 * LOW_QUEUE_NS * 1e-9
    assert measured.goodput_bps.sum() > 0.93 * 10e9 * 1460 / 1500
    assert measured.dropped_packets == 0
    assert measured.jain > 0.9, "TIMELY has no single fixed point (Zhu et al., 2016): only roughly fair"


@pytest.mark.parametrize("n_flows", [4, 8])
def test_patched_form_rests_where_its_analysis_says(
    make_network: MakeNetwork, measure: Measure, n_flows: int
) -> None:
    # At rest the gradient is 0 and the weight 1/2: delta = beta R error, with R = C / n.
    network = make_network("timely_patched", topology__hosts_per_side=n_flows)
    network.advance(50e-3)
    measured = measure(network)
    low_s = float(network._state.flows["base_rtt_ns"][0] + LOW_QUEUE_NS) * 1e-9
    error = n_flows * 1e-3 / PATCHED_BETA
    assert measured.rtt_s == pytest.approx(low_s * (1 + error), rel=0.05)
    assert measured.jain > 0.995
    assert measured.dropped_packets == 0
