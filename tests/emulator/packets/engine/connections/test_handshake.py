"""Handshakes: a round trip before the data, and a second's wait for a SYN that was lost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sysgym.emulator.packets.memory.records import NOBODY
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import get_transport, list_transports
from sysgym.emulator.packets.workloads.schedule import make_schedule
from tests.emulator.packets.simple_laws import ALONE

MakeNetwork = Callable[..., PacketNetwork]

SENDER_DRIVEN = [name for name in list_transports() if get_transport(name).receiver is None]

SYN_ROUND_TRIP_S = 6 * (10e-6 + 60 * 8 / 10e9)


def completion_s(network: PacketNetwork, packets: int, until_s: float) -> float:
    rng = np.random.default_rng(0)
    network.reset(0, make_schedule(rng, [0], [1], size_bytes=1460 * packets, start_ns=0))
    network.advance(until_s)
    return float(network.flows().finish_s[0])


@pytest.mark.parametrize("transport", SENDER_DRIVEN)
@pytest.mark.parametrize("detection", ["rack", "dupack"])
def test_a_flow_takes_the_round_trip_of_two_small_packets_longer(
    make_network: MakeNetwork, transport: str, detection: str
) -> None:
    times_s = [
        completion_s(
            make_network(
                transport, transport__handshake=handshake, transport__loss_detection=detection, **ALONE
            ),
            100,
            0.5,
        )
        for handshake in (False, True)
    ]
    assert times_s[1] - times_s[0] == pytest.approx(SYN_ROUND_TRIP_S, rel=0.02, abs=6e-6)


def test_until_the_answer_nothing_else_is_sent(make_network: MakeNetwork) -> None:
    network = make_network("cubic", transport__handshake=True, **ALONE)
    network.advance(SYN_ROUND_TRIP_S - 1e-7)
    assert network.hosts().sent_packets.sum() == 0
    assert network.hosts().active_flows.sum() == 1
    assert network.ports().sent_bytes.sum() > 0
    network.advance(2e-7)
    assert network.hosts().sent_packets.sum() > 0
    assert network._state.flows["srtt_ns"][0] == pytest.approx(SYN_ROUND_TRIP_S * 1e9, abs=2)


def test_a_lost_syn_is_sent_again_after_1_and_2_seconds(make_network: MakeNetwork) -> None:
    """RFC 6298, 2.1 and 5.5; timers have the granularity of the tick, an eighth of 10 ms."""
    network = make_network(
        "cubic", transport__handshake=True, transport__max_rto_s=60.0,
        faults__links=[{"link": "west->east", "down_s": 0.0, "up_s": 2.5}], faults__reroute_s=100.0, **ALONE,
    )  # fmt: skip
    finish_s = completion_s(network, 1, 5.0)
    ticks_s = 10e-3 / 8
    assert 3.0 < finish_s < 3.0 + 3 * ticks_s + 200e-6
    assert network.flows().timeouts[0] == 2
    assert network.hosts().timeouts.sum() == 2


def test_a_second_flow_on_the_same_connection_has_none(make_network: MakeNetwork) -> None:
    rng = np.random.default_rng(0)
    schedule = make_schedule(rng, [0, 0], [1, 1], size_bytes=1460, start_ns=[0, 1_000_000])
    network = make_network("cubic", transport__handshake=True, transport__connections="persistent", **ALONE)
    network.reset(0, schedule)
    network.advance(2e-3)
    flows = network.flows()
    first_s, second_s = flows.finish_s - flows.start_s
    assert first_s - second_s == pytest.approx(SYN_ROUND_TRIP_S, abs=1e-8)


@pytest.mark.parametrize("transport", SENDER_DRIVEN)
def test_all_is_delivered_although_syns_and_data_are_lost(make_network: MakeNetwork, transport: str) -> None:
    network = make_network(
        transport, topology={"kind": "single_switch", "hosts": 9, "link_rate_bps": 1e9, "link_delay_s": 1e-6},
        workload={"kind": "incast", "senders": 8, "request_bytes": 60_000, "period_s": 5e-3},
        control__decision_interval_s=1e-3, control__episode_steps=20, faults__loss_probability=0.02,
        transport__handshake=True, transport__connections="persistent", transport__delayed_ack_packets=2,
        transport__min_rto_s=2e-3, queue__buffer_bytes=30_000, queue__ecn_threshold_bytes=15_000,
    )  # fmt: skip
    network.advance(30.0)
    flows = network.flows()
    assert len(flows.src) == 32
    assert np.array_equal(flows.delivered_bytes, flows.size_bytes)
    assert network.hosts().active_flows.sum() == 0
    assert np.all(network._state.links["head"] == NOBODY)
    assert network._state.world["free_packets"][0] == len(network._state.packets)


@pytest.mark.parametrize("ack_class", [None, 1])
@pytest.mark.parametrize("priorities", [(1, 0), (0, 1)])
def test_a_syn_travels_in_the_class_of_its_flow(
    make_network: MakeNetwork, priorities: tuple[int, int], ack_class: int | None
) -> None:
    network = make_network(
        "dctcp", transport__handshake=True, queue__classes=2, queue__ack_class=ack_class, **ALONE
    )
    rng, start_ns = np.random.default_rng(0), [0, 50_000_000]
    schedule = make_schedule(
        rng, [0, 0], [1, 1], size_bytes=146_000, start_ns=start_ns, priority=list(priorities)
    )
    network.reset(0, schedule)
    network.advance(49.9e-3)
    before = network.classes().accepted_packets.sum(axis=0)
    network.advance(0.1e-3 + SYN_ROUND_TRIP_S - 1e-7)
    expected = np.zeros(2)
    expected[priorities[1]] += 3
    expected[priorities[1] if ack_class is None else ack_class] += 3
    assert (network.classes().accepted_packets.sum(axis=0) - before).tolist() == expected.tolist()
