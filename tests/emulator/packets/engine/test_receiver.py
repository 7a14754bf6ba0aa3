"""Delayed ACKs: number, time and marks (RFC 5681, 4.2; RFC 8257, 3.2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.transports.base import do_nothing
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import ScenarioError
from tests.emulator.packets.simple_laws import ALONE

MakeNetwork = Callable[..., PacketNetwork]


def observer_of_acks(packets: float, *, ecn_capable: bool = False) -> Transport:
    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = packets

    def on_ack(flow, event):  # type: ignore[no-untyped-def]
        flow.state[0] += 1
        flow.state[1] += event.acked_packets
        flow.state[2] = max(flow.state[2], event.acked_packets)
        flow.state[3] = max(flow.state[3], event.endpoint_delay_ns)
        flow.state[4] += event.marked * event.acked_packets

    return Transport(
        "observer",
        "a constant window that counts ACKs",
        on_ack,
        do_nothing,
        do_nothing,
        on_start,
        ecn_capable=ecn_capable,
    )


def one_flow(network: PacketNetwork, packets: int) -> None:
    rng = np.random.default_rng(0)
    network.reset(0, make_schedule(rng, [0], [1], size_bytes=1460 * packets, start_ns=0))


@pytest.mark.parametrize("every", [1, 2, 4, 10])
def test_one_ack_answers_so_many_packets(make_network: MakeNetwork, every: int) -> None:
    network = make_network(observer_of_acks(40), transport__delayed_ack_packets=every, **ALONE)
    one_flow(network, 1000)
    network.advance(5e-3)
    acks, acked, most = network._state.flows["state"][0][:3]
    assert acked == 1000
    assert acks == 1000 / every
    assert most == every
    assert network.hosts().acked_packets[0] == 1000, "packets are counted, not ACKs"


def test_the_first_acks_of_a_flow_may_be_sent_at_once(make_network: MakeNetwork) -> None:
    network = make_network(
        observer_of_acks(40), transport__delayed_ack_packets=4, transport__quick_acks=16, **ALONE
    )
    one_flow(network, 1000)
    network.advance(5e-3)
    acks, acked, most = network._state.flows["state"][0][:3]
    assert acked == 1000
    assert acks == 16 + (1000 - 16) / 4
    assert most == 4


def test_what_is_left_over_is_acknowledged_after_the_timeout(make_network: MakeNetwork) -> None:
    network = make_network(
        observer_of_acks(3),
        transport__delayed_ack_packets=2,
        transport__delayed_ack_timeout_s=500e-6,
        **ALONE,
    )
    network.advance(1e-3)
    first_s = 30e-6 + 3 * 1.2e-6  # of the first packet's way; the third waits alone
    ack_s = 30e-6 + 3 * 48e-9
    acked_after_timeout_s = first_s + 2 * 1.2e-6 + 500e-6 + ack_s
    one_flow(network, 3_000)
    network.advance(acked_after_timeout_s - 1e-7)
    assert network._state.flows["state"][0][1] % 2 == 0
    assert network._state.flows["state"][0][3] == 0


def test_a_held_ack_tells_for_how_long(make_network: MakeNetwork) -> None:
    network = make_network(
        observer_of_acks(1),
        transport__delayed_ack_packets=2,
        transport__delayed_ack_timeout_s=500e-6,
        **ALONE,
    )
    network.advance(10e-3)
    acks, _, _, held_ns = network._state.flows["state"][0][:4]
    round_s = 63.744e-6 + 500e-6
    assert acks == np.floor(10e-3 / round_s)
    assert held_ns == 500_000


def test_the_last_packet_of_a_flow_does_not_wait(make_network: MakeNetwork) -> None:
    network = make_network(observer_of_acks(10), transport__delayed_ack_packets=2, **ALONE)
    one_flow(network, 5)
    network.advance(300e-6)
    assert network._state.flows["una"][0] == 5


def test_every_mark_is_echoed_for_the_packets_that_had_it(make_network: MakeNetwork) -> None:
    """Alizadeh et al., 2010, 3.1: the exact stream of marks survives delayed ACKs."""
    for every in (1, 2, 8):
        network = make_network(
            observer_of_acks(100, ecn_capable=True), transport__delayed_ack_packets=every,
            **{**ALONE, "topology__core_rate_bps": 5e9, "queue__ecn_threshold_bytes": 100_000},
        )  # fmt: skip
        network.advance(10e-3)
        marked_by_switch = network.ports().marked_packets.sum()
        marked_seen = network._state.flows["state"][0][4]
        in_flight = 100
        assert marked_by_switch - in_flight <= marked_seen <= marked_by_switch
        assert network.hosts().marked_packets[0] == marked_seen
        assert marked_seen < network.hosts().acked_packets[0], "some are not marked"


def test_a_hole_is_acknowledged_packet_by_packet(make_network: MakeNetwork) -> None:
    """Three ACKs beyond a hole are what fast retransmit needs (RFC 5681, 4.2)."""
    network = make_network(
        "cubic",
        transport__delayed_ack_packets=8,
        queue__buffer_bytes=60_000,
        queue__ecn_threshold_bytes=60_000,
    )
    network.advance(50e-3)
    hosts = network.hosts()
    assert network.ports().dropped_packets.sum() > 20
    assert hosts.retransmitted_packets.sum() > 0
    assert hosts.timeouts.sum() < network.ports().dropped_packets.sum() / 10
    assert 8 * hosts.delivered_bytes.sum() / 50e-3 > 8e9


@pytest.mark.parametrize("transport", ["dctcp", "reno", "cubic", "newvegas"])
def test_delayed_acks_leave_utilisation_high(make_network: MakeNetwork, transport: str) -> None:
    network = make_network(transport, transport__delayed_ack_packets=2)
    network.advance(20e-3)
    before = network.hosts().delivered_bytes.sum()
    network.advance(50e-3)
    share = 8 * (network.hosts().delivered_bytes.sum() - before) / 50e-3 / (10e9 * 1460 / 1500)
    assert share > 0.9


@pytest.mark.parametrize(("coalescing_s", "packets"), [(1.1e-6, 1), (3.5e-6, 3), (11.9e-6, 10)])
def test_what_arrives_in_a_time_is_acknowledged_together(
    make_network: MakeNetwork, coalescing_s: float, packets: int
) -> None:
    network = make_network(observer_of_acks(400), transport__receive_coalescing_s=coalescing_s, **ALONE)
    one_flow(network, 6000)
    network.advance(10e-3)
    acks, acked, most = network._state.flows["state"][0][:3]
    assert acked == 6000
    assert most == packets
    assert acks == pytest.approx(6000 / packets, rel=0.02)


def test_no_more_is_gathered_than_fits_into_one_packet(make_network: MakeNetwork) -> None:
    network = make_network(observer_of_acks(400), transport__receive_coalescing_s=400e-6, **ALONE)
    one_flow(network, 6000)
    network.advance(10e-3)
    acked, most = network._state.flows["state"][0][1:3]
    assert acked == 6000
    assert most == 65_536 // 1500


def test_a_single_packet_waits_on_for_a_second_one(make_network: MakeNetwork) -> None:
    network = make_network(
        observer_of_acks(1), transport__delayed_ack_packets=2, transport__delayed_ack_timeout_s=500e-6,
        transport__receive_coalescing_s=50e-6, **ALONE,
    )  # fmt: skip
    network.advance(10e-3)
    acks, _, _, held_ns = network._state.flows["state"][0][:4]
    assert acks == np.floor(10e-3 / (63.744e-6 + 500e-6))
    assert held_ns == 500_000


def test_what_is_gathered_after_a_lone_packet_does_not_wait_for_its_timer(make_network: MakeNetwork) -> None:
    """A lone packet's ACK waits 500 us for a second packet; what is gathered later waits 20 us only."""

    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = 1.0

    def on_ack(flow, event):  # type: ignore[no-untyped-def]
        flow.state[0] += 1
        if flow.state[0] >= 2:
            flow.state[1] = max(flow.state[1], event.endpoint_delay_ns)
        flow.cwnd = 2.0

    def on_tick(flow, event):  # type: ignore[no-untyped-def]
        if flow.state[0] == 0:
            flow.cwnd = 2.0  # the second packet comes 100 us after the first

    law = Transport(
        "one-then-two", "", on_ack, do_nothing, do_nothing, on_start, on_tick=on_tick, tick_s=1e-4
    )
    network = make_network(
        law, transport__delayed_ack_packets=2, transport__delayed_ack_timeout_s=500e-6,
        transport__receive_coalescing_s=20e-6, **ALONE,
    )  # fmt: skip
    one_flow(network, 101)
    network.advance(2e-3)
    acks, longest_ns = network._state.flows["state"][0][:2]
    assert acks > 15
    assert longest_ns <= 20_000


def test_the_end_of_a_flow_is_not_gathered(make_network: MakeNetwork) -> None:
    network = make_network(observer_of_acks(10), transport__receive_coalescing_s=900e-6, **ALONE)
    one_flow(network, 5)
    network.advance(300e-6)
    assert network._state.flows["una"][0] == 5


def test_gathering_must_end_before_an_ack_is_due() -> None:
    with pytest.raises(ScenarioError, match="less than delayed_ack_timeout_s"):
        load_scenario("dumbbell-10g", overrides={"transport.receive_coalescing_s": 1e-3})
