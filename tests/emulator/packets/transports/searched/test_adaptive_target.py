"""The law whose target of the queue adapts: its rules one by one, and what they are for."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.packets.transports.searched import adaptive_target as law
from sysgym.emulator.packets.transports.searched import other_laws, rounds
from sysgym.emulator.packets.transports.searched.adaptive_target import CONSTANTS, adaptive_target_transport
from sysgym.envs.congestion.sharing import measure_sharing
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError
from tests.emulator.packets.transports.driver import Driver, one_round


def with_constants(**changes: float) -> Transport:
    """Return the law with other constants than the usual ones."""
    values = {constant.name: constant.value for constant in CONSTANTS}
    return adaptive_target_transport({**values, **changes}.values())


def value(name: str) -> float:
    return next(constant.value for constant in CONSTANTS if constant.name == name)


def settled(transport: Transport, cwnd: float = 40.0) -> Driver:
    """A flow out of slow start and no longer young, at the beginning of a round."""
    driver = Driver(transport, cwnd=cwnd)
    driver.flow.ssthresh = 1.0
    driver.flow.state[rounds.DELIVERED] = 1e9
    one_round(driver)
    return driver


def target(driver: Driver) -> float:
    window = driver.flow.state[rounds.WINDOW]
    path = driver.flow.line_rate_bps * driver.flow.base_rtt_ns * 1e-9 / (8.0 * driver.flow.packet_bytes)
    least = value("target") + value("target_of_small") / math.sqrt(window) + value("target_of_path") * path
    return float(least * 2.0 ** driver.flow.state[other_laws.STRETCH])


def test_below_the_target_it_grows_by_its_growth() -> None:
    driver = settled(with_constants(growth=2.0))
    one_round(driver, queue=2.0)
    before = driver.flow.state[rounds.WINDOW]
    one_round(driver, queue=2.0)
    assert driver.flow.state[rounds.WINDOW] - before == pytest.approx(2.0, rel=0.1)


def test_above_the_target_it_decreases_by_the_relative_excess() -> None:
    driver = settled(with_constants(most_decrease=0.75))
    queue = 2.0 * target(driver)
    before = one_round(driver, queue=queue)
    path = driver.flow.line_rate_bps * driver.flow.base_rtt_ns * 1e-9 / (8.0 * driver.flow.packet_bytes)
    expected = value("decrease") * 0.5 * queue / (queue + path)
    assert 1.0 - driver.flow.state[rounds.WINDOW] / before == pytest.approx(expected, rel=0.1)


def test_no_decrease_of_a_round_is_larger_than_the_largest() -> None:
    driver = settled(with_constants(most_decrease=0.2))
    before = one_round(driver, queue=1e4)
    assert driver.flow.state[rounds.WINDOW] / before == pytest.approx(0.8, rel=0.01)


def test_small_windows_have_a_larger_target() -> None:
    small, large = settled(with_constants(), cwnd=2.0), settled(with_constants(), cwnd=100.0)
    queue = 0.5 * (target(small) + target(large))
    before = small.flow.state[rounds.WINDOW], large.flow.state[rounds.WINDOW]
    one_round(small, queue=queue)
    one_round(large, queue=queue)
    assert small.flow.state[rounds.WINDOW] >= before[0]
    assert large.flow.state[rounds.WINDOW] < before[1]


def test_a_young_flow_grows_faster() -> None:
    old, young = (settled(with_constants(youth_growth=4.0)) for _ in range(2))
    young.flow.state[rounds.DELIVERED] = 0.0
    one_round(old, queue=2.0)
    one_round(young, queue=2.0)
    assert young.flow.state[law.PER_ROUND] > 2.0 * old.flow.state[law.PER_ROUND]


def test_decreases_without_effect_are_undone_and_raise_the_target() -> None:
    driver = settled(with_constants(patience=3.0))
    window, queue = float(driver.flow.state[rounds.WINDOW]), 400.0
    n_rounds = 0
    while driver.flow.state[other_laws.STRETCH] == 0.0:
        one_round(driver, queue=queue)
        n_rounds += 1
        assert n_rounds < 20
    assert n_rounds >= 4  # a third is left after three decreases of 40 %, and a round shows what they did
    assert driver.flow.state[rounds.WINDOW] >= window
    assert 1.25 * queue < target(driver) < 2.5 * queue
    before = driver.flow.state[rounds.WINDOW]
    one_round(driver, queue=queue)
    assert driver.flow.state[rounds.WINDOW] > before  # it competes


def test_a_queue_that_follows_raises_nothing() -> None:
    driver, queue = settled(with_constants(patience=1.5)), 400.0
    while queue > 1.0:
        one_round(driver, queue=queue)
        queue *= 0.7
    assert driver.flow.state[other_laws.STRETCH] == 0.0


def test_a_raised_target_falls_back() -> None:
    driver = settled(with_constants(stretch_down=0.5))
    driver.flow.state[other_laws.STRETCH] = 1.0
    one_round(driver, queue=2.0)
    assert driver.flow.state[other_laws.STRETCH] == pytest.approx(0.5)
    one_round(driver, queue=2.0)
    one_round(driver, queue=2.0)
    assert driver.flow.state[other_laws.STRETCH] == 0.0


def test_some_marks_reduce_the_window_as_dctcp() -> None:
    driver = settled(with_constants(mark_decrease=0.5))
    driver.flow.state[rounds.ALPHA], driver.flow.state[other_laws.MARKS] = 0.5, 0.1
    before = one_round(driver, queue=2.0, marked=True)
    alpha = 0.5 + 0.5 / 16.0
    assert driver.flow.state[rounds.WINDOW] / before == pytest.approx(1.0 - alpha / 2.0, rel=0.02)


def test_marks_that_never_stop_are_ignored() -> None:
    driver = settled(with_constants())
    driver.flow.state[rounds.ALPHA] = driver.flow.state[other_laws.MARKS] = 1.0
    before = one_round(driver, queue=2.0, marked=True)
    assert driver.flow.state[rounds.WINDOW] == pytest.approx(before, rel=0.03)


def test_without_a_queue_it_grows_by_a_share_of_the_window() -> None:
    driver = settled(with_constants(calm_rounds=3.0, calm_growth=0.5), cwnd=100.0)
    for _ in range(4):
        one_round(driver)
    assert driver.flow.state[law.PER_ROUND] == pytest.approx(0.5 * driver.flow.state[rounds.WINDOW], rel=0.4)


@pytest.mark.parametrize(("queue", "decrease"), [(0.0, 0.04), (1e3, 0.4)])
def test_a_loss_matters_as_much_as_the_queue(queue: float, decrease: float) -> None:
    driver = settled(with_constants(loss_decrease=0.4, loss_least=0.1))
    one_round(driver, queue=queue)
    before = float(driver.flow.state[rounds.WINDOW])
    driver.lose()
    assert driver.flow.state[rounds.WINDOW] / before == pytest.approx(1.0 - decrease)


def test_after_a_time_out_it_begins_with_one_packet() -> None:
    driver = settled(with_constants())
    driver.time_out()
    assert driver.flow.state[rounds.WINDOW] == 1.0
    assert driver.flow.ssthresh == pytest.approx(20.0, rel=0.1)


def test_windows_below_a_packet_are_paced() -> None:
    driver = settled(with_constants(most_decrease=0.75, patience=16.0), cwnd=1.0)
    for _ in range(3):
        driver.flow.state[other_laws.WINDOW_BELOW] = 0.0
        one_round(driver, queue=1e5)
    assert driver.flow.state[rounds.WINDOW] < 0.5
    assert driver.flow.cwnd == 1.0


@pytest.mark.parametrize("change", [{"target": 1e9}, {"growth": math.nan}, {"undo": -1.0}])
def test_constants_outside_their_bounds_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(SysgymError, match=f"adaptive_target: {next(iter(change))} is "):
        with_constants(**change)


def test_another_number_of_constants_is_refused() -> None:
    with pytest.raises(SysgymError, match=f"expected {law.N_PARAMETERS} constants, got 1"):
        adaptive_target_transport([1.0])


@pytest.mark.parametrize("other", ["dctcp", "cubic", "swift"])
def test_beside_other_laws_it_keeps_a_share(other: str) -> None:
    scenario = load_scenario("dumbbell-10g")
    assert isinstance(scenario, CongestionScenario)
    ours = measure_sharing(scenario, with_constants(), get_transport(other), 0.3, 0).share
    assert 0.4 < ours < 1.5
    if other != "swift":
        assert measure_sharing(scenario, get_transport("swift"), get_transport(other), 0.3, 0).share < 0.3
