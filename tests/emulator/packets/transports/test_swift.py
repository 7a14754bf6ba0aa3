"""Swift against Kumar et al., SIGCOMM 2020: target, algorithm 1, the delay in a network."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports.swift import (
    CONSTANTS,
    CWND,
    MIN_CWND,
    TIMEOUTS_TO_RESET,
    swift_transport,
)
from sysgym.scenarios.errors import SysgymError

Drive = Callable[..., Any]
MakeNetwork = Callable[..., PacketNetwork]
Measure = Callable[..., Any]

VALUES = {constant.name: constant.value for constant in CONSTANTS}
ADDITIVE_INCREASE, BETA, MAX_DECREASE = (
    VALUES[name] for name in ("additive_increase", "beta", "max_decrease")
)
RANGE_NS, LEAST, MOST = (VALUES[f"flow_scaling_{name}"] for name in ("range_ns", "min_cwnd", "max_cwnd"))
ALPHA_NS = RANGE_NS / (1.0 / math.sqrt(LEAST) - 1.0 / math.sqrt(MOST))
BETA_NS = -ALPHA_NS / math.sqrt(MOST)


def target_ns(cwnd: float, hops: int, base_rtt_ns: int = 60_000) -> float:
    scaling_ns = min(max(ALPHA_NS / math.sqrt(cwnd) + BETA_NS, 0.0), RANGE_NS)
    return base_rtt_ns + hops * VALUES["per_hop_ns"] + scaling_ns


def test_flow_scaling_spans_its_range() -> None:
    # Section 3.5: the whole range at fs_min_cwnd, nothing at fs_max_cwnd.
    assert ALPHA_NS / math.sqrt(LEAST) + BETA_NS == pytest.approx(RANGE_NS)
    assert ALPHA_NS / math.sqrt(MOST) + BETA_NS == pytest.approx(0.0, abs=1e-9)


def test_a_delay_below_the_target_adds_ai_packets_a_round_trip(drive: Drive) -> None:
    driver = drive("swift", cwnd=20)
    driver.event.hops = 3
    expected = 20.0
    for _ in range(20):
        driver.ack(rtt_ns=int(target_ns(expected, 3)) - 2)
        expected += ADDITIVE_INCREASE / expected
        assert driver.flow.cwnd == pytest.approx(expected, rel=1e-12)
    assert expected == pytest.approx(21, abs=0.03)


@pytest.mark.parametrize("hops", [2, 6])
def test_a_delay_above_it_takes_away_in_proportion_to_the_excess(drive: Drive, hops: int) -> None:
    driver = drive("swift", cwnd=20)
    driver.event.hops = hops
    delay_ns = int(1.25 * target_ns(20, hops))
    driver.ack(rtt_ns=delay_ns, now_ns=1_000_000)
    factor = 1 - BETA * (delay_ns - target_ns(20, hops)) / delay_ns
    assert driver.flow.cwnd == pytest.approx(20 * factor, rel=1e-12)


def test_no_decrease_is_larger_than_the_largest_and_none_follows_within_a_round_trip(drive: Drive) -> None:
    driver = drive("swift", cwnd=20)
    driver.ack(rtt_ns=10_000_000, now_ns=50_000_000)
    assert driver.flow.cwnd == 20 * (1 - MAX_DECREASE)
    driver.ack(rtt_ns=10_000_000, now_ns=59_999_999)
    assert driver.flow.cwnd == 20 * (1 - MAX_DECREASE)
    driver.ack(rtt_ns=10_000_000, now_ns=60_000_000)
    assert driver.flow.cwnd == 20 * (1 - MAX_DECREASE) ** 2


def test_a_window_below_one_packet_is_paced(drive: Drive) -> None:
    driver = drive("swift", cwnd=1)
    driver.ack(rtt_ns=1_000_000, now_ns=10_000_000)
    assert driver.flow.state[CWND] == 0.5
    assert driver.flow.cwnd == 1.0
    # A packet every RTT / cwnd = 2 ms.
    assert driver.flow.pacing_rate_bps == pytest.approx(1500 * 8 / 2e-3)
    driver.ack(rtt_ns=int(target_ns(0.5, 0)) - 2, now_ns=10_100_000)
    assert driver.flow.state[CWND] == 0.5 + ADDITIVE_INCREASE, "below 1, ai for each packet acknowledged"
    assert driver.flow.pacing_rate_bps == 0.0, "not paced from one packet on"


def test_losses_and_time_outs(drive: Drive) -> None:
    driver = drive("swift", cwnd=20)
    driver.ack(rtt_ns=50_000, now_ns=1_000_000)
    before = driver.flow.cwnd
    driver.lose()
    assert driver.flow.cwnd == before * (1 - MAX_DECREASE)
    driver.lose()
    assert driver.flow.cwnd == before * (1 - MAX_DECREASE), "once a round trip"
    for time_out in range(int(TIMEOUTS_TO_RESET)):
        assert driver.flow.state[CWND] > MIN_CWND, time_out
        driver.event.now_ns += 10_000_000
        driver.time_out()
    assert driver.flow.state[CWND] == MIN_CWND == 0.001, "section 3.4"


def test_time_for_which_the_receiver_held_the_ack_is_not_congestion(drive: Drive) -> None:
    driver = drive("swift", cwnd=20)
    driver.event.endpoint_delay_ns = 1_000_000
    driver.ack(rtt_ns=1_000_000 + 60_000, now_ns=10_000_000)
    assert driver.flow.cwnd > 20


@pytest.mark.parametrize("flows_per_pair", [1, 4])
def test_the_round_trip_stays_near_the_target(
    make_network: MakeNetwork, measure: Measure, flows_per_pair: int
) -> None:
    network = make_network("swift", workload__flows_per_pair=flows_per_pair)
    network.advance(50e-3)
    measured = measure(network)
    flows = network._state.flows
    mean_window = float(flows["state"][:, CWND].mean())
    assert measured.rtt_s == pytest.approx(
        target_ns(mean_window, 3, int(flows["base_rtt_ns"][0])) * 1e-9, rel=0.08
    )
    assert measured.goodput_bps.sum() > 0.98 * 10e9 * 1460 / 1500
    assert measured.jain > 0.99


def test_more_senders_than_packets_fit_share_by_windows_below_one(
    make_network: MakeNetwork, measure: Measure
) -> None:
    # 128 flows at 10 Gb/s: half a packet each in a round trip and the target's queue.
    network = make_network(
        "swift", topology={"kind": "single_switch", "hosts": 33, "link_rate_bps": 10e9, "link_delay_s": 1e-6},
        workload={"kind": "long_lived", "pairs": "hotspot", "flows_per_pair": 8},
        queue__buffer_bytes=2_000_000,
    )  # fmt: skip
    network.advance(50e-3)
    measured = measure(network)
    assert network._state.flows["state"][:, CWND].min() < 1.0
    assert measured.dropped_packets == 0
    assert measured.goodput_bps.sum() > 0.95 * 10e9 * 1460 / 1500


def test_other_constants_are_other_laws(drive: Drive) -> None:
    """Constants are parameters: the target of a hop and the increase are those given."""
    changed = {**VALUES, "additive_increase": 3.0, "per_hop_ns": 500.0}
    driver = drive(swift_transport(changed.values(), "tuned_swift"), cwnd=20)
    driver.event.hops = 4
    target = target_ns(20, 0) + 4 * 500.0
    driver.ack(rtt_ns=int(target) - 2)
    assert driver.flow.cwnd == pytest.approx(20 + 3.0 / 20, rel=1e-12)
    before = driver.flow.cwnd
    driver.ack(rtt_ns=int(target) + 2_000, now_ns=1_000_000)
    assert driver.flow.cwnd < before


def test_constants_outside_their_bounds_are_refused() -> None:
    with pytest.raises(SysgymError, match=r"tuned_swift: beta is 9, expected 0\.05 to 2"):
        swift_transport({**VALUES, "beta": 9.0}.values(), "tuned_swift")
    with pytest.raises(SysgymError, match="swift: expected 7 constants, got 1"):
        swift_transport([1.0])
