"""Pacing, delivery rates, telemetry, notifications and timers of rate-based transports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport, get_transport, list_transports
from sysgym.emulator.packets.transports.base import do_nothing
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.errors import SysgymError
from tests.emulator.packets.simple_laws import paced_at

MakeNetwork = Callable[..., PacketNetwork]


def transport_of(name: str, **callbacks: Any) -> Transport:
    """A transport of these callbacks and options; what is left out does nothing."""
    options = {"on_ack": do_nothing, "on_loss": do_nothing, "on_timeout": do_nothing, **callbacks}
    return Transport(name=name, summary="for a test", **options)


@pytest.mark.parametrize("transport", list_transports())
def test_the_extended_loop_does_what_the_plain_one_does(make_network: MakeNetwork, transport: str) -> None:
    plain = get_transport(transport)
    if plain.needs_extras:
        pytest.skip("has no plain form")

    def on_tick(flow, event):  # type: ignore[no-untyped-def]
        pass

    extended = replace(plain, on_tick=on_tick, tick_s=3e-6)
    networks = [make_network(law, seed=5, workload__flows_per_pair=3) for law in (plain, extended)]
    for network in networks:
        network.set_host_rate_caps(np.linspace(1e9, 9e9, network.n_hosts))
        network.advance(5e-3)
        network.set_host_rate_caps(np.full(network.n_hosts, np.inf))
        network.advance(20e-3)
    one, other = (network._state for network in networks)
    assert one.links.tobytes() == other.links.tobytes()
    assert one.hosts.tobytes() == other.hosts.tobytes()
    for field in ("una", "nxt", "cwnd", "ssthresh", "rcv_nxt", "rtt_sum_ns", "retransmitted_packets"):
        assert np.array_equal(one.flows[field], other.flows[field]), field
    assert other.links["dropped_packets"].sum() >= 0


@pytest.mark.parametrize("rate_bps", [1e6, 3.3e9, 7.7e9])
def test_a_pace_spaces_packets_to_the_nanosecond(make_network: MakeNetwork, rate_bps: float) -> None:
    network = make_network(
        paced_at(rate_bps), topology__hosts_per_side=1, workload__start_jitter_s=0.0,
        transport__host_jitter_s=0.0,
    )  # fmt: skip
    n_packets = 1000
    network.advance((n_packets - 0.5) * 1500 * 8 / rate_bps)
    assert network.hosts().sent_packets[0] == n_packets
    network.advance(3e-9 + 0.5 * 1500 * 8 / rate_bps)
    assert network.hosts().sent_packets[0] == n_packets + 1


def test_a_slow_flow_does_not_hold_up_the_others_of_its_host(make_network: MakeNetwork) -> None:
    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = 1e9
        flow.pacing_rate_bps = 1e6 if flow.start_ns == 0 else 4e9

    network = make_network(transport_of("two-paces", on_start=on_start), topology__hosts_per_side=1)
    rng = np.random.default_rng(0)
    zeros = np.zeros(2, np.int64)
    network.reset(0, make_schedule(rng, zeros, zeros + 1, size_bytes=-1, start_ns=np.array([0, 1])))
    network.advance(50e-3)
    delivered_bps = 8 * network.flows().delivered_bytes / 50e-3
    assert network.flows().delivered_bytes[0] == 5 * 1460, "one at the start and every 12 ms"
    assert delivered_bps[1] == pytest.approx(4e9 * 1460 / 1500, rel=0.005)


def test_paced_flows_of_a_full_host_share_its_card(make_network: MakeNetwork) -> None:
    network = make_network(paced_at(6e9), topology__hosts_per_side=1, workload__flows_per_pair=4)
    network.advance(2e-3)
    before = network.flows().delivered_bytes
    network.advance(10e-3)
    goodput_bps = 8 * (network.flows().delivered_bytes - before) / 10e-3
    assert goodput_bps.sum() == pytest.approx(10e9 * 1460 / 1500, rel=0.002)
    assert goodput_bps == pytest.approx(np.full(4, 2.5e9 * 1460 / 1500), rel=0.02)


def test_a_pace_may_change_and_end(make_network: MakeNetwork) -> None:
    def on_ack(flow, event):  # type: ignore[no-untyped-def]
        flow.pacing_rate_bps = 5e9 if event.now_ns < 10_000_000 else 0.0

    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = 53.0
        flow.pacing_rate_bps = 1e9

    network = make_network(
        transport_of("changes", on_start=on_start, on_ack=on_ack), topology__hosts_per_side=1,
        workload__start_jitter_s=0.0,
    )  # fmt: skip
    network.advance(5e-3)
    rates_bps = []
    for _ in range(3):
        before = network.hosts().sent_bytes[0]
        network.advance(4.9e-3)
        rates_bps.append(8 * (network.hosts().sent_bytes[0] - before) / 4.9e-3)
    assert rates_bps[0] == pytest.approx(5e9, rel=0.002)
    assert rates_bps[2] == pytest.approx(53 * 1500 * 8 / 64.3e-6, rel=0.03)


def test_a_cut_pace_holds_for_the_packet_that_waits(make_network: MakeNetwork) -> None:
    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = 1.0
        flow.pacing_rate_bps = 1e9

    def on_ack(flow, event):  # type: ignore[no-untyped-def]
        flow.pacing_rate_bps = 1e6

    network = make_network(
        transport_of("cut", on_start=on_start, on_ack=on_ack), workload__start_jitter_s=0.0,
        transport__host_jitter_s=0.0,
    )  # fmt: skip
    network.advance(12e-3 - 1e-6)
    assert np.all(network.hosts().sent_packets[:4] == 1)
    network.advance(2e-6)
    assert np.all(network.hosts().sent_packets[:4] == 2)


@pytest.mark.parametrize("rate_bps", [1e300, 1e-300])
def test_a_pace_out_of_range_is_the_nearest_there_is(make_network: MakeNetwork, rate_bps: float) -> None:
    network = make_network(paced_at(rate_bps, window=10.0), workload__start_jitter_s=0.0)
    network.advance(5e-3)
    sent = network.hosts().sent_packets[:4]
    assert np.all(sent == 1) if rate_bps == 1e-300 else np.all(sent > 100)


def test_samples_measure_the_bottleneck_rate(make_network: MakeNetwork) -> None:
    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = 200.0

    def on_ack(flow, event):  # type: ignore[no-untyped-def]
        delivered = event.delivered_packets - event.delivered_at_send
        flow.state[0] = delivered / event.delivery_interval_ns * 12e12
        flow.state[1] = max(flow.state[1], flow.state[0] if event.now_ns > 2_000_000 else 0.0)
        flow.state[2] = event.delivered_packets
        flow.state[3] += event.app_limited
        flow.state[4] = event.hops

    network = make_network(
        transport_of("samples", on_start=on_start, on_ack=on_ack), topology__hosts_per_side=1,
        topology__core_rate_bps=4e9, workload__start_jitter_s=0.0, transport__host_jitter_s=0.0,
        queue__ecn_threshold_bytes=999_000,
    )  # fmt: skip
    network.advance(20e-3)
    state = network._state.flows["state"][0]
    assert state[0] == pytest.approx(4e9, rel=0.01)
    assert state[1] == pytest.approx(4e9, rel=0.02), "a sample above the bottleneck's rate"
    assert state[2] == network.flows().acked_packets[0]
    assert state[3] == 0
    assert state[4] == 3


def test_the_last_flight_of_a_short_flow_is_application_limited(make_network: MakeNetwork) -> None:
    def on_ack(flow, event):  # type: ignore[no-untyped-def]
        flow.state[0] += event.app_limited
        flow.state[1] += 1

    network = make_network(transport_of("short", on_ack=on_ack), topology__hosts_per_side=1)
    rng = np.random.default_rng(0)
    network.reset(0, make_schedule(rng, [0], [1], size_bytes=1460 * 25, start_ns=0))
    network.advance(5e-3)
    limited, samples = network._state.flows["state"][0][:2]
    assert samples == 25
    assert 1 <= limited < 10


def test_telemetry_tells_queue_rate_and_bytes_of_every_switch(make_network: MakeNetwork) -> None:
    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = 200.0

    def on_ack(flow, event):  # type: ignore[no-untyped-def]
        state = flow.state
        elapsed_ns = event.int_time_ns[0] - state[1]
        if state[1] > 0.0 and elapsed_ns > 0:
            state[2] = (event.int_tx_bytes[0] - state[0]) / elapsed_ns * 8e9
        state[0] = event.int_tx_bytes[0]
        state[1] = event.int_time_ns[0]
        state[3] = event.int_hops
        state[4] = event.int_queue_bytes[0]
        state[5] = event.int_rate_bps[0]
        state[6] = event.int_rate_bps[1]
        state[7] = event.int_queue_bytes[1]

    network = make_network(
        transport_of("telemetry", on_start=on_start, on_ack=on_ack, needs_int=True),
        topology__hosts_per_side=1, topology__core_rate_bps=5e9, workload__start_jitter_s=0.0,
        transport__host_jitter_s=0.0, queue__ecn_threshold_bytes=999_000,
    )  # fmt: skip
    network.advance(20e-3)
    state = network._state.flows["state"][0]
    assert state[2] == pytest.approx(5e9, rel=0.01)
    assert state[3] == 2, "two switches; the host's own card does not stamp"
    core = network.ports().queue_bytes.max()
    assert state[4] == pytest.approx(core, abs=3100)
    assert (state[5], state[6]) == (5e9, 10e9)
    assert state[7] <= 1500


@pytest.mark.parametrize("queue", [{}, {"queue__pfc_pause_bytes": 500_000}])
def test_telemetry_tells_the_queue_that_a_packet_leaves_behind(
    make_network: MakeNetwork, queue: dict[str, int]
) -> None:
    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = 100.0

    def on_ack(flow, event):  # type: ignore[no-untyped-def]
        flow.state[0] = max(flow.state[0], event.int_queue_bytes[0])
        flow.state[1] = event.int_queue_bytes[0]
        flow.state[2] = event.int_tx_bytes[0]

    # A hundred packets at once over a core link of half the rate: the last one leaves an empty queue.
    network = make_network(
        transport_of("telemetry", on_start=on_start, on_ack=on_ack, needs_int=True),
        topology__hosts_per_side=1, topology__core_rate_bps=5e9, transport__host_jitter_s=0.0,
        transport__host_queue_packets=100, **queue,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    network.reset(
        0, make_schedule(rng, np.array([0]), np.array([1]), size_bytes=100 * 1460, start_ns=np.array([0]))
    )
    network.advance(1e-3)
    largest, last, sent = network._state.flows["state"][0][:3]
    assert 30 * 1500 < largest < 50 * 1500
    assert last == 0
    assert sent == 100 * 1500


def test_notifications_come_at_most_once_an_interval(make_network: MakeNetwork) -> None:
    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = 300.0

    def on_ack(flow, event):  # type: ignore[no-untyped-def]
        state = flow.state
        if event.cnp:
            if state[1] > 0.0:
                state[2] = min(state[2], event.now_ns - state[1]) if state[0] > 1 else event.now_ns - state[1]
            state[0] += 1
            state[1] = event.now_ns
        state[3] += event.marked

    network = make_network(
        transport_of("notified", on_start=on_start, on_ack=on_ack, cnp_interval_ns=50_000, ecn_capable=True),
        topology__hosts_per_side=1, topology__core_rate_bps=5e9, workload__start_jitter_s=0.0,
        transport__host_jitter_s=0.0,
    )  # fmt: skip
    network.advance(20e-3)
    notifications, _, least_ns, marked = network._state.flows["state"][0][:4]
    assert marked > 1000
    assert 380 <= notifications <= 401
    assert least_ns >= 50_000


def test_ticks_strike_while_a_flow_is_active(make_network: MakeNetwork) -> None:
    def on_tick(flow, event):  # type: ignore[no-untyped-def]
        flow.state[0] += 1
        flow.state[1] = event.now_ns
        flow.cwnd = 2.0

    network = make_network(transport_of("ticks", on_tick=on_tick, tick_s=55e-6), workload__start_jitter_s=0.0)
    network.advance(55e-6 * 100 + 1e-9)
    state = network._state.flows["state"]
    assert np.all(state[:, 0] == 100)
    assert np.all(state[:, 1] == 55_000 * 100)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tick_s": -1.0}, "tick_s is -1.0"),
        ({"tick_s": float("nan")}, "tick_s is nan"),
        ({"tick_s": 1e-5}, "there is no on_tick"),
        ({"cnp_interval_ns": -5}, "cnp_interval_ns is -5"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SysgymError, match=message):
        transport_of("wrong", **options)


def test_what_a_transport_needs_is_read_from_its_code() -> None:
    from numba import njit

    @njit
    def helper(flow, event):  # type: ignore[no-untyped-def]
        return event.delivered_packets

    def through_a_helper(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = helper(flow, event)

    assert transport_of("helper", on_ack=through_a_helper).needs_extras
    assert paced_at(1e9).needs_extras
    assert not any(
        get_transport(name).needs_extras for name in ("reno", "cubic", "dctcp", "newvegas", "paced")
    )


def a_paced_flow_beside_three_greedy_ones(
    make_network: MakeNetwork, rate_bps: float, window: float
) -> PacketNetwork:
    """Four flows of one host; the first is paced, the others have a window and send as ACKs come back."""

    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = 1e9 if flow.start_ns == 0 else window
        flow.pacing_rate_bps = rate_bps if flow.start_ns == 0 else 0.0

    network = make_network(
        transport_of("beside", on_start=on_start), topology__hosts_per_side=1, queue__buffer_bytes=10_000_000
    )
    pairs = np.zeros(4, np.int64)
    rng = np.random.default_rng(0)
    network.reset(1, make_schedule(rng, pairs, pairs + 1, size_bytes=-1, start_ns=np.arange(4)))
    network.advance(2e-3)
    return network


@pytest.mark.parametrize(
    ("share", "window"),
    [
        (0.5, 8.0),  # three windows of eight packets a round trip: less than half of the line
        (0.3, 12.0),
        (0.24, 1e4),  # greedy without end: each of four has a quarter
        (0.1, 1e4),
    ],
)
def test_a_paced_flow_makes_good_of_turns_that_it_missed(
    make_network: MakeNetwork, share: float, window: float
) -> None:
    network = a_paced_flow_beside_three_greedy_ones(make_network, share * 10e9, window)
    before, sent_before = network.flows().delivered_bytes, network.hosts().sent_bytes[0]
    network.advance(20e-3)
    goodput_bps = 8 * (network.flows().delivered_bytes - before) / 20e-3
    assert goodput_bps[0] == pytest.approx(share * 10e9 * 1460 / 1500, rel=0.03)
    others = 8 * (network.hosts().sent_bytes[0] - sent_before) / 20e-3 - share * 10e9
    assert others > 2e9, "the others are there"


def test_what_was_late_for_want_of_data_or_of_a_window_is_not_made_good(make_network: MakeNetwork) -> None:
    network = make_network(
        paced_at(1e9, window=2.0), topology__hosts_per_side=1, workload__start_jitter_s=0.0,
        topology__link_delay_s=100e-6, transport__host_jitter_s=0.0,
    )  # fmt: skip
    recording = network.record(["h0->west"])
    network.advance(20e-3)
    times_ns = recording.packets["time_ns"]
    assert np.diff(times_ns).min() == 12_000, "two packets a round trip, spaced by the pace"


def test_what_is_made_good_is_bounded(make_network: MakeNetwork) -> None:
    """After ten milliseconds with few turns: four packets beyond the pace, and no more."""
    network = make_network(
        paced_at(1e9), topology__hosts_per_side=1, workload__start_jitter_s=0.0,
        transport__host_jitter_s=0.0,
    )  # fmt: skip
    network.set_host_rate_caps(np.full(2, 1e8))
    network.advance(10e-3)
    recording = network.record(["h0->west"])
    network.set_host_rate_caps(np.full(2, np.inf))
    network.advance(1e-3)
    spacing_ns = np.diff(recording.packets["time_ns"])
    ahead_of_pace = np.arange(1, len(spacing_ns) + 1) - spacing_ns.cumsum() / 12_000
    assert 3.0 < ahead_of_pace.max() <= 4.0
    assert np.all(spacing_ns[5:] == 12_000)


@pytest.mark.parametrize("flows_per_pair", [1, 2])
def test_a_pace_that_is_set_applies_to_the_packet_that_waits(
    make_network: MakeNetwork, flows_per_pair: int
) -> None:
    """At 1 Mb/s a packet waits for 12 ms; the new pace counts from the packet before it."""
    network = make_network(
        paced_at(1e6), topology__hosts_per_side=1, workload__start_jitter_s=0.0,
        workload__flows_per_pair=flows_per_pair, transport__host_jitter_s=0.0,
    )  # fmt: skip
    flows = np.arange(flows_per_pair)
    network.advance(1e-3)
    assert network.hosts().sent_packets[0] == flows_per_pair
    network.set_flow_rates(flows, 100e6)
    network.advance(1.2e-3)
    assert network.hosts().sent_packets[0] == pytest.approx(flows_per_pair * (1 + 10), abs=flows_per_pair)
    network.set_flow_rates(flows, 1e6)
    before = int(network.hosts().sent_packets[0])
    network.advance(11e-3)
    assert network.hosts().sent_packets[0] == before
    network.advance(2e-3)
    assert network.hosts().sent_packets[0] == before + flows_per_pair


@pytest.mark.parametrize("share", [0.98, 1.0])
def test_a_cap_does_not_lengthen_the_queue_of_a_card_that_also_sends_acks(
    make_network: MakeNetwork, share: float
) -> None:
    network = make_network(
        "paced", topology={"kind": "single_switch", "hosts": 2, "link_rate_bps": 10e9, "link_delay_s": 2e-6},
        workload={"kind": "long_lived", "pairs": "all_to_all"},
    )  # fmt: skip
    network.set_host_rate_caps(np.full(2, share * 10e9))
    uplinks = network.topology.host_uplink
    for _ in range(20):
        network.advance(1e-3)
        limit_bytes = (network.scenario.transport.host_queue_packets + 1) * 1500
        assert network.ports().queue_bytes[uplinks].max() <= limit_bytes
    assert network.hosts().delivered_bytes.sum() * 8 / 20e-3 > 0.9 * 2 * 10e9
