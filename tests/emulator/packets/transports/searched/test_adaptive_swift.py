"""Swift with a target that adapts to other laws: its rules one by one, and what they are for."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.packets.transports.searched import adaptive_swift as law
from sysgym.emulator.packets.transports.searched import other_laws, rounds
from sysgym.emulator.packets.transports.searched.adaptive_swift import CONSTANTS, adaptive_swift_transport
from sysgym.envs.congestion.sharing import measure_sharing, play_together
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError
from tests.emulator.packets.transports.driver import Driver, one_round, packet_ns


def with_constants(**changes: float) -> Transport:
    """The law with other constants than the usual ones."""
    values = {constant.name: constant.value for constant in CONSTANTS}
    return adaptive_swift_transport({**values, **changes}.values())


def usual(name: str) -> float:
    """The law's usual value of a constant."""
    return next(constant.value for constant in CONSTANTS if constant.name == name)


def settled(transport: Transport, cwnd: float = 40.0) -> Driver:
    """A flow that no longer starts, at the beginning of a round."""
    driver = Driver(transport, cwnd=cwnd)
    driver.flow.state[law.GAIN] = 0.0
    one_round(driver)
    driver.flow.state[law.GAIN] = 0.0
    return driver


def path(driver: Driver) -> float:
    """Packets on the empty path."""
    return float(driver.flow.base_rtt_ns / packet_ns(driver))


def window(driver: Driver) -> float:
    return float(driver.flow.state[rounds.WINDOW])


def target(driver: Driver, **constants: float) -> float:
    value = {constant.name: constant.value for constant in CONSTANTS} | constants
    small = 1.0 / math.sqrt(max(window(driver), law.SMALLEST_TARGETED)) - 1.0 / math.sqrt(
        value["large_window"]
    )
    least = value["target"] + value["target_of_small"] * max(small, 0.0)
    return float(least * 2.0 ** driver.flow.state[other_laws.STRETCH] + noise(driver))


def noise(driver: Driver) -> float:
    """Addition to the target for changes of the round trip so far."""
    state = driver.flow.state
    changes = usual("target_of_noise") * float(state[rounds.RTT_CHANGE_NS]) / packet_ns(driver)
    return min(changes, path(driver)) * max(1.0 - 20.0 * float(state[other_laws.MARKS]), 0.0)


def ack_queue(driver: Driver, queue: float) -> float:
    """One ACK that tells of a queue, after two round trips; returns by what it multiplies the window.

    It does not count as a change of the round trip.
    """
    driver.flow.state[rounds.RTT_BEFORE_NS] = 0.0
    before = window(driver)
    rtt_ns = int(driver.flow.base_rtt_ns + queue * packet_ns(driver))
    driver.ack(rtt_ns=rtt_ns, now_ns=int(driver.event.now_ns) + 2 * rtt_ns)
    return window(driver) / before


def test_below_the_target_it_grows_by_its_growth() -> None:
    driver = settled(with_constants(growth=3.0))
    before = window(driver)
    one_round(driver, queue=1.0)
    assert window(driver) - before == pytest.approx(3.0 + path(driver) / 512, rel=0.15)


def test_the_gain_halves_with_each_decrease_and_doubles_in_calm_rounds() -> None:
    driver = Driver(with_constants(start_growth=1.0, calm_growth=0.25), cwnd=100.0)
    gains = []
    for queue in (1e3, 1e3, 1e3, 1e3):
        ack_queue(driver, queue)
        gains.append(float(driver.flow.state[law.GAIN]))
    assert gains == [0.5, 0.25, 0.125, 0.0625]
    for gain in (0.125, 0.25, 0.25):
        driver.flow.state[rounds.WINDOW] = 10.0
        one_round(driver, queue=0.1)
        assert driver.flow.state[law.GAIN] == gain


def test_a_gain_below_the_least_is_none_and_a_calm_round_brings_it_back() -> None:
    driver = Driver(with_constants(start_growth=1.0), cwnd=100.0)
    for _ in range(7):
        assert driver.flow.state[law.GAIN] >= law.LEAST_GAIN
        ack_queue(driver, queue=1e4)
    assert driver.flow.state[law.GAIN] == 0.0
    one_round(driver, queue=0.1)
    assert driver.flow.state[law.GAIN] == law.LEAST_GAIN


def test_a_calm_round_does_not_reduce_the_gain_of_the_start() -> None:
    driver = Driver(with_constants(start_growth=1.0, calm_growth=0.25), cwnd=20.0)
    one_round(driver, queue=0.1)
    assert driver.flow.state[law.GAIN] == 1.0


def test_it_grows_by_its_gain_where_that_is_more_and_beside_other_laws_by_another_growth() -> None:
    driver = settled(with_constants(growth=1.0, growth_beside=3.0), cwnd=100.0)
    driver.flow.state[law.GAIN] = 0.125
    before = window(driver)
    assert before > path(driver)
    driver.ack(rtt_ns=int(driver.flow.base_rtt_ns))
    assert window(driver) - before == pytest.approx(0.125, rel=1e-6)
    driver.flow.state[other_laws.STRETCH] = 0.5
    before = window(driver)
    driver.ack(rtt_ns=int(driver.flow.base_rtt_ns))
    assert window(driver) - before == pytest.approx(3.0 / before, rel=1e-6)


def test_small_windows_grow_faster() -> None:
    """The gain is a share of the geometric mean of window and path."""
    growths = []
    for cwnd in (4.0, 16.0):
        driver = settled(with_constants(), cwnd=cwnd)
        driver.flow.state[law.GAIN] = 0.25
        driver.flow.state[rounds.WINDOW] = cwnd
        driver.ack(rtt_ns=int(driver.flow.base_rtt_ns))
        growths.append((window(driver) - cwnd) * cwnd)
        assert growths[-1] == pytest.approx(0.25 * math.sqrt(cwnd * path(driver)), rel=1e-6)
    assert growths[1] / growths[0] == pytest.approx(2.0)


def test_a_start_on_a_filled_path_doubles_the_window_in_a_round_trip() -> None:
    driver = Driver(with_constants(start_growth=1.0), cwnd=100.0)
    for _ in range(100):
        driver.ack(rtt_ns=int(driver.flow.base_rtt_ns))
    assert window(driver) == pytest.approx(200.0, rel=0.05)


def test_decreases_on_a_long_path_are_those_of_200_packets() -> None:
    factors = []
    for packets in (200, 2000):
        driver = Driver(with_constants(decrease=0.5, most_decrease=0.75), cwnd=400.0)
        driver.flow.base_rtt_ns = int(packets * packet_ns(driver))
        factors.append(ack_queue(driver, queue=50.0))
    assert factors[0] == pytest.approx(factors[1], rel=1e-3)
    assert factors[0] < 0.95


def test_few_flows_on_a_long_fast_path_become_equal() -> None:
    """Growth in proportion to the window would leave the path to the first one."""
    changes = {
        "topology.link_rate_bps": 77e9,
        "topology.link_delay_s": 43e-6,
        "workload.start_jitter_s": 3e-3,
    }
    network = load_scenario("dumbbell-10g", overrides=changes, expect=CongestionScenario)
    found = measure_sharing(network, with_constants(), with_constants(), 0.3, 1)
    assert found.jain_index > 0.95


@pytest.mark.parametrize(("in_flight", "grows"), [(15, False), (25, True)])
def test_a_window_of_which_half_is_in_flight_may_grow(in_flight: int, grows: bool) -> None:
    """A paced window is full at few moments (RFC 7661, 4.3)."""
    driver = Driver(with_constants(), cwnd=40.0)
    driver.event.window_limited, driver.event.in_flight_packets = 0, in_flight
    driver.event.acked_packets, driver.event.rtt_sampled = 1, 1
    driver.event.rtt_ns = driver.flow.base_rtt_ns
    driver.call_on_ack()
    assert (window(driver) > 40.0) == grows


def test_a_lone_flow_fills_a_long_path_as_soon_as_slow_start_does() -> None:
    """It stopped at half of the path before: a paced window was never full while ACKs came in a row."""
    changes = {"workload.flows_per_pair": 1, "topology.hosts_per_side": 1, "workload.start_jitter_s": 0.0}
    network = load_scenario("dumbbell-100g-early-marks", overrides=changes, expect=CongestionScenario)
    network = network.with_overrides({"queue.ecn_threshold_bytes": network.queue.buffer_bytes})
    ours, theirs = (
        play_together(network, one, one, 1e-3, 0).goodput_bps[:50].mean()
        for one in (with_constants(), get_transport("dctcp"))
    )
    assert ours > 0.97 * theirs


def test_above_the_target_it_decreases_at_once_by_the_relative_excess() -> None:
    constants = {"decrease": 0.5, "most_decrease": 0.75}
    driver = settled(with_constants(**constants))
    queue = 3.0 * target(driver)
    path = driver.flow.base_rtt_ns / packet_ns(driver)
    expected = 0.5 * (queue - target(driver)) / (queue + path)
    assert 1.0 - ack_queue(driver, queue) == pytest.approx(expected, rel=0.01)


def test_it_decreases_once_a_round_trip() -> None:
    driver = settled(with_constants())
    ack_queue(driver, queue=500.0)
    before = window(driver)
    for _ in range(5):
        driver.ack(rtt_ns=int(driver.flow.base_rtt_ns + 500.0 * packet_ns(driver)))
    assert window(driver) == before


def test_no_decrease_is_larger_than_the_largest() -> None:
    driver = settled(with_constants(most_decrease=0.2, decrease=2.0))
    assert ack_queue(driver, queue=1e5) == pytest.approx(0.8, rel=0.01)


def test_small_windows_have_a_larger_target_and_large_ones_the_least() -> None:
    small, large = settled(with_constants(), cwnd=2.0), settled(with_constants(), cwnd=400.0)
    queue = 0.5 * (target(small) + target(large))
    assert ack_queue(small, queue) > 1.0 > ack_queue(large, queue)
    assert target(large) - noise(large) == pytest.approx(usual("target"))


@pytest.mark.parametrize(("change", "packets"), [(0.0, 0.0), (1.0, 4.0), (25.0, 10.0)])
def test_the_target_is_larger_where_delays_vary(change: float, packets: float) -> None:
    """Round trips that change by a packet at each ACK allow four; the path, of ten packets, is the most."""
    driver = settled(with_constants(), cwnd=1000.0)
    driver.flow.base_rtt_ns = round(10.0 * packet_ns(driver))
    driver.flow.state[rounds.RTT_CHANGE_NS] = 0.0
    for number in range(200):
        driver.ack(rtt_ns=int(driver.flow.base_rtt_ns + number % 2 * change * packet_ns(driver)))
    assert noise(driver) == pytest.approx(packets, abs=0.05)
    allowed = usual("target") + packets
    for queue, grows in ((0.9 * allowed, True), (1.2 * allowed, False)):
        assert (ack_queue(driver, queue) > 1.0) == grows


def test_where_packets_are_marked_all_delay_is_a_queue() -> None:
    driver = settled(with_constants(), cwnd=1000.0)
    driver.flow.state[rounds.RTT_CHANGE_NS] = 2.0 * packet_ns(driver)
    driver.flow.state[other_laws.MARKS] = 0.025
    assert noise(driver) == pytest.approx(4.0)
    driver.flow.state[other_laws.MARKS] = 0.1
    assert noise(driver) == 0.0
    assert ack_queue(driver, queue=3.0) < 1.0


def test_varying_delays_of_switches_do_not_leave_a_link_idle() -> None:
    changes = {"topology.link_jitter_s": 5e-6}
    network = load_scenario("dumbbell-10g", overrides=changes, expect=CongestionScenario)
    ours, without = (
        play_together(network, one, one, 0.05, 0).settled_bps.sum()
        for one in (with_constants(), with_constants(target_of_noise=0.1))
    )
    assert ours > 0.97 * 9.73e9
    assert without < 0.9 * ours


def test_decreases_without_effect_are_undone_and_raise_the_target() -> None:
    driver = settled(with_constants(patience=32.0, most_decrease=0.4, decrease=2.0, stretch_up=1.5))
    before, queue, n_rounds, least = window(driver), 400.0, 0, 0.0
    while driver.flow.state[other_laws.STRETCH] == 0.0:
        least = target(driver)
        one_round(driver, queue=queue)
        n_rounds += 1
        assert n_rounds < 30
    assert n_rounds >= 3
    assert window(driver) >= before
    raised = least * 2.0 ** float(driver.flow.state[other_laws.STRETCH])
    assert queue < raised <= 3.0 * queue  # the target of the small window, by one and a half doublings


def test_a_queue_that_follows_raises_nothing() -> None:
    driver, queue = settled(with_constants(patience=32.0, most_decrease=0.75, decrease=2.0)), 4e4
    while queue > 1.0:
        one_round(driver, queue=queue)
        queue *= 0.7
    assert driver.flow.state[other_laws.STRETCH] == 0.0


def test_queues_that_its_own_flows_keep_are_no_sign_of_others() -> None:
    """The target falls at once; a large window among small ones does not keep a target of its own."""
    driver = settled(with_constants(patience_again=8.0))
    driver.flow.state[other_laws.STRETCH] = 3.0
    value = {constant.name: constant.value for constant in CONSTANTS}
    small = 1.0 / math.sqrt(law.OWN_WINDOW) - 1.0 / math.sqrt(value["large_window"])
    own = value["target"] + value["target_of_small"] * small
    one_round(driver, queue=1.1 * own)
    assert driver.flow.state[other_laws.STRETCH] > 2.5
    one_round(driver, queue=0.9 * own)
    assert driver.flow.state[other_laws.STRETCH] == 0.0


def test_marks_count_beside_other_laws_only() -> None:
    alone, beside = (settled(with_constants(mark_decrease=0.5)) for _ in range(2))
    for driver in (alone, beside):
        driver.flow.state[rounds.ALPHA], driver.flow.state[other_laws.MARKS] = 0.5, 0.1
    beside.flow.state[other_laws.STRETCH] = 5.0
    before = one_round(alone, queue=1.0, marked=True)
    assert window(alone) >= before
    before = one_round(beside, queue=50.0, marked=True)
    assert window(beside) / before == pytest.approx(1.0 - (0.5 + 0.5 / 16.0) / 2.0, rel=0.02)


def ruled_by_marks(queue: float = 60.0) -> Driver:
    """A flow whose decreases at the threshold of marks were in vain."""
    driver = settled(with_constants(most_decrease=0.4, decrease=2.0, growth=3.0), cwnd=100.0)
    n_rounds = 0
    while not driver.flow.state[law.BY_MARKS]:
        one_round(driver, queue=queue, marked=True)
        n_rounds += 1
        assert n_rounds < 50
    assert n_rounds > law.ROUNDS_AT_THRESHOLD
    return driver


def test_where_decreases_at_the_threshold_of_marks_are_in_vain_marks_rule_the_window() -> None:
    """The decreases are undone, the target is not raised, and the window follows marks as DCTCP's does."""
    driver = ruled_by_marks()
    assert window(driver) == pytest.approx(100.0, rel=0.1)
    assert driver.flow.state[other_laws.STRETCH] == 0.0
    one_round(driver, queue=50.0)  # of the smaller window, before it was restored
    before = window(driver)
    one_round(driver, queue=50.0)
    assert window(driver) - before == pytest.approx(1.0, rel=0.05)
    driver.flow.state[rounds.ALPHA] = 0.2
    before = window(driver)
    for _ in range(3):  # in the same round trip
        driver.ack(
            marked=True,
            rtt_ns=int(driver.flow.base_rtt_ns + 60.0 * packet_ns(driver)),
            now_ns=int(driver.event.now_ns) + driver.flow.base_rtt_ns // 2,
        )
    assert window(driver) / before == pytest.approx(0.9, rel=1e-3)


def test_marks_rule_until_the_queue_is_far_above_their_threshold() -> None:
    driver = ruled_by_marks(queue=60.0)
    one_round(driver, queue=1.4 * 60.0, marked=True)
    assert driver.flow.state[law.BY_MARKS]
    one_round(driver, queue=1.6 * 60.0, marked=True)
    assert not driver.flow.state[law.BY_MARKS]
    assert driver.flow.state[other_laws.IN_VAIN] == 0.0


@pytest.mark.parametrize(("queue", "marked"), [(60.0, False), (90.0, True)])
def test_without_marks_or_far_above_their_threshold_the_target_rises(queue: float, marked: bool) -> None:
    driver = settled(with_constants(patience=32.0, most_decrease=0.4, decrease=2.0), cwnd=100.0)
    one_round(driver, queue=60.0, marked=True)
    for _ in range(0 if marked else 20):
        one_round(driver, queue=1.0)
    n_rounds = 0
    while driver.flow.state[other_laws.STRETCH] == 0.0:
        one_round(driver, queue=queue, marked=marked)
        n_rounds += 1
        assert n_rounds < 50
    assert not driver.flow.state[law.BY_MARKS]


def test_rounds_in_vain_up_to_the_threshold_do_not_raise_the_target() -> None:
    """Decreases are smaller there: a crowd whose queue is about the threshold would fill the buffer."""
    driver = settled(with_constants(patience=32.0, most_decrease=0.4, decrease=2.0), cwnd=100.0)
    for _ in range(int(law.ROUNDS_IN_VAIN) + 8):
        one_round(driver, queue=60.0, marked=True)
    driver.flow.state[rounds.WINDOW] = 1.0
    assert driver.flow.state[law.IN_VAIN_AT_THRESHOLD] > law.ROUNDS_IN_VAIN
    for _ in range(int(law.ROUNDS_IN_VAIN)):
        one_round(driver, queue=90.0, marked=True)
        assert driver.flow.state[other_laws.STRETCH] == 0.0


def test_after_a_time_out_the_delay_rules_the_window() -> None:
    driver = ruled_by_marks()
    driver.time_out()
    for queue in (60.0, 90.0):
        one_round(driver, queue=queue, marked=True)
        assert not driver.flow.state[law.BY_MARKS]
        assert driver.flow.state[other_laws.STRETCH] == 0.0


@pytest.mark.parametrize(("queue", "decrease"), [(0.0, 0.04), (1e3, 0.4)])
def test_a_loss_matters_as_much_as_the_queue(queue: float, decrease: float) -> None:
    driver = settled(with_constants(loss_decrease=0.4, loss_least=0.1))
    one_round(driver, queue=queue)
    before = window(driver)
    driver.lose()
    assert window(driver) / before == pytest.approx(1.0 - decrease)


def test_after_a_time_out_it_begins_with_a_window_of_one_packet_and_grows_as_at_first() -> None:
    driver = settled(with_constants(start_growth=0.5))
    driver.time_out()
    assert window(driver) == 1.0
    assert driver.flow.state[law.GAIN] == 0.5


def test_below_two_packets_two_leave_together_at_the_rate_of_the_window() -> None:
    """A receiver that delays ACKs lets a single packet wait for its timer, and that looks like a queue."""
    driver = settled(with_constants(pace=2.0, most_decrease=0.75, decrease=2.0, patience=64.0), cwnd=4.0)
    assert driver.flow.pacing_burst_packets == 1
    for _ in range(3):
        ack_queue(driver, queue=1e5)
    assert window(driver) < 0.5
    assert driver.flow.cwnd == driver.flow.pacing_burst_packets == 2
    rate_bps = window(driver) * driver.flow.packet_bytes * 8e9 / driver.flow.srtt_ns
    assert driver.flow.pacing_rate_bps == pytest.approx(rate_bps, rel=0.01)


@pytest.mark.parametrize("first_window", [1, 10])
@pytest.mark.parametrize("delayed", [1, 2])
def test_delayed_acks_do_not_stop_a_flow(delayed: int, first_window: int) -> None:
    """Many flows on a path of few packets, whose windows are small: without the rule they wait for timers."""
    changes = {
        "transport.initial_window_packets": first_window,
        "topology.link_delay_s": 1e-6,
        "workload.flows_per_pair": 6,
        "workload.start_jitter_s": 1e-3,
        "transport.delayed_ack_packets": delayed,
    }
    network = load_scenario("dumbbell-10g", overrides=changes, expect=CongestionScenario)
    found = measure_sharing(network, with_constants(), with_constants(), 0.05, 1)
    assert found.goodput_bps > 9e9
    assert found.jain_index > 0.9


def test_windows_are_paced() -> None:
    driver = settled(with_constants(pace=2.0), cwnd=4.0)
    driver.ack(rtt_ns=int(driver.flow.base_rtt_ns))
    rate_bps = window(driver) * driver.flow.packet_bytes * 8e9 / driver.flow.base_rtt_ns
    assert driver.flow.pacing_rate_bps == pytest.approx(2.0 * rate_bps, rel=0.01)


@pytest.mark.parametrize(("cwnd", "of_line"), [(2.0, 0.125), (1e4, None)])
def test_the_start_has_a_least_pace_for_long_paths_and_half_a_window_more(
    cwnd: float, of_line: float | None
) -> None:
    """An eighth of the line, unless the window is sent faster anyway."""
    driver = Driver(with_constants(pace=1.5), cwnd=cwnd)
    driver.flow.base_rtt_ns = int(1000 * packet_ns(driver))
    driver.ack(rtt_ns=int(driver.flow.base_rtt_ns))
    line_bps = driver.flow.line_rate_bps
    rate_bps = 2.0 * window(driver) * driver.flow.packet_bytes * 8e9 / driver.flow.base_rtt_ns
    expected = rate_bps if of_line is None else of_line * line_bps
    assert driver.flow.pacing_rate_bps == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("change", [{"target": 1e9}, {"growth": math.nan}, {"patience": -1.0}])
def test_constants_outside_their_bounds_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(SysgymError, match=f"adaptive_swift: {next(iter(change))} is "):
        with_constants(**change)


def test_another_number_of_constants_is_refused() -> None:
    with pytest.raises(SysgymError, match=f"expected {law.N_PARAMETERS} constants, got 1"):
        adaptive_swift_transport([1.0])


@pytest.mark.parametrize("delayed", [1, 2])
@pytest.mark.parametrize("other", ["dctcp", "cubic", "bbr", "swift"])
def test_beside_other_laws_it_keeps_a_share(other: str, delayed: int) -> None:
    changes = {"transport.delayed_ack_packets": delayed}
    scenario = load_scenario("dumbbell-10g", overrides=changes, expect=CongestionScenario)
    ours = measure_sharing(scenario, with_constants(), get_transport(other), 0.6, 0).share
    assert 0.5 < ours < 1.5


LINKS: dict[str, tuple[float, dict[str, Any]]] = {
    "12 flows beside 12": (0.6, {"workload.flows_per_pair": 6}),
    "a threshold of 40 packets": (0.6, {"queue.ecn_threshold_bytes": 60_000}),
    "a longer path": (0.6, {"topology.link_delay_s": 2e-5, "workload.flows_per_pair": 3}),
}


@pytest.mark.parametrize("link", LINKS)
def test_it_keeps_a_share_beside_dctcp(link: str) -> None:
    """Both respond to marks. With the delay alone, or a raised target, it has less than a fifth or all."""
    duration_s, changes = LINKS[link]
    scenario = load_scenario("dumbbell-10g", overrides=changes, expect=CongestionScenario)
    for seed in (0, 1):
        ours = measure_sharing(scenario, with_constants(), get_transport("dctcp"), duration_s, seed).share
        assert 0.5 < ours < 1.5


def test_beside_a_law_that_fills_the_buffer_of_a_slow_core_the_target_rises_far() -> None:
    """Queues are in packets of the host's line: a hundred of them in the time of one of the core's."""
    changes = {"topology.link_rate_bps": 100e9, "topology.core_rate_bps": 1e9}
    scenario = load_scenario("dumbbell-10g", overrides=changes, expect=CongestionScenario)
    assert 0.5 < measure_sharing(scenario, with_constants(), get_transport("cubic"), 8.0, 0).share < 1.7


CROWDS: dict[str, dict[str, Any]] = {
    "four": {},
    "32 on a short path": {"topology.link_delay_s": 5e-6, "workload.flows_per_pair": 8},
    "96": {"workload.flows_per_pair": 24},
    "56 at the threshold of marks": {
        "topology.link_delay_s": 1e-6,
        "workload.flows_per_pair": 14,
        "queue.ecn_threshold_bytes": 81_000,
    },
    "32 without marks": {"queue.ecn_threshold_bytes": 1_000_000, "workload.flows_per_pair": 8},
}


@pytest.mark.parametrize("delayed", [1, 2])
@pytest.mark.parametrize("crowd", CROWDS)
def test_its_own_flows_share_equally_and_keep_the_queue_short(crowd: str, delayed: int) -> None:
    """Flows that begin one after the other do not take each other for other laws."""
    changes = CROWDS[crowd] | {"workload.start_jitter_s": 5e-3, "transport.delayed_ack_packets": delayed}
    network = load_scenario("dumbbell-10g", overrides=changes, expect=CongestionScenario)
    for seed in (1, 2):
        found = measure_sharing(network, with_constants(), with_constants(), 0.2, seed)
        assert found.jain_index > 0.99
        assert found.queue_mean_bytes < 120_000
