"""Slow start and the rules that end it: RFC 9406 (HyStart++), and HyStart with the constants of Linux."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from sysgym.emulator.packets.memory.flow_record import HYSTART, HYSTART_PLUS_PLUS
from sysgym.emulator.packets.network import PacketNetwork

MakeNetwork = Callable[..., PacketNetwork]
Drive = Callable[..., Any]

MS = 1_000_000


def with_rule(drive: Drive, law: str, rule: int, *, cwnd: float, rtt_ms: float = 100.0) -> Any:
    driver = drive(law, cwnd=cwnd)
    driver.flow.slow_start = rule
    driver.flow.min_rtt_ns = round(rtt_ms * MS)
    driver.flow.nxt = cwnd
    return driver


def growth(driver: Any, rtt_ms: float) -> float:
    """By how much the window grows in a round of ACKs."""
    before = driver.flow.cwnd
    driver.round_trip(rtt_ns=round(rtt_ms * MS))
    return float(driver.flow.cwnd / before)


@pytest.mark.parametrize("law", ["reno", "cubic", "dctcp"])
class TestHyStartPlusPlus:
    def test_while_round_trips_stay_the_window_doubles(self, drive: Drive, law: str) -> None:
        driver = with_rule(drive, law, HYSTART_PLUS_PLUS, cwnd=16)
        assert [growth(driver, 100) for _ in range(4)] == [2.0] * 4

    def test_when_they_become_longer_it_grows_by_a_quarter_for_five_rounds(
        self, drive: Drive, law: str
    ) -> None:
        driver = with_rule(drive, law, HYSTART_PLUS_PLUS, cwnd=16)
        growth(driver, 100)
        growth(driver, 100)
        assert driver.flow.cwnd == 64
        driver.round_trip(
            rtt_ns=113 * MS
        )  # from the eighth of 64 ACKs on, a quarter: the first of five rounds
        assert driver.flow.cwnd == 64 + 8 + 56 / 4
        for _ in range(4):
            assert driver.flow.ssthresh == math.inf
            assert growth(driver, 113) == pytest.approx(1.25, abs=0.01)
        driver.ack(rtt_ns=113 * MS)
        assert driver.flow.ssthresh == driver.flow.cwnd < 300

    def test_it_goes_back_if_they_become_shorter(self, drive: Drive, law: str) -> None:
        driver = with_rule(drive, law, HYSTART_PLUS_PLUS, cwnd=16)
        for rtt_ms in (100, 100, 113):
            growth(driver, rtt_ms)
        assert driver.flow.css_baseline_ns == 113 * MS
        growth(driver, 112)
        assert driver.flow.css_baseline_ns == 0
        assert growth(driver, 112) > 1.95

    @pytest.mark.parametrize(("rtt_ms", "least_ms"), [(1, 4), (10, 4), (80, 10), (100, 12.5), (400, 16)])
    def test_longer_means_by_an_eighth_within_4_and_16_ms(
        self, drive: Drive, law: str, rtt_ms: float, least_ms: float
    ) -> None:
        for longer_ms, slows_down in ((least_ms - 0.01, False), (least_ms, True)):
            driver = with_rule(drive, law, HYSTART_PLUS_PLUS, cwnd=16)
            growth(driver, rtt_ms)
            growth(driver, rtt_ms + longer_ms)
            assert (driver.flow.css_baseline_ns > 0) == slows_down

    def test_only_the_first_slow_start_is_so(self, drive: Drive, law: str) -> None:
        driver = with_rule(drive, law, HYSTART_PLUS_PLUS, cwnd=64)
        driver.time_out()
        assert 30 < driver.flow.ssthresh < 50
        assert driver.flow.cwnd == 1
        for rtt_ms in (100, 120, 140, 160):
            assert growth(driver, rtt_ms) == 2.0
        assert driver.flow.css_baseline_ns == 0

    def test_an_ack_for_many_packets_counts_eight(self, drive: Drive, law: str) -> None:
        driver = with_rule(drive, law, HYSTART_PLUS_PLUS, cwnd=64)
        driver.ack(20)
        assert driver.flow.cwnd == 72


class TestHyStart:
    def test_a_train_of_acks_for_half_a_round_trip_ends_slow_start(self, drive: Drive) -> None:
        driver = with_rule(drive, "cubic", HYSTART, cwnd=32, rtt_ms=20)
        driver.round_trip(rtt_ns=20 * MS)
        # Two windows a round trip are 4.8 bytes per us, four aggregates more than 1 ms: (20 + 1) / 2 ms.
        acked = math.floor(10.5 / (20 / 32)) - 1
        assert 32 + acked <= driver.flow.ssthresh <= 32 + acked + 2
        assert driver.flow.cwnd < 50

    def test_acks_in_a_burst_do_not(self, drive: Drive) -> None:
        driver = with_rule(drive, "cubic", HYSTART, cwnd=32, rtt_ms=20)
        for round_ in range(1, 4):
            for _ in range(int(driver.flow.cwnd)):
                driver.ack(rtt_ns=20 * MS, now_ns=20 * MS * round_)
        assert driver.flow.cwnd == 256
        assert driver.flow.ssthresh == math.inf

    def test_a_gap_of_more_than_2_ms_ends_the_train(self, drive: Drive) -> None:
        driver = with_rule(drive, "cubic", HYSTART, cwnd=32, rtt_ms=200)
        driver.round_trip(rtt_ns=200 * MS)  # 6 ms apart
        assert driver.flow.cwnd == 64

    @pytest.mark.parametrize(("rtt_ms", "least_ms"), [(10, 4), (80, 10), (400, 16)])
    def test_longer_round_trips_end_it(self, drive: Drive, rtt_ms: float, least_ms: float) -> None:
        for longer_ms, ends in ((least_ms, False), (least_ms + 0.01, True)):
            driver = with_rule(drive, "cubic", HYSTART, cwnd=32, rtt_ms=rtt_ms)
            for _ in range(20):
                driver.ack(rtt_ns=round((rtt_ms + longer_ms) * MS), now_ns=1)
            assert (driver.flow.ssthresh < math.inf) == ends
            assert driver.flow.cwnd == (pytest.approx(41, abs=2) if ends else 52)

    def test_windows_below_16_packets_are_left_alone(self, drive: Drive) -> None:
        driver = with_rule(drive, "cubic", HYSTART, cwnd=4, rtt_ms=10)
        for _ in range(11):
            driver.ack(rtt_ns=100 * MS, now_ns=1)
        assert driver.flow.ssthresh == math.inf

    @pytest.mark.parametrize("law", ["reno", "dctcp", "newvegas"])
    def test_other_laws_have_none(self, drive: Drive, law: str) -> None:
        windows = []
        for rule in (0, HYSTART):
            driver = with_rule(drive, law, rule, cwnd=32, rtt_ms=10)
            for rtt_ms in (10, 20, 40):
                growth(driver, rtt_ms)
            windows.append(driver.flow.cwnd)
        assert windows[0] == windows[1]


@pytest.mark.parametrize(
    ("law", "rule", "share"),
    [("cubic", "hystart", 0.1), ("cubic", "hystart++", 0.5), ("reno", "hystart++", 0.5)],
)
def test_on_a_long_path_fewer_packets_are_lost(
    make_network: MakeNetwork, law: str, rule: str, share: float
) -> None:
    path = {
        "topology__hosts_per_side": 1,
        "topology__link_rate_bps": 100e6,
        "topology__core_rate_bps": 50e6,
        "topology__link_delay_s": 5e-3,
        "queue__buffer_bytes": 187_500,  # one bandwidth-delay product of 30 ms
        "queue__ecn_threshold_bytes": 187_500,
        "transport__min_rto_s": 0.2,
    }
    dropped, delivered = [], []
    for slow_start in ("standard", rule):
        network = make_network(law, transport__slow_start=slow_start, **path)
        network.advance(2.0)
        dropped.append(int(network.ports().dropped_packets.sum()))
        delivered.append(8 * int(network.flows().delivered_bytes.sum()) / 2.0)
    assert dropped[0] > 100
    assert dropped[1] < share * dropped[0]
    assert delivered[1] > 40e6
