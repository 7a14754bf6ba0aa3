"""Each transport against the equations of its source, through its compiled callbacks."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.transports import Transport, get_transport, list_transports, register_transport
from sysgym.emulator.packets.transports.cubic import ALPHA, BETA, C
from sysgym.errors import SysgymError, UnknownName

_spec = importlib.util.spec_from_file_location("transport_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
Driver: Any = _module.Driver


class TestReno:
    def test_slow_start_doubles_a_round_trip(self) -> None:
        driver = Driver("reno", cwnd=10)
        driver.round_trip()
        assert driver.flow.cwnd == 20

    def test_congestion_avoidance_adds_one_packet_a_round_trip(self) -> None:
        driver = Driver("reno", cwnd=50, ssthresh=50)
        for expected in (51, 52, 53):
            driver.round_trip()
            assert driver.flow.cwnd == pytest.approx(expected, abs=0.1)

    def test_loss_halves_and_a_time_out_starts_from_one(self) -> None:
        driver = Driver("reno", cwnd=40)
        driver.lose()
        assert (driver.flow.cwnd, driver.flow.ssthresh) == (20, 20)
        driver.time_out()
        assert (driver.flow.cwnd, driver.flow.ssthresh) == (1, 10)
        driver.time_out()
        assert driver.flow.ssthresh == 2, "RFC 5681, equation 4: at least two segments"

    def test_a_flow_that_its_application_limits_does_not_grow(self) -> None:
        driver = Driver("reno", cwnd=10)
        driver.event.window_limited = 0
        driver.round_trip()
        assert driver.flow.cwnd == 10

    @pytest.mark.parametrize("law", ["reno", "dctcp", "cubic", "newvegas"])
    def test_duplicate_acks_leave_the_window_as_it_is(self, law: str) -> None:
        driver = Driver(law, cwnd=10)
        driver.event.duplicate = 1
        driver.ack()
        assert driver.flow.cwnd == 10, "RFC 5681, 3.2, step 1"
        driver.event.duplicate = 0
        driver.round_trip()
        assert driver.flow.cwnd > 10

    def test_an_ack_for_many_packets_counts_for_two_in_slow_start(self) -> None:
        driver = Driver("reno", cwnd=10)
        driver.ack(packets=500)
        assert driver.flow.cwnd == 12


class TestDctcp:
    def test_alpha_follows_its_recursion(self) -> None:
        driver = Driver("dctcp", cwnd=32, ssthresh=1)
        alpha = 1.0
        driver.round_trip()  # the first window only sets the mark from which windows are counted
        rng = np.random.default_rng(1)
        for fraction in rng.uniform(0, 1, 30):
            # One observation window exactly: up to the number that closes it.
            remaining = int(driver.flow.state[3]) - int(driver.flow.una) + 1
            window = driver.flow.state[1] + remaining
            already = driver.flow.state[2]
            n_marked = round(fraction * remaining)
            for index in range(remaining):
                driver.ack(marked=index < n_marked)
            alpha_before = alpha
            alpha += (already + n_marked) / window / 16 - alpha / 16
            if len(driver.flow.state) and alpha_before == 1.0:
                alpha = float(driver.flow.state[0])  # the first full window fixes the phase
                continue
            assert driver.flow.state[0] == pytest.approx(alpha, rel=1e-12)

    def test_a_marked_window_is_reduced_once_by_half_of_alpha(self) -> None:
        driver = Driver("dctcp", cwnd=40, ssthresh=40)
        driver.flow.state[0] = 0.5
        driver.flow.state[3] = 1e9
        driver.flow.una = 1
        before = driver.flow.cwnd
        driver.ack(marked=True)
        assert driver.flow.cwnd == pytest.approx(before * 0.75)
        driver.ack(marked=True)
        assert driver.flow.cwnd == pytest.approx(before * 0.75), "one reduction a window (RFC 8257, 3.3)"

    def test_loss_halves_whatever_alpha(self) -> None:
        driver = Driver("dctcp", cwnd=40)
        driver.flow.state[0] = 0.1
        driver.lose()
        assert driver.flow.cwnd == 20


class TestCubic:
    def test_window_follows_the_cubic_curve(self) -> None:
        driver = Driver("cubic", cwnd=300, ssthresh=300)
        driver.ack(now_ns=1_000_000_000)
        driver.lose()
        w_max, cwnd_epoch = 300.0, float(driver.flow.cwnd)
        assert cwnd_epoch == pytest.approx(BETA * 300, abs=1)
        k_s = ((w_max - cwnd_epoch) / C) ** (1 / 3)
        rtt_ns = 100_000_000  # long round trips: the curve is above Reno's estimate
        start_ns = None
        for _ in range(80):
            driver.round_trip(rtt_ns=rtt_ns)
            start_ns = start_ns or int(driver.flow.state[2])
            t_s = (int(driver.event.now_ns) - start_ns) * 1e-9
            curve = C * (t_s - k_s) ** 3 + w_max
            # The window aims at the curve one round trip ahead (RFC 9438, 4.4).
            ahead = C * (t_s + rtt_ns * 1e-9 - k_s) ** 3 + w_max
            assert min(curve, ahead) - 0.02 * curve <= driver.flow.cwnd <= max(curve, ahead) + 0.02 * curve
        assert t_s > k_s, "the test went past the plateau"

    def test_short_round_trips_grow_as_reno_with_the_same_average(self) -> None:
        driver = Driver("cubic", cwnd=20, ssthresh=20)
        driver.ack(now_ns=1_000_000_000)
        driver.lose()
        before = driver.flow.cwnd
        for _ in range(5):
            driver.round_trip(rtt_ns=10_000)
        assert driver.flow.cwnd - before == pytest.approx(5 * ALPHA, rel=0.15)

    def test_fast_convergence_lowers_the_plateau(self) -> None:
        driver = Driver("cubic", cwnd=100)
        driver.lose()
        assert driver.flow.state[0] == 100
        driver.lose()  # below the last maximum: leaves room for others
        assert driver.flow.state[0] == pytest.approx(70 * (1 + BETA) / 2)

    def test_after_a_time_out_the_curve_begins_on_its_plateau(self) -> None:
        driver = Driver("cubic", cwnd=1000)
        driver.lose()
        driver.time_out()
        assert driver.flow.ssthresh == pytest.approx(BETA * BETA * 1000, abs=1)
        while driver.flow.cwnd < driver.flow.ssthresh:
            driver.round_trip()
        driver.ack(now_ns=10_000_000_000)
        w_max, k_s = driver.flow.state[0], driver.flow.state[1]
        assert (w_max, k_s) == (pytest.approx(BETA * BETA * 1000, abs=2), 0.0), "RFC 9438, 4.8"

    def test_constants_are_those_of_the_rfc(self) -> None:
        assert (C, BETA) == (0.4, 0.7)
        assert pytest.approx(0.529, abs=1e-3) == ALPHA


class TestNewVegas:
    def test_loss_keeps_80_percent(self) -> None:
        driver = Driver("newvegas", cwnd=100)
        driver.lose()
        assert driver.flow.cwnd == pytest.approx(100 * 819 / 1024)

    def test_a_window_that_queues_more_than_the_pad_shrinks(self) -> None:
        driver = Driver("newvegas", cwnd=50, ssthresh=50)
        for _ in range(4):
            driver.round_trip(rtt_ns=100_000)  # 50 packets in 100 us, an empty path
        driver.flow.cwnd = 100.0
        for _ in range(6):
            driver.round_trip(rtt_ns=200_000)  # twice the window, the same rate: 50 packets in the queue
        assert driver.flow.cwnd < 75

    def test_a_window_within_the_pad_stays_or_grows(self) -> None:
        driver = Driver("newvegas", cwnd=50, ssthresh=50)
        for _ in range(10):
            driver.round_trip(rtt_ns=100_000)
        assert driver.flow.cwnd >= 50


class TestPaced:
    def test_nothing_but_the_rate_limits_it(self) -> None:
        driver = Driver("paced")
        window = float(driver.flow.cwnd)
        driver.ack(marked=True)
        driver.lose()
        driver.time_out()
        assert driver.flow.cwnd == window > 1e6


class TestRegistry:
    def test_unknown_name_is_answered_with_the_nearest(self) -> None:
        with pytest.raises(UnknownName, match="dctcp"):
            get_transport("dctpc")

    def test_a_name_belongs_to_one_transport(self) -> None:
        reno = get_transport("reno")
        assert register_transport(reno) is reno
        other = Transport(
            "reno", "another", on_ack=reno.on_ack, on_loss=reno.on_loss, on_timeout=reno.on_timeout
        )
        with pytest.raises(SysgymError, match="exists already"):
            register_transport(other)

    def test_a_callback_that_cannot_be_compiled_is_named(self) -> None:
        def broken(flow: Any, event: Any) -> None:
            flow.cwnd = open("nothing")  # noqa: SIM115

        reno = get_transport("reno")
        transport = Transport("broken", "", on_ack=broken, on_loss=reno.on_loss, on_timeout=reno.on_timeout)
        with pytest.raises(SysgymError, match=r"broken .*test_laws\.py"):
            transport.callbacks()

    def test_every_transport_says_what_it_is_and_where_it_comes_from(self) -> None:
        for name in list_transports():
            transport = get_transport(name)
            assert transport.name == name
            assert transport.summary
            assert transport.reference


class TestOnHostsAsLinux:
    """Forms of laws that play where ``transport.loss_detection`` is ``"linux"``."""

    @pytest.mark.parametrize("law", ["reno", "dctcp", "cubic"])
    def test_other_hosts_play_the_form_of_the_rfc(self, law: str) -> None:
        transport = get_transport(law)
        assert transport.on_hosts("rack") is transport
        assert transport.on_hosts("dupack") is transport
        assert transport.on_hosts("linux") is transport.linux
        assert transport.linux is not None
        assert transport.linux.name == law

    def test_a_law_without_such_a_form_is_the_same_everywhere(self) -> None:
        assert get_transport("swift").on_hosts("linux") is get_transport("swift")

    @pytest.mark.parametrize(
        ("law", "window", "after"),
        [("reno", 5.9, 2), ("reno", 9.0, 4), ("dctcp", 7.5, 3), ("cubic", 6.9, 4), ("cubic", 10.0, 7)],
    )
    def test_losses_leave_whole_packets_of_the_window(self, law: str, window: float, after: int) -> None:
        driver = Driver(get_transport(law).on_hosts("linux"), cwnd=window)
        driver.lose()
        assert (driver.flow.cwnd, driver.flow.ssthresh) == (after, after)
        driver.flow.cwnd = window
        driver.time_out()
        assert (driver.flow.cwnd, driver.flow.ssthresh) == (1, after)

    def test_a_mark_takes_whole_packets_from_dctcp(self) -> None:
        driver = Driver(get_transport("dctcp").on_hosts("linux"), cwnd=5, ssthresh=5)
        driver.ack(marked=True)
        assert driver.flow.cwnd == 3, "5 - 5 / 2"
        for _ in range(40):
            driver.round_trip(marked_fraction=1.0)
        assert driver.flow.cwnd == 2

    def test_cubic_goes_on_slowly_beyond_the_window_of_the_last_loss(self) -> None:
        grown = []
        for loss_detection in ("rack", "linux"):
            driver = Driver(get_transport("cubic").on_hosts(loss_detection), cwnd=20, ssthresh=20)
            driver.lose()
            for _ in range(60):  # round trips of 0.1 ms: the Reno window is the larger one
                driver.round_trip()
            grown.append(driver.flow.cwnd)
        assert grown[0] > grown[1] + 5
        assert grown[1] == pytest.approx(14 + 60 * ALPHA, rel=0.05)
