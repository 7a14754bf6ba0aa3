"""DCQCN against Zhu et al., SIGCOMM 2015: equations 1 to 4, figure 7, shares and notifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports.dcqcn import (
    ALPHA,
    BYTE_COUNTER_BYTES,
    CNP_INTERVAL_NS,
    FAST_RECOVERY_STEPS,
    GAIN,
    RATE_BPS,
    TARGET_BPS,
)

Drive = Callable[..., Any]
MakeNetwork = Callable[..., PacketNetwork]
Measure = Callable[..., Any]

TIMER_NS = 55_000
RED = {
    "buffer_bytes": 4_000_000, "discipline": "red", "red_min_bytes": 40_000, "red_max_bytes": 160_000,
    "red_max_probability": 0.2, "red_weight": 1.0, "red_gentle": False,
}  # fmt: skip


def notified(drive: Drive, times: int = 1) -> Any:
    driver = drive("dcqcn")
    driver.event.cnp = 1
    for _ in range(times):
        driver.ack()
    driver.event.cnp = 0
    return driver


def test_notifications_cut_the_rate_by_half_of_alpha(drive: Drive) -> None:
    # Equation 1: R_T = R_C, R_C = R_C (1 - alpha / 2), alpha = (1 - g) alpha + g.
    driver = notified(drive)
    assert driver.flow.pacing_rate_bps == 5e9
    assert driver.flow.state[TARGET_BPS] == 10e9
    assert driver.flow.state[ALPHA] == 1.0
    driver.flow.state[ALPHA] = 0.5
    driver.event.cnp = 1
    driver.ack()
    assert driver.flow.pacing_rate_bps == pytest.approx(5e9 * 0.75)
    assert driver.flow.state[TARGET_BPS] == 5e9
    assert driver.flow.state[ALPHA] == pytest.approx(0.5 * (1 - GAIN) + GAIN)


def test_alpha_decays_while_no_notification_comes(drive: Drive) -> None:
    driver = notified(drive)
    driver.tick(TIMER_NS - 1)
    assert driver.flow.state[ALPHA] == 1.0
    driver.tick(10 * TIMER_NS)  # equation 2, once in each 55 us, however rarely the clock strikes
    assert driver.flow.state[ALPHA] == pytest.approx((1 - GAIN) ** 10)


def test_fast_recovery_then_additive_increase_by_the_timer_alone(drive: Drive) -> None:
    driver = notified(drive, 3)
    rate, target = 1.25e9, 2.5e9
    assert driver.flow.state[RATE_BPS] == rate
    for step in range(1, 20):
        driver.tick(step * TIMER_NS)
        if step >= FAST_RECOVERY_STEPS:
            target += 10e6  # R_AI: a thousandth of the line rate
        rate = (rate + target) / 2
        assert driver.flow.state[RATE_BPS] == pytest.approx(rate)
        assert driver.flow.state[TARGET_BPS] == pytest.approx(target)


def test_the_byte_counter_steps_too_and_both_together_make_it_hyperactive(drive: Drive) -> None:
    driver = notified(drive, 5)
    packets = int(BYTE_COUNTER_BYTES) // 1500 + 1
    rate, target = 10e9 / 2**5, 10e9 / 2**4
    for step in range(1, 7):
        driver.ack(packets=packets)  # at the same instant: the timer stands still
        target += 10e6 if step >= FAST_RECOVERY_STEPS else 0.0
        rate = (rate + target) / 2
        assert driver.flow.state[RATE_BPS] == pytest.approx(rate)
    for step in range(1, 8):
        driver.tick(step * TIMER_NS)
        target += 100e6 if step > FAST_RECOVERY_STEPS else 10e6
        rate = (rate + target) / 2
        assert driver.flow.state[TARGET_BPS] == pytest.approx(target)
        assert driver.flow.state[RATE_BPS] == pytest.approx(rate)


def test_a_notification_sets_all_clocks_back(drive: Drive) -> None:
    driver = notified(drive, 3)
    driver.tick(7 * TIMER_NS + 100)
    driver.event.cnp = 1
    driver.ack(now_ns=7 * TIMER_NS + 200)
    driver.event.cnp = 0
    rate, target = driver.flow.state[RATE_BPS], driver.flow.state[TARGET_BPS]
    driver.tick(8 * TIMER_NS + 199)
    assert driver.flow.state[RATE_BPS] == rate, "55 us have not passed since"
    driver.tick(8 * TIMER_NS + 200)
    assert driver.flow.state[RATE_BPS] == pytest.approx((rate + target) / 2)
    assert driver.flow.state[TARGET_BPS] == target, "fast recovery again"


def test_rates_stay_between_a_thousandth_of_the_line_and_the_line(drive: Drive) -> None:
    driver = notified(drive, 30)
    assert driver.flow.pacing_rate_bps == 10e6
    driver.tick(3000 * TIMER_NS)
    assert driver.flow.pacing_rate_bps == pytest.approx(10e9)


def test_eight_flows_get_fair_shares_and_keep_the_queue_between_the_limits(
    make_network: MakeNetwork, measure: Measure
) -> None:
    network = make_network("dcqcn", topology__hosts_per_side=8, queue=RED)
    network.advance(100e-3)
    measured = measure(network, 100e-3)
    assert measured.goodput_bps.sum() > 0.93 * 10e9 * 1460 / 1500
    fair_bps = measured.goodput_bps.mean()
    assert np.all(np.abs(measured.goodput_bps / fair_bps - 1) < 0.25)
    assert measured.jain > 0.99
    assert measured.dropped_packets == 0
    assert 10_000 < measured.queue_bytes < 160_000


def test_a_late_flow_gets_its_share(make_network: MakeNetwork, measure: Measure) -> None:
    network = make_network("dcqcn", topology__hosts_per_side=2, queue=RED, workload__start_jitter_s=20e-3)
    network.advance(120e-3)
    assert measure(network, 100e-3).jain > 0.98


def test_rate_falls_only_with_notifications_and_those_come_no_faster_than_their_interval(
    make_network: MakeNetwork,
) -> None:
    network = make_network("dcqcn", queue=RED)
    network.advance(60e-3)
    cuts = np.zeros(4)
    before = network._state.flows["state"][:, RATE_BPS].copy()
    for _ in range(4000):
        network.advance(5e-6)
        now = network._state.flows["state"][:, RATE_BPS].copy()
        cuts += now < before
        before = now
    assert np.all(cuts > 2)
    assert np.all(cuts <= 20e-3 / (CNP_INTERVAL_NS * 1e-9) + 1)


def test_alone_it_keeps_the_line_rate(make_network: MakeNetwork, measure: Measure) -> None:
    network = make_network("dcqcn", topology__hosts_per_side=1, queue=RED)
    network.advance(5e-3)
    assert measure(network).goodput_bps.sum() > 0.995 * 10e9 * 1460 / 1500
    assert network.ports().marked_packets.sum() == 0


def test_loses_nothing_with_flow_control(make_network: MakeNetwork) -> None:
    network = make_network(
        "dcqcn", topology={"kind": "single_switch", "hosts": 17, "link_rate_bps": 10e9, "link_delay_s": 1e-6},
        workload={"kind": "incast", "senders": 16, "request_bytes": 500_000, "period_s": 10e-3},
        queue={**RED, "buffer_bytes": 400_000, "pfc_pause_bytes": 200_000},
    )  # fmt: skip
    network.advance(40e-3)
    flows = network.flows()
    assert np.isfinite(flows.finish_s[: 3 * 16]).all()
    assert network.ports().dropped_packets.sum() == 0
    assert flows.retransmitted_packets.sum() == 0
