"""BBRv3 against draft-ietf-ccwg-bbr-06: its example test cases (appendix), bounds, and coexistence."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports.bbr.bbr3_model import (
    BANDWIDTH,
    BANDWIDTH_BEFORE,
    CRUISE,
    DOWN,
    GROWTH,
    LAST_PROBE,
    LONG_IN_FLIGHT,
    MARKED_FRACTION,
    PRECAUTIONARY,
    PROBE_RTT_MIN_AT_NS,
    PROBE_RTT_MIN_NS,
    REFILL,
    ROUNDS,
    SHORT_BANDWIDTH,
    SHORT_IN_FLIGHT,
    TOO_HIGH,
    UP,
    in_flight_at_loss,
)
from sysgym.emulator.packets.transports.bbr.common import (
    DRAIN,
    MIN_RTT_NS,
    MODE,
    PIPE_IS_FULL,
    PROBE_RTT,
    STARTUP,
    extra_packets,
)
from sysgym.scenarios import CongestionScenario, load_scenario

Drive = Callable[..., Any]
MakeNetwork = Callable[..., PacketNetwork]
Measure = Callable[..., Any]

RTT_NS = 60_000_000
PACKETS_PER_MBPS = 1e6 / 8 / 1500 * RTT_NS * 1e-9  # 5: what 1 Mb/s delivers in a round trip


class Path:
    """Round trips of one flow, each answered by one ACK with a sample of the delivery rate."""

    def __init__(self, drive: Drive, law: str = "bbr3") -> None:
        self.driver = drive(law, cwnd=10, base_rtt_ns=RTT_NS)
        self.flow = self.driver.flow
        self.event = self.driver.event
        self.state = self.flow.state

    def round(
        self, rate_mbps: float, *, in_flight: int = 0, lost: int = 0, rtt_ns: int = 0, marked: bool = False
    ) -> None:
        """A round trip: what it delivered and lost, with so many packets in flight (0: a full window).

        Without another round trip, that of the empty path need not be measured anew.
        """
        if rtt_ns == 0:
            self.state[PROBE_RTT_MIN_AT_NS] = self.event.now_ns
            rtt_ns = RTT_NS
        packets = round(rate_mbps * PACKETS_PER_MBPS)
        self.event.delivered_at_send = int(self.event.delivered_packets)
        self.event.delivery_interval_ns = RTT_NS
        self.event.window_limited = int(in_flight == 0)
        self.event.in_flight_at_send = in_flight or int(self.flow.cwnd)
        self.event.lost_since_send = lost
        self.flow.retransmitted_packets += lost
        cwnd = float(self.flow.cwnd)
        if in_flight:
            self.flow.cwnd = in_flight  # the driver takes what is in flight from the window
        self.flow.nxt = self.flow.una + packets + int(self.flow.cwnd)
        # The window is set back before the callback could see it: the driver reads it first.
        self.event.now_ns += rtt_ns + 1
        self.event.acked_packets = packets
        self.event.marked = int(marked)
        self.event.rtt_ns = rtt_ns
        self.event.rtt_sampled = 1
        self.event.in_flight_packets = int(self.flow.cwnd)
        self.flow.cwnd = cwnd
        self.event.delivered_packets += packets
        self.flow.delivered_packets = self.event.delivered_packets
        self.flow.una += packets
        self.driver.call_on_ack()

    @property
    def mode(self) -> float:
        return float(self.state[MODE])

    @property
    def bandwidth_mbps(self) -> float:
        return float(max(self.state[BANDWIDTH], self.state[BANDWIDTH_BEFORE])) * 1500 * 8 * 1e3

    @property
    def paced_mbps(self) -> float:
        return float(self.flow.pacing_rate_bps) / 1e6

    def run_to(self, mode: float, rate_mbps: float = 8.0, in_flight: int = 0, rounds: int = 200) -> None:
        """Go on with rounds of a full pipe until a mode is entered."""
        for _ in range(rounds):
            if self.mode == mode:
                return
            self.round(rate_mbps, in_flight=in_flight)
        raise AssertionError(f"mode {mode} is not reached, but {self.mode}")


def filled(drive: Drive, law: str = "bbr3") -> Path:
    """A flow that has just entered DOWN, on a path of 8 Mb/s: a product of 40 packets."""
    path = Path(drive, law)
    for _ in range(4):
        path.round(8.0)
    path.run_to(DOWN, in_flight=100)
    return path


def probing(drive: Drive, law: str = "bbr3") -> Path:
    """A flow in UP."""
    path = filled(drive, law)
    path.run_to(UP, in_flight=30)
    return path


def test_startup_ends_on_a_bandwidth_plateau(drive: Drive) -> None:
    path = Path(drive)
    for rate_mbps in (1.0, 2.0, 4.0, 8.0):
        path.round(rate_mbps)
        assert path.mode == STARTUP
        least_mbps = 4 * math.log(2) * 10 * 1500 * 8 / 60e-3 / 1e6  # the first window's
        assert path.paced_mbps == pytest.approx(max(0.99 * 4 * math.log(2) * rate_mbps, least_mbps))
    for _ in range(3):
        assert path.mode == STARTUP
        path.round(9.0, in_flight=200)
    assert path.state[PIPE_IS_FULL] == 1
    assert path.bandwidth_mbps == pytest.approx(9.0)
    assert path.mode == DRAIN
    assert path.paced_mbps == pytest.approx(0.5 * 0.99 * 9.0)


def test_startup_ends_on_losses_even_if_the_application_limits_the_samples(drive: Drive) -> None:
    path = Path(drive)
    path.event.app_limited = 1
    path.flow.in_recovery = 1
    for _ in range(3):
        path.round(4.0, lost=4)  # a single loss event a round, however many packets it has
    assert path.mode == STARTUP
    path.event.delivered_at_send = int(path.event.delivered_packets) - 20
    for _ in range(5):  # five more ACKs of the same round find losses
        path.flow.retransmitted_packets += 1
        path.driver.call_on_ack()
    path.round(4.0, lost=4)
    assert path.state[PIPE_IS_FULL] == 1
    assert path.mode == DRAIN
    assert path.state[LONG_IN_FLIGHT] == 20, "what the round delivered, 4 Mb/s"


def test_startup_does_not_end_while_the_application_limits_it(drive: Drive) -> None:
    path = Path(drive)
    path.event.app_limited = 1
    for _ in range(20):
        path.round(1.0)
    assert path.mode == STARTUP


def test_drain_ends_by_packets_in_flight_or_after_three_rounds(drive: Drive) -> None:
    drained = Path(drive)
    for _ in range(4):
        drained.round(8.0, in_flight=100)
    assert drained.mode == DRAIN
    drained.round(8.0, in_flight=41)
    assert drained.mode == DRAIN
    drained.round(8.0, in_flight=40)
    assert drained.mode == CRUISE, "DOWN is over at once: nothing is queued"
    late = Path(drive)
    for _ in range(4):
        late.round(8.0, in_flight=100)
    for _ in range(3):
        late.round(8.0, in_flight=100)
        assert late.mode == DRAIN
    late.round(8.0, in_flight=100)
    assert late.mode == DOWN


def test_the_cycle_of_modes_and_their_rates(drive: Drive) -> None:
    path = filled(drive)
    assert path.paced_mbps == pytest.approx(0.9 * 0.99 * 8.0)
    path.round(8.0, in_flight=41)
    assert path.mode == DOWN, "the queue has not drained"
    path.round(8.0, in_flight=40)
    assert path.mode == CRUISE
    assert path.paced_mbps == pytest.approx(0.99 * 8.0)
    path.run_to(REFILL)
    assert path.paced_mbps == pytest.approx(0.99 * 8.0)
    path.round(8.0)
    assert path.mode == UP
    assert path.paced_mbps == pytest.approx(1.25 * 0.99 * 8.0)
    for _ in range(2):
        path.round(8.0)
        assert path.mode == UP
    path.round(8.0)
    assert path.mode == DOWN, "three rounds without a quarter more"


def test_probes_are_as_many_rounds_apart_as_packets_in_flight_and_63_at_most(drive: Drive) -> None:
    for rate_mbps, least, most in ((4.0, 19, 21), (40.0, 61, 64)):
        path = Path(drive)
        for _ in range(4):
            path.round(rate_mbps)
        path.run_to(DOWN, rate_mbps, in_flight=1000)
        rtt_ns = RTT_NS // 10  # so that it is rounds that count, not seconds
        rounds = 0
        while path.mode in (DOWN, CRUISE) and rounds < 100:
            path.round(rate_mbps, in_flight=10, rtt_ns=rtt_ns)
            path.state[MIN_RTT_NS] = RTT_NS
            rounds += 1
        assert path.mode == REFILL
        assert least <= rounds <= most


def test_a_probe_comes_after_three_seconds_at_most_even_from_down(drive: Drive) -> None:
    path = filled(drive)
    entered_ns = int(path.event.now_ns)
    for _ in range(10):
        if path.mode == DOWN:
            path.round(8.0, in_flight=100, rtt_ns=10 * RTT_NS)  # the queue does not drain
    assert path.mode == REFILL
    assert 2e9 < path.event.now_ns - entered_ns < 3.7e9


def test_a_probe_goes_on_while_the_application_limits_it_and_nothing_is_lost(drive: Drive) -> None:
    path = probing(drive)
    path.event.app_limited = 1
    for _ in range(50):
        path.round(8.0, in_flight=30)
        assert path.mode == UP


def test_a_probe_that_loses_more_than_two_percent_sets_the_long_term_bound(drive: Drive) -> None:
    path = probing(drive)
    path.round(8.0, in_flight=100, lost=2)
    assert path.mode == UP, "2 % is not too much"
    path.flow.undo_possible = 1
    path.round(8.0, in_flight=100, lost=3)
    assert path.mode == DOWN
    assert path.state[LAST_PROBE] == TOO_HIGH
    # 97 in flight before the losses; a 2 % prefix of them: 97 + 0.02 x 97 / 0.98.
    assert path.state[LONG_IN_FLIGHT] == math.floor(97 / 0.98)


def test_the_long_term_bound_is_not_below_beta_times_the_target(drive: Drive) -> None:
    path = probing(drive)
    path.round(8.0, in_flight=10, lost=5)
    assert path.state[LONG_IN_FLIGHT] == math.floor(0.7 * 40)


def test_application_limited_losses_end_a_probe_without_a_bound(drive: Drive) -> None:
    path = probing(drive)
    path.event.app_limited = 1
    path.round(8.0, in_flight=60, lost=3)
    assert path.mode == DOWN
    assert path.state[LONG_IN_FLIGHT] == math.inf


def test_losses_passed_the_threshold_where_the_draft_says(drive: Drive) -> None:
    event = Path(drive).event
    event.in_flight_at_send, event.lost_since_send = 100, 10
    assert in_flight_at_loss(event, 10.0) == pytest.approx(90 + (0.02 * 90) / 0.98)
    assert in_flight_at_loss(event, 9.0) == pytest.approx(91 + (0.02 * 91 - 1) / 0.98)
    assert in_flight_at_loss(event, 1.0) == 99, "more were lost before than the threshold allows"


def test_cruise_leaves_headroom_and_refill_does_not(drive: Drive) -> None:
    path = probing(drive)
    path.round(8.0, in_flight=60, lost=3)
    bound = float(path.state[LONG_IN_FLIGHT])
    path.round(8.0, in_flight=int(0.85 * bound) + 1)
    assert path.mode == DOWN
    path.round(8.0, in_flight=30)
    assert path.mode == CRUISE
    assert path.flow.cwnd == pytest.approx(0.85 * bound)
    path.run_to(REFILL, in_flight=30)
    for _ in range(3):
        path.event.acked_packets = 40
        path.driver.call_on_ack()
    assert path.flow.cwnd == pytest.approx(bound)


def test_the_next_probe_after_one_that_was_too_high_is_precautionary(drive: Drive) -> None:
    path = probing(drive)
    path.round(8.0, in_flight=60, lost=3)
    bound = float(path.state[LONG_IN_FLIGHT])
    path.run_to(UP, in_flight=30)
    assert path.state[LONG_IN_FLIGHT] == bound
    path.round(8.0, in_flight=int(bound))
    assert path.mode == DOWN, "it ends as soon as it reaches the bound"
    assert path.state[LAST_PROBE] == PRECAUTIONARY
    path.round(8.0, in_flight=int(bound))
    assert path.mode == REFILL, "nothing was lost: probe again at once"
    path.round(8.0, in_flight=int(bound))
    assert path.mode == UP
    path.round(8.0, in_flight=int(bound))
    assert path.mode == UP, "and this time without precaution"


def test_the_long_term_bound_grows_by_one_two_four_packets_a_round(drive: Drive) -> None:
    path = probing(drive)
    path.round(8.0, in_flight=60, lost=3)
    path.run_to(UP, in_flight=30)
    path.state[LAST_PROBE] = 0
    path.state[LONG_IN_FLIGHT] = path.flow.cwnd = 40.0
    path.state[GROWTH] = 1.0
    bounds = [40.0]
    for rate_mbps in (8.0, 8.0, 8.2, 8.6, 9.4):  # it delivers as many as it has in flight
        path.round(rate_mbps)
        assert path.mode == UP
        bounds.append(float(path.state[LONG_IN_FLIGHT]))
    growth = [after - before for before, after in itertools.pairwise(bounds)]
    assert growth[1:] == pytest.approx([1, 2, 4, 8], rel=0.1)


def test_losses_while_cruising_lower_the_short_term_bounds_until_the_next_probe(drive: Drive) -> None:
    path = filled(drive)
    path.run_to(CRUISE, in_flight=30)
    window = float(path.flow.cwnd)
    for lost in (0, 1, 0):
        path.round(6.0, lost=lost, in_flight=40)
    assert path.state[SHORT_BANDWIDTH] * 12e6 == pytest.approx(6.0), "what was delivered"
    assert path.state[SHORT_IN_FLIGHT] == pytest.approx(max(30, 0.7 * window))
    for lost in (0, 1, 0):
        path.round(1.0, lost=lost, in_flight=40)
    assert path.state[SHORT_BANDWIDTH] * 12e6 == pytest.approx(0.7 * 6.0), "by 30 % at most"
    assert path.paced_mbps == pytest.approx(0.99 * 0.7 * 6.0)
    assert path.bandwidth_mbps == pytest.approx(8.0), "the long-term model stays"
    path.run_to(REFILL, in_flight=10)
    assert path.state[SHORT_BANDWIDTH] == path.state[SHORT_IN_FLIGHT] == math.inf
    assert path.paced_mbps == pytest.approx(0.99 * 8.0)


def test_bandwidth_is_the_largest_of_two_cycles(drive: Drive) -> None:
    path = filled(drive)
    path.run_to(UP, in_flight=30)
    cycles = 0
    while path.bandwidth_mbps > 4.1:
        path.run_to(UP, 4.0, in_flight=10)
        path.run_to(DOWN, 4.0, in_flight=10)
        path.round(4.0, in_flight=10)
        cycles += 1
        assert cycles <= 3
    assert cycles == 2


def test_samples_that_the_application_limits_do_not_lower_the_bandwidth(drive: Drive) -> None:
    path = filled(drive)
    path.event.app_limited = 1
    for _ in range(300):
        path.round(2.0, in_flight=8)
    assert path.bandwidth_mbps == pytest.approx(8.0)


def test_probe_rtt_every_five_seconds_with_half_a_product_in_flight(drive: Drive) -> None:
    path = filled(drive)
    queued_ns = RTT_NS + 30_000_000
    measured_ns = float(path.state[PROBE_RTT_MIN_AT_NS])
    entered_ns = 0
    for _ in range(100):
        path.round(8.0, in_flight=45, rtt_ns=queued_ns)
        entered_ns = int(path.event.now_ns)
        if path.mode == PROBE_RTT:
            break
    assert 5e9 < entered_ns - measured_ns < 5e9 + 2 * queued_ns
    assert path.flow.cwnd == pytest.approx(20.0, abs=0.1)
    path.event.app_limited = 1
    for _ in range(10):
        if path.mode != PROBE_RTT:
            break
        path.round(4.0, in_flight=19, rtt_ns=RTT_NS - 1_000_000)
    assert 200e6 < path.event.now_ns - entered_ns < 200e6 + 4 * RTT_NS
    assert path.mode == CRUISE
    assert path.state[PROBE_RTT_MIN_NS] == path.state[MIN_RTT_NS] == RTT_NS - 1_000_000
    assert path.flow.cwnd > 60, "the window from before"


def test_probe_rtt_amid_startup_returns_to_startup(drive: Drive) -> None:
    path = Path(drive)
    path.event.app_limited = 1
    seen = set()
    while path.event.now_ns < 6e9:
        path.round(1.0, in_flight=4, rtt_ns=RTT_NS + 1_000_000)
        seen.add(path.mode)
    assert seen == {STARTUP, PROBE_RTT}
    assert path.mode == STARTUP


def test_a_product_below_a_packet_has_a_window_of_four_and_room_for_offload(drive: Drive) -> None:
    path = Path(drive)
    for _ in range(8):
        path.round(0.2, in_flight=4)
    assert path.flow.cwnd >= 4
    path.state[LONG_IN_FLIGHT] = 1.0
    path.round(0.2, in_flight=4)
    assert path.flow.cwnd == 4, "however low the bounds are"


def test_aggregated_acks_raise_the_window(drive: Drive) -> None:
    path = filled(drive)
    path.round(8.0, in_flight=30)
    product = 8.0 * PACKETS_PER_MBPS
    assert extra_packets(path.flow, float(path.state[BANDWIDTH])) == pytest.approx(product)
    for _ in range(5):
        path.round(8.0, in_flight=30)
    assert path.flow.cwnd == pytest.approx(3 * product, rel=0.01), "two products, and the ACKs' burst"


def test_a_spurious_recovery_is_undone(drive: Drive) -> None:
    path = probing(drive)
    path.flow.undo_possible = 1
    path.round(8.0, in_flight=60, lost=3)
    assert path.mode == DOWN
    assert path.state[LONG_IN_FLIGHT] < 60
    path.flow.undo_possible = 0  # the sender has learnt that nothing was lost
    path.round(8.0, in_flight=60)
    assert path.mode == REFILL
    assert path.state[LONG_IN_FLIGHT] == math.inf


def test_a_time_out_starts_from_one_packet_and_keeps_the_model(drive: Drive) -> None:
    path = filled(drive)
    for _ in range(3):
        path.round(8.0, in_flight=30)
    window = float(path.flow.cwnd)
    path.flow.recover = int(path.flow.una) + 10
    path.driver.time_out()
    assert path.flow.cwnd == 1
    assert path.bandwidth_mbps == pytest.approx(8.0)
    path.round(8.0, in_flight=30)
    assert path.flow.cwnd >= window - 1


def test_marks_count_only_where_they_are_asked_for(drive: Drive) -> None:
    deaf = filled(drive)
    deaf.run_to(CRUISE, in_flight=30)
    deaf.round(8.0, in_flight=30, marked=True)
    assert deaf.state[SHORT_IN_FLIGHT] == math.inf
    path = filled(drive, "bbr3_ecn")
    path.run_to(CRUISE, in_flight=30)
    fraction = float(path.state[MARKED_FRACTION])
    assert fraction == pytest.approx((15 / 16) ** path.state[ROUNDS], rel=0.5)
    window = float(path.flow.cwnd)
    path.round(8.0, in_flight=30, marked=True)
    fraction += (1 - fraction) / 16
    assert path.state[MARKED_FRACTION] == pytest.approx(fraction)
    assert path.state[SHORT_IN_FLIGHT] == pytest.approx(window * (1 - fraction / 3))
    path.run_to(UP, in_flight=30)
    path.round(8.0, in_flight=55, marked=True)
    assert path.mode == DOWN, "more than half of the round was marked"
    assert path.state[LONG_IN_FLIGHT] == 55


def test_two_marked_rounds_end_startup(drive: Drive) -> None:
    path = Path(drive, "bbr3_ecn")
    path.round(4.0, marked=True)
    assert path.mode == STARTUP
    path.round(8.0, in_flight=100, marked=True)
    assert path.mode == DRAIN


# In networks.


def wide_area(
    buffer_products: float, other: str, own: dict[int, str] | None = None, flows: int = 2, **others: Any
) -> PacketNetwork:
    """A dumbbell of 50 Mb/s and 40 ms, whose buffer is a multiple of the bandwidth-delay product."""
    buffer_bytes = int(buffer_products * 50e6 / 8 * 40e-3)
    overrides = {
        "topology.hosts_per_side": flows, "topology.link_rate_bps": 1e9, "topology.core_rate_bps": 50e6,
        "topology.link_delay_s": 40e-3 / 6, "queue.buffer_bytes": buffer_bytes,
        "queue.ecn_threshold_bytes": buffer_bytes, "transport.min_rto_s": 0.2, "workload.start_jitter_s": 0.1,
        "control.decision_interval_s": 0.1, "control.episode_steps": 400,
        **others,
    }  # fmt: skip
    scenario = load_scenario("dumbbell-10g", overrides=overrides, expect=CongestionScenario)
    network = PacketNetwork(scenario, transport=other, flow_transports=own)
    network.reset(1)
    return network


@pytest.mark.parametrize("other", ["reno", "cubic"])
def test_it_leaves_more_to_reno_and_cubic_than_version_1(measure: Measure, other: str) -> None:
    shares = {}
    for law in ("bbr", "bbr3"):
        network = wide_area(1.0, other, {0: law})
        network.advance(10.0)
        measured = measure(network, 30.0)
        shares[law] = measured.goodput_bps[0] / measured.goodput_bps.sum()
        assert measured.goodput_bps.sum() > 0.95 * 50e6 * 1460 / 1500
    assert shares["bbr"] > 0.9
    assert 0.4 < shares["bbr3"] < 0.8


@pytest.mark.parametrize(("flows", "buffer_products"), [(2, 0.05), (8, 0.05), (8, 0.5)])
def test_it_loses_less_than_two_percent_in_shallow_buffers(
    measure: Measure, flows: int, buffer_products: float
) -> None:
    lost = {}
    for law in ("bbr", "bbr3"):
        network = wide_area(buffer_products, law, flows=flows)
        network.advance(10.0)
        sent = network.flows().acked_packets.sum()
        measured = measure(network, 20.0)
        lost[law] = measured.dropped_packets / (network.flows().acked_packets.sum() - sent)
        assert measured.goodput_bps.sum() > 0.9 * 50e6 * 1460 / 1500
    assert lost["bbr3"] < 0.02
    assert lost["bbr"] > 0.05


@pytest.mark.parametrize(("before_bps", "after_bps"), [(10e6, 100e6), (100e6, 10e6)])
def test_it_follows_a_tenfold_change_of_the_bandwidth(
    measure: Measure, before_bps: float, after_bps: float
) -> None:
    """The draft's test cases: more is found in the next probe, less within two cycles."""
    change = {
        "link": "west->east",
        "interval_s": {"low": 10.0, "high": 10.0, "scale": "linear"},
        "rate_bps": {"low": after_bps, "high": after_bps, "scale": "linear"},
    }
    changing: dict[str, Any] = {"topology.core_rate_bps": before_bps, "faults.rate_changes": [change]}
    network = wide_area(1.0, "bbr3", flows=1, **changing)
    for wait_s, rate_bps in ((9.9, before_bps), (8.0, after_bps)):
        network.advance(wait_s - 2.0)
        assert 0.9 * rate_bps < measure(network, 2.0).goodput_bps[0] * 1500 / 1460 <= 1.01 * rate_bps
        network.advance(0.1)


def test_few_random_losses_do_not_slow_it_down(make_network: MakeNetwork, measure: Measure) -> None:
    """Less than 2 % is no reason to send less; Reno has lost most of its rate."""
    lossy = {"faults": {"loss_probability": 1e-3}, "topology__hosts_per_side": 1}
    goodput_bps = {}
    for name in ("bbr3", "reno"):
        network = make_network(name, **lossy)
        network.advance(20e-3)
        goodput_bps[name] = measure(network).goodput_bps.sum()
    assert goodput_bps["bbr3"] > 0.85 * 10e9 * 1460 / 1500
    assert goodput_bps["reno"] < 0.6 * goodput_bps["bbr3"]


def test_marks_keep_the_queue_short_without_losses(make_network: MakeNetwork, measure: Measure) -> None:
    queues = {}
    for name in ("bbr3", "bbr3_ecn"):
        network = make_network(name)
        network.advance(50e-3)
        measured = measure(network)
        queues[name] = measured.queue_bytes
        assert measured.goodput_bps.sum() > 0.97 * 10e9 * 1460 / 1500
        assert measured.dropped_packets == 0
    assert queues["bbr3_ecn"] < 0.3 * queues["bbr3"]
