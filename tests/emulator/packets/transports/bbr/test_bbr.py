"""BBR v1 against draft-cardwell-iccrg-bbr-congestion-control-00: model, modes, rate and window.

``bbr_ideal`` has what ``bbr`` has but for the allowances of Linux, which have tests at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports.bbr.bbr import (
    BANDWIDTH_ROUNDS,
    BANDWIDTHS,
    CYCLE,
    HIGH_GAIN,
    PACING_GAIN,
    aggregation_packets,
    quantum,
    with_quanta,
)
from sysgym.emulator.packets.transports.bbr.common import (
    DRAIN,
    EXTRA_ACKED,
    MIN_RTT_NS,
    MODE,
    PIPE_IS_FULL,
    PROBE_BW,
    PROBE_RTT,
    PROBE_RTT_NS,
    QUANTA,
    STARTUP,
)

Drive = Callable[..., Any]
MakeNetwork = Callable[..., PacketNetwork]
Measure = Callable[..., Any]

RTT_NS = 60_000
PACKETS_PER_GBPS = 1e9 / 8 / 1500 * RTT_NS * 1e-9  # 5: what 1 Gb/s delivers in a round trip


class Path:
    """Round trips of one flow, each answered by one ACK with a sample of the delivery rate."""

    def __init__(self, drive: Drive, law: str = "bbr_ideal") -> None:
        self.driver = drive(law, cwnd=10, base_rtt_ns=RTT_NS)
        self.flow = self.driver.flow
        self.state = self.flow.state

    def round(self, rate_gbps: float, *, in_flight: int = 0, rtt_ns: int = RTT_NS) -> None:
        event = self.driver.event
        packets = round(rate_gbps * PACKETS_PER_GBPS)
        event.delivered_at_send = int(event.delivered_packets)
        event.delivery_interval_ns = RTT_NS
        cwnd = self.flow.cwnd
        if in_flight:
            self.flow.cwnd = in_flight  # the driver takes what is in flight from the window
        self.driver.ack(packets=packets, rtt_ns=rtt_ns, now_ns=int(event.now_ns) + rtt_ns + 1)
        if in_flight:
            self.cwnd_before = cwnd

    @property
    def bandwidth_gbps(self) -> float:
        return float(self.state[BANDWIDTHS : BANDWIDTHS + BANDWIDTH_ROUNDS].max() * 1500 * 8)


def filled(drive: Drive, rate_gbps: float = 8.0, law: str = "bbr_ideal") -> Path:
    """A flow in PROBE_BW on a path of that rate."""
    path = Path(drive, law)
    for _ in range(4):
        path.round(rate_gbps)
    path.round(rate_gbps, in_flight=1)
    assert path.state[MODE] == PROBE_BW
    return path


def test_high_gain_doubles_a_round() -> None:
    assert pytest.approx(2.885, abs=1e-3) == HIGH_GAIN == 2 / math.log(2)


def test_the_first_window_is_paced_over_the_handshakes_round_trip(drive: Drive) -> None:
    driver = drive("bbr_ideal", cwnd=10, base_rtt_ns=RTT_NS)
    assert driver.flow.pacing_rate_bps == pytest.approx(HIGH_GAIN * 10 * 1500 * 8 / 60e-6)


def test_bandwidth_is_the_largest_of_ten_rounds(drive: Drive) -> None:
    path = Path(drive)
    path.round(8.0)
    for _ in range(9):
        path.round(4.0)
        assert path.bandwidth_gbps == pytest.approx(8.0)
    path.round(4.0)
    assert path.bandwidth_gbps == pytest.approx(4.0)


def test_samples_that_the_application_limited_only_raise_it(drive: Drive) -> None:
    path = Path(drive)
    path.round(4.0)
    path.driver.event.app_limited = 1
    for _ in range(2 * BANDWIDTH_ROUNDS):
        path.round(2.0)
        assert path.bandwidth_gbps == pytest.approx(4.0)
    path.round(6.0)
    assert path.bandwidth_gbps == pytest.approx(6.0)
    path.driver.event.app_limited = 0
    for _ in range(BANDWIDTH_ROUNDS):
        assert path.bandwidth_gbps == pytest.approx(6.0)
        path.round(2.0)
    assert path.bandwidth_gbps == pytest.approx(2.0)


def test_startup_ends_after_three_rounds_without_growth(drive: Drive) -> None:
    path = Path(drive)
    for rate_gbps in (1.0, 2.0, 4.0, 8.0):
        path.round(rate_gbps)
        assert path.state[MODE] == STARTUP
        assert path.flow.pacing_rate_bps == pytest.approx(
            max(HIGH_GAIN * rate_gbps * 1e9, HIGH_GAIN * 10 * 1500 * 8 / 60e-6)
        )
    for rate_gbps in (9.0, 9.8, 9.8):  # less than a quarter more than 8
        assert path.state[MODE] == STARTUP
        path.round(rate_gbps, in_flight=200)
    assert path.state[PIPE_IS_FULL] == 1
    assert path.state[MODE] == DRAIN
    assert path.flow.pacing_rate_bps == pytest.approx(9.8e9 / HIGH_GAIN)


def test_drain_ends_when_the_queue_is_gone(drive: Drive) -> None:
    path = Path(drive)
    for _ in range(4):
        path.round(8.0, in_flight=100)
    assert path.state[MODE] == DRAIN
    product = 8.0 * PACKETS_PER_GBPS
    path.round(8.0, in_flight=int(product + QUANTA) + 1)
    assert path.state[MODE] == DRAIN
    path.round(8.0, in_flight=int(product + QUANTA))
    assert path.state[MODE] == PROBE_BW


def test_the_cycle_begins_anywhere_but_in_its_drain_phase(drive: Drive) -> None:
    begins = set()
    for start in range(60):
        path = Path(drive)
        path.flow.start_ns = start
        for _ in range(4):
            path.round(8.0)
        path.round(8.0, in_flight=1)
        begins.add(int(path.state[CYCLE]))
    assert begins == {0, 2, 3, 4, 5, 6, 7}


def test_the_cycle_of_gains(drive: Drive) -> None:
    path = filled(drive)
    product = 8.0 * PACKETS_PER_GBPS
    gains = []
    for _ in range(24):
        gain = float(path.state[PACING_GAIN])
        gains.append(gain)
        assert path.flow.pacing_rate_bps == pytest.approx(gain * 8e9)
        path.round(8.0, in_flight=int(1.25 * product + QUANTA) + 1)
    first = gains.index(1.25)
    assert gains[first : first + 16] == 2 * [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_the_probe_lasts_until_it_has_filled_the_pipe_or_lost(drive: Drive) -> None:
    path = filled(drive)
    while path.state[PACING_GAIN] != 1.25:
        path.round(8.0)
    for _ in range(5):
        path.round(8.0, in_flight=20)
        assert path.state[PACING_GAIN] == 1.25
    path.driver.event.lost_packets = 1
    path.round(8.0, in_flight=20)
    assert path.state[PACING_GAIN] == 0.75
    path.driver.event.lost_packets = 0
    path.driver.event.now_ns -= RTT_NS  # at once: the drain phase ends when the pipe is not more than full
    path.round(8.0, in_flight=20)
    assert path.state[PACING_GAIN] == 1.0


def test_the_window_goes_to_two_products(drive: Drive) -> None:
    path = filled(drive)
    for _ in range(10):
        path.round(8.0)
    assert path.flow.cwnd == pytest.approx(2 * 8.0 * PACKETS_PER_GBPS + QUANTA)


def test_min_rtt_expires_after_ten_seconds_and_four_packets_measure_it_anew(drive: Drive) -> None:
    path = filled(drive)
    path.driver.event.now_ns = 9_900_000_000
    path.round(8.0, rtt_ns=RTT_NS + 30_000)
    assert path.state[MIN_RTT_NS] == RTT_NS
    path.driver.event.now_ns = 10_500_000_000
    before = path.flow.cwnd
    path.round(8.0, rtt_ns=RTT_NS + 30_000)
    assert path.state[MODE] == PROBE_RTT
    assert path.flow.cwnd == 4
    assert path.flow.app_limited_until > path.flow.delivered_packets, "a sample of so few says nothing"
    path.driver.event.app_limited = 1
    entered_ns = int(path.driver.event.now_ns)
    while path.state[MODE] == PROBE_RTT:
        path.driver.event.now_ns += 5_000_000
        path.round(0.8, rtt_ns=RTT_NS + 10_000)
        assert path.driver.event.now_ns < entered_ns + 2 * PROBE_RTT_NS
    assert path.driver.event.now_ns > entered_ns + PROBE_RTT_NS
    assert path.state[MODE] == PROBE_BW
    assert path.flow.cwnd >= before - 1, "the window from before"
    assert path.state[MIN_RTT_NS] == RTT_NS + 10_000


def test_losses_neither_touch_the_rate_nor_for_long_the_window(drive: Drive) -> None:
    path = filled(drive)
    for _ in range(10):
        path.round(8.0)
    window, bandwidth_gbps = float(path.flow.cwnd), path.bandwidth_gbps
    path.flow.in_recovery = 1
    path.flow.recover = int(path.flow.una) + 50
    path.driver.lose()
    path.round(8.0)
    path.flow.in_recovery = 0
    path.round(8.0)
    assert path.flow.cwnd == pytest.approx(window)
    assert path.bandwidth_gbps == bandwidth_gbps
    path.driver.time_out()
    assert path.flow.cwnd == 1
    path.flow.recover = 0
    path.round(8.0)
    assert path.flow.cwnd == pytest.approx(window)


@pytest.mark.parametrize("hosts_per_side", [1, 4])
def test_fills_the_link_with_about_one_product_in_the_queue(
    make_network: MakeNetwork, measure: Measure, hosts_per_side: int
) -> None:
    network = make_network("bbr_ideal", topology__hosts_per_side=hosts_per_side)
    network.advance(50e-3)
    measured = measure(network, 100e-3)
    product_bytes = 10e9 / 8 * 64.3e-6
    assert measured.goodput_bps.sum() > 0.99 * 10e9 * 1460 / 1500
    # Several flows whose largest samples add up to more than the link are held back by the window: two
    # products in flight, one of them queued.
    assert measured.queue_bytes < 1.25 * product_bytes
    assert measured.dropped_packets == 0
    assert measured.jain > 0.95


def test_alone_it_queues_less_than_a_product_and_probes_one_round_trip_in_eight(
    make_network: MakeNetwork,
) -> None:
    network = make_network("bbr_ideal", topology__hosts_per_side=1, topology__core_rate_bps=5e9)
    network.advance(20e-3)
    state = network._state.flows["state"][0]
    assert state[MODE] == PROBE_BW
    queued_before = network.ports().queue_byte_s.copy()
    seen = []
    for _ in range(4000):
        network.advance(5e-6)
        seen.append(float(network._state.flows["state"][0][PACING_GAIN]))
    gains = np.array(seen)
    probing, draining = (gains == 1.25).mean(), (gains == 0.75).mean()
    assert 0.09 < probing < 0.25
    assert 0.01 < draining < 1.1 * probing
    assert set(gains) == {0.75, 1.0, 1.25}
    queued_bytes = (network.ports().queue_byte_s - queued_before).max() / 20e-3
    assert queued_bytes < 5e9 / 8 * 67e-6


def test_random_loss_does_not_slow_it_down(make_network: MakeNetwork, measure: Measure) -> None:
    # ACM Queue, figure 8: where CUBIC collapses. One packet in a thousand is lost on each of three links.
    lossy = {"faults": {"loss_probability": 1e-3}, "topology__hosts_per_side": 1}
    goodput_bps = {}
    for name in ("bbr_ideal", "reno"):
        network = make_network(name, **lossy)
        network.advance(20e-3)
        goodput_bps[name] = measure(network).goodput_bps.sum()
    assert goodput_bps["bbr_ideal"] > 0.9 * 10e9 * 1460 / 1500
    assert goodput_bps["reno"] < 0.6 * goodput_bps["bbr_ideal"]


# The allowances of Linux.


@pytest.mark.parametrize(
    ("rate_bps", "packets"),
    [
        (10e6, 2),  # 1.2 kB in a millisecond: two packets at least
        (50e6, 4),  # 6.1 kB
        (10e9, 43),  # 1.2 MB: what offload takes, 64 kB
    ],
)
def test_a_quantum_is_what_is_paced_in_a_millisecond(drive: Drive, rate_bps: float, packets: int) -> None:
    path = Path(drive, "bbr")
    path.flow.pacing_rate_bps = rate_bps
    assert quantum(path.flow, path.driver.event) == packets
    ideal = Path(drive)
    ideal.flow.pacing_rate_bps = rate_bps
    assert quantum(ideal.flow, ideal.driver.event) == 1


def test_the_window_has_room_for_three_quanta_and_is_even(drive: Drive) -> None:
    path = Path(drive, "bbr")
    path.flow.pacing_rate_bps = 50e6
    assert with_quanta(path.flow, path.driver.event, 10.0) == 22
    assert with_quanta(path.flow, path.driver.event, 10.5) == 24
    path.state[MODE], path.state[CYCLE] = PROBE_BW, 0.0
    assert with_quanta(path.flow, path.driver.event, 10.0) == 24  # the phase that probes for more


def test_aggregated_acks_let_as_many_more_be_in_flight(drive: Drive) -> None:
    """A whole round is acknowledged at once: 40 packets are 40 ahead of the bandwidth."""
    path = filled(drive, law="bbr")
    path.round(8.0)
    assert aggregation_packets(path.flow) == pytest.approx(8.0 * PACKETS_PER_GBPS)
    ideal = filled(drive)
    ideal.round(8.0)
    assert aggregation_packets(ideal.flow) == 0.0


def test_the_allowance_for_aggregated_acks_is_forgotten_after_two_windows_of_five_rounds(
    drive: Drive,
) -> None:
    path = filled(drive, law="bbr")
    path.state[EXTRA_ACKED] = 1000.0
    for _ in range(4):
        path.round(8.0)
    assert aggregation_packets(path.flow) == 1000.0
    for _ in range(10):
        path.round(8.0)
    assert aggregation_packets(path.flow) < 100.0
