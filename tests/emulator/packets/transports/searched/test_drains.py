"""Drains: when they begin and end, how little is in flight meanwhile, and what they are for."""

from __future__ import annotations

import pytest

from sysgym.emulator.packets.transports import get_transport
from sysgym.emulator.packets.transports.searched import drains, other_laws, rounds
from sysgym.emulator.packets.transports.searched.adaptive_swift import CONSTANTS, adaptive_swift_transport
from sysgym.envs.congestion.sharing import measure_sharing
from sysgym.scenarios import CongestionScenario, load_scenario
from tests.emulator.packets.transports.driver import Driver, one_round

RTT_NS = 62_000  # a queue of 1.7 packets: below the target, so the window stays large
BASE_RTT_NS = 60_000
WINDOW = 40.0
LAW = adaptive_swift_transport(constant.value for constant in CONSTANTS)


def measuring(*, path_measured: int = 1) -> Driver:
    """A flow that takes the least round trip for the empty path's, with one ACK in each round trip."""
    driver = Driver(LAW, cwnd=WINDOW, base_rtt_ns=BASE_RTT_NS)
    driver.event.path_measured = path_measured
    return driver


def pass_round_trips(driver: Driver, number: int, rtt_ns: int = RTT_NS) -> None:
    for _ in range(number):
        driver.ack(rtt_ns=rtt_ns, now_ns=int(driver.event.now_ns) + rtt_ns)


def drains_now(driver: Driver) -> bool:
    return bool(driver.flow.state[drains.DRAIN_END_NS] > 0.0)


def test_it_drains_after_fifty_round_trips_without_a_short_queue_for_two() -> None:
    driver = measuring()
    pass_round_trips(driver, 50)
    assert not drains_now(driver)
    pass_round_trips(driver, 1)
    assert drains_now(driver)
    window = float(driver.flow.state[rounds.WINDOW])
    assert driver.flow.cwnd == pytest.approx(0.1 * window)
    assert driver.flow.pacing_rate_bps < 0.21 * 8e9 * 1500 * window / RTT_NS
    pass_round_trips(driver, 1)
    assert drains_now(driver)
    assert driver.flow.state[rounds.WINDOW] == window
    pass_round_trips(driver, 1)
    assert not drains_now(driver)
    assert driver.flow.cwnd == pytest.approx(window, rel=0.1)


@pytest.mark.parametrize(("rtt_ns", "waits"), [(BASE_RTT_NS, True), (BASE_RTT_NS + 1_000, False)])
def test_a_short_queue_lets_the_next_drain_wait(rtt_ns: int, waits: bool) -> None:
    """A packet takes 1.2 us here."""
    driver = measuring()
    pass_round_trips(driver, 40)
    pass_round_trips(driver, 1, rtt_ns)
    pass_round_trips(driver, 20)
    assert (driver.flow.state[drains.LEAST_BEFORE_NS] == 0.0) == waits


def test_a_flow_that_is_told_of_the_empty_path_never_drains() -> None:
    driver = measuring(path_measured=0)
    pass_round_trips(driver, 500)
    assert driver.flow.state[drains.LEAST_BEFORE_NS] == 0.0


def test_a_drain_that_finds_a_shorter_round_trip_goes_on() -> None:
    driver = measuring()
    pass_round_trips(driver, 51)
    driver.flow.base_rtt_ns = BASE_RTT_NS - 2_000
    pass_round_trips(driver, 3)
    assert drains_now(driver)
    pass_round_trips(driver, 2)
    assert not drains_now(driver)


@pytest.mark.parametrize(("pause", "waits"), [(20, False), (30, True), (200, True)])
def test_after_a_pause_it_counts_anew(pause: int, waits: bool) -> None:
    driver = measuring()
    pass_round_trips(driver, 35)
    driver.ack(rtt_ns=RTT_NS, now_ns=int(driver.event.now_ns) + pause * RTT_NS)
    assert drains_now(driver) != waits
    if waits:
        pass_round_trips(driver, 49)
        assert not drains_now(driver)
        pass_round_trips(driver, 3)
        assert drains_now(driver)


def test_small_windows_drain_to_half_a_packet() -> None:
    """With less, ACKs would be so rare that a drain takes long."""
    driver = measuring()
    for window, drained in ((80.0, 8.0), (4.0, 0.5), (0.2, 0.2)):
        driver.flow.state[rounds.WINDOW] = window
        assert drains.drained_window.py_func(driver.flow) == pytest.approx(drained)


def test_a_time_out_ends_a_drain() -> None:
    driver = measuring()
    pass_round_trips(driver, 51)
    driver.time_out()
    assert not drains_now(driver)
    pass_round_trips(driver, 1)
    assert not drains_now(driver)


def test_the_round_trips_of_a_drain_are_no_noise() -> None:
    driver = measuring()
    pass_round_trips(driver, 51, BASE_RTT_NS + 50_000)
    before = float(driver.flow.state[rounds.RTT_CHANGE_NS])
    pass_round_trips(driver, 4, BASE_RTT_NS + 1_000)
    assert not drains_now(driver)
    assert driver.flow.state[rounds.RTT_CHANGE_NS] <= before


def test_the_queue_of_a_drain_is_not_judged() -> None:
    """The round after it would look as if others had left."""
    driver = measuring()
    driver.flow.state[other_laws.WINDOW_BELOW] = 1000.0
    pass_round_trips(driver, 53, BASE_RTT_NS + 100_000)
    assert not drains_now(driver)
    assert driver.flow.state[drains.JUST_DRAINED] == 1.0
    before = float(driver.flow.state[other_laws.WINDOW_BELOW])
    one_round(driver)
    assert driver.flow.state[drains.JUST_DRAINED] == 0.0
    assert driver.flow.state[other_laws.WINDOW_BELOW] == before
    one_round(driver)
    assert driver.flow.state[other_laws.WINDOW_BELOW] == driver.flow.state[rounds.WINDOW]


def test_a_loss_in_a_drain_reduces_the_window_after_it() -> None:
    driver = measuring()
    pass_round_trips(driver, 51)
    before = float(driver.flow.state[rounds.WINDOW])
    driver.lose()
    reduced = float(driver.flow.state[rounds.WINDOW])
    assert reduced < before
    assert driver.flow.cwnd < 0.2 * before
    pass_round_trips(driver, 1)
    assert drains_now(driver)
    assert driver.flow.state[rounds.WINDOW] == reduced


@pytest.mark.parametrize("delayed", [1, 2])
def test_flows_that_see_the_path_empty_share_with_those_that_came_first(delayed: int) -> None:
    """Swift's flows, which do not drain, share by when they began."""
    crowd = load_scenario("dumbbell-10g", expect=CongestionScenario).with_overrides(
        {
            "topology.link_rate_bps": 25e9,
            "topology.link_delay_s": 3e-6,
            "workload.flows_per_pair": 8,
            "workload.start_jitter_s": 5e-3,
            "transport.path_delay": "least_seen",
            "transport.delayed_ack_packets": delayed,
        }
    )
    found = {law.name: measure_sharing(crowd, law, law, 0.1, seed=3) for law in (get_transport("swift"), LAW)}
    assert found["swift"].jain_index < 0.5
    assert found["adaptive_swift"].jain_index > 0.95
    assert found["adaptive_swift"].queue_mean_bytes < 0.5 * found["swift"].queue_mean_bytes
    assert found["adaptive_swift"].goodput_bps > 0.93 * 25e9
