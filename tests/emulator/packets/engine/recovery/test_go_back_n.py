"""Go-back-N and selective repeat: what a sender does, by scripts, and what both ends do, on lossy links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from sysgym.emulator.packets.memory.records import NOBODY
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport, get_transport, list_transports
from sysgym.emulator.packets.transports.base import do_nothing
from tests.emulator.packets.engine.recovery.scripted_sender import HALVING, ScriptedSender
from tests.emulator.packets.simple_laws import window_of

pytestmark = pytest.mark.xdist_group("scripted sender")  # compiled once, in one worker

MakeNetwork = Callable[..., PacketNetwork]

SENDER_DRIVEN = [name for name in list_transports() if get_transport(name).receiver is None]

RTT_MS = 20.0
CONSTANT = replace(HALVING, name="constant", on_loss=do_nothing, on_timeout=do_nothing)


def sender(window: int, transport: Transport = CONSTANT) -> ScriptedSender:
    """A sender of which the first packet has made a round trip."""
    scripted = ScriptedSender(window=window, transport=transport, detection="go_back_n")
    assert scripted.sent() == list(range(window))
    scripted.at(RTT_MS).ack(1, by=0)
    assert scripted.sent() == [window]
    return scripted


def test_a_nak_makes_it_go_back() -> None:
    scripted = sender(8)
    scripted.ack(3, by=2)
    scripted.sent()
    scripted.ack(3, by=4)
    assert scripted.sent() == list(range(3, 11))
    assert scripted.flow.retransmitted_packets == 8


def test_what_was_acknowledged_is_not_sent_again() -> None:
    scripted = sender(8)
    scripted.ack(5, by=7)  # the NAK acknowledges all before what it asks for
    assert scripted.sent() == list(range(5, 13))
    scripted.at(2 * RTT_MS).ack(6, by=5)
    assert scripted.sent() == [13]


def test_a_law_is_told_once_of_what_was_sent_before_a_nak() -> None:
    scripted = sender(8, HALVING)
    scripted.ack(1, by=2)
    assert scripted.window == 4
    assert scripted.sent() == [1, 2, 3, 4]
    scripted.at(2 * RTT_MS).ack(2, by=1)
    scripted.ack(2, by=4)  # the second packet was lost again
    assert scripted.window == 4
    assert scripted.sent() == [5, 2, 3, 4, 5]
    scripted.at(3 * RTT_MS).ack(9, by=8, sent_ms=2 * RTT_MS)
    scripted.sent()
    scripted.ack(9, by=10, sent_ms=2 * RTT_MS)
    assert scripted.window == 2


def test_a_time_out_makes_it_go_back() -> None:
    scripted = sender(8)
    scripted.at(RTT_MS + 300)
    assert scripted.sent() == list(range(1, 9))
    assert scripted.flow.timeouts == 1


def test_an_old_nak_is_forgotten() -> None:
    scripted = sender(8)
    scripted.ack(5, by=4)
    scripted.sent()
    scripted.ack(3, by=4)
    assert scripted.sent() == []
    assert scripted.flow.nxt == 13


LOSSY = {
    "topology__hosts_per_side": 1,
    "workload__start_jitter_s": 0.0,
    "faults__loss_probability": 3e-4,
    "transport__min_rto_s": 1e-3,
}


@pytest.mark.parametrize("delayed", [1, 2])
@pytest.mark.parametrize("window", [10, 40])
def test_a_loss_costs_a_window_or_a_packet(make_network: MakeNetwork, window: int, delayed: int) -> None:
    """Of a window beyond a lost packet all arrives out of order, and all is sent again with go-back-N."""
    resent = {}
    for detection in ("go_back_n", "selective_repeat"):
        network = make_network(
            window_of(window), transport__loss_detection=detection,
            transport__delayed_ack_packets=delayed, transport__delayed_ack_timeout_s=50e-6, **LOSSY,
        )  # fmt: skip
        network.advance(0.3)
        flows, ports = network.flows(), network.ports()
        sent = network.hosts().sent_packets.sum()
        lost = sent * 3 * 3e-4  # data packets on three links each
        assert ports.lost_packets.sum() > 30
        resent[detection] = flows.retransmitted_packets.sum() / lost
        assert network._state.flows["held_out_of_order"][0] == 0 or detection == "selective_repeat"
    assert resent["go_back_n"] == pytest.approx(window, rel=0.3)
    assert resent["selective_repeat"] == pytest.approx(1.0, abs=0.4)


@pytest.mark.parametrize("detection", ["go_back_n", "selective_repeat"])
@pytest.mark.parametrize("transport", SENDER_DRIVEN)
def test_all_arrives_in_the_end(make_network: MakeNetwork, transport: str, detection: str) -> None:
    network = make_network(
        transport, topology={"kind": "single_switch", "hosts": 9, "link_rate_bps": 1e9, "link_delay_s": 1e-6},
        workload={"kind": "incast", "senders": 8, "request_bytes": 60_000, "period_s": 5e-3},
        control__decision_interval_s=1e-3, control__episode_steps=20, faults__loss_probability=0.005,
        transport__loss_detection=detection, transport__min_rto_s=1e-3, queue__buffer_bytes=15_000,
        queue__ecn_threshold_bytes=7_500,
    )  # fmt: skip
    network.advance(10.0)
    flows = network.flows()
    assert np.array_equal(flows.delivered_bytes, flows.size_bytes)
    assert flows.retransmitted_packets.sum() > 0
    assert network.hosts().active_flows.sum() == 0
    assert np.all(network._state.links["head"] == NOBODY)
    assert network._state.world["free_packets"][0] == len(network._state.packets)


@pytest.mark.parametrize("transport", ["timely", "dcqcn", "hpcc"])
def test_without_losses_both_are_as_the_others(make_network: MakeNetwork, transport: str) -> None:
    lossless = {"queue__buffer_bytes": 1_000_000, "queue__pfc_pause_bytes": 500_000}
    states = []
    for detection in ("dupack", "go_back_n", "selective_repeat"):
        network = make_network(transport, transport__loss_detection=detection, **lossless)
        network.advance(5e-3)
        assert network.ports().dropped_packets.sum() == 0
        states.append([network.flows().delivered_bytes.tolist(), network.ports().queue_byte_s.tolist()])
    assert states[0] == states[1] == states[2]
