"""Receiver-driven flows: schedules computed by hand, pulls, ranks, requests and packets asked for again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Receiver, Transport
from sysgym.emulator.packets.transports.receiving import (
    ask_again,
    grant,
    missing_pulls,
    queue_pulls,
    set_rank,
)
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.errors import SysgymError, TransportError

MakeNetwork = Callable[..., PacketNetwork]

SWITCH: dict[str, Any] = {
    "topology": {"kind": "single_switch", "hosts": 5, "link_rate_bps": 10e9, "link_delay_s": 5e-6},
    "transport__host_jitter_s": 0.0,
    "transport__min_rto_s": 1e-3,
    "queue__buffer_bytes": 400_000,
}
BASE_RTT_NS = 4 * 5_000 + 2 * 1_200 + 2 * 48
ONE_WAY_NS = 2 * 5_000 + 2 * 1_200
ACK_NS = 48


def one_packet_first(flow, event):  # type: ignore[no-untyped-def]
    flow.credit_packets = 1


def nothing_first(flow, event):  # type: ignore[no-untyped-def]
    flow.credit_packets = 0


def pull_all(message, host, event):  # type: ignore[no-untyped-def]
    queue_pulls(host, message, missing_pulls(message))


def pull_one(message, host, event):  # type: ignore[no-untyped-def]
    queue_pulls(host, message, min(missing_pulls(message), 1))


def pull_shortest(message, host, event):  # type: ignore[no-untyped-def]
    set_rank(host, message, float(message.remaining_packets))
    queue_pulls(host, message, missing_pulls(message))


def grant_one(message, host, event):  # type: ignore[no-untyped-def]
    grant(host, message, message.received_packets + 1)


def grant_all(message, host, event):  # type: ignore[no-untyped-def]
    grant(host, message, message.n_packets)


def ask_when_late(message, host, event):  # type: ignore[no-untyped-def]
    if event.now_ns - max(message.last_arrival_ns, message.state[0]) > 100_000:
        message.state[0] = event.now_ns
        ask_again(host, message)


def driven(on_data: Any, **options: Any) -> Transport:
    """A transport of this receiver; one packet leaves without a grant, unless said otherwise."""
    known = {"on_start": one_packet_first, "recovery": "told", **options}
    receiver = known.pop("receiver", Receiver(on_data=on_data))
    return Transport("driven", "for a test", receiver=receiver, **known)


def run_messages(
    make_network: MakeNetwork, transport: Transport, packets: dict[int, int], until_s: float, **options: Any
) -> PacketNetwork:
    """A network in which hosts send host 0 one message each, of so many full packets, at the same time."""
    network = make_network(transport, **{**SWITCH, **options})
    senders = list(packets)
    sizes = [1460 * packets[sender] for sender in senders]
    schedule = make_schedule(
        np.random.default_rng(1), senders, [0] * len(senders), size_bytes=sizes, start_ns=[0] * len(senders)
    )
    network.reset(1, schedule)
    network.advance(until_s)
    return network


def finish_ns(network: PacketNetwork) -> list[int]:
    return [round(finish * 1e9) for finish in network.flows().finish_s]


def test_a_grant_with_every_ack_is_stop_and_wait(make_network: MakeNetwork) -> None:
    network = run_messages(make_network, driven(grant_one), {1: 7}, 1e-3)
    assert finish_ns(network) == [6 * BASE_RTT_NS + ONE_WAY_NS]
    assert network._state.messages["control_sent"].sum() == 0  # the ACKs carry the grants


def test_a_pull_comes_behind_the_ack(make_network: MakeNetwork) -> None:
    network = run_messages(make_network, driven(pull_one), {1: 7}, 1e-3)
    assert finish_ns(network) == [6 * (BASE_RTT_NS + ACK_NS) + ONE_WAY_NS]
    assert network._state.messages["control_sent"].sum() == 6


def test_a_request_begins_a_message_without_a_first_window(make_network: MakeNetwork) -> None:
    network = run_messages(make_network, driven(grant_all, on_start=nothing_first), {1: 7}, 1e-3)
    request_ns = 2 * (5_000 + ACK_NS)
    assert finish_ns(network) == [2 * request_ns + 6 * 1_200 + ONE_WAY_NS]
    assert network._state.messages["control_sent"].tolist() == [2]
    assert network._state.messages["control_arrived"].tolist() == [2]


def test_pulls_of_all_messages_keep_the_line_busy_and_the_queue_short(make_network: MakeNetwork) -> None:
    network = run_messages(make_network, driven(pull_all), {1: 300, 2: 300, 3: 300, 4: 300}, 2e-3)
    last_ns = max(finish_ns(network))
    assert 1_200 * 1_200 + ONE_WAY_NS < last_ns < 1_200 * 1_200 + ONE_WAY_NS + 2 * BASE_RTT_NS
    assert network.ports().queue_max_bytes[~network.topology.from_host].max() <= 4 * 1500
    assert network.ports().dropped_packets.sum() == 0


def test_equal_ranks_take_turns_and_the_lowest_rank_goes_first(make_network: MakeNetwork) -> None:
    sizes = {1: 100, 2: 200, 3: 300}
    in_turn = run_messages(make_network, driven(pull_all), sizes, 2e-3)
    shortest = run_messages(make_network, driven(pull_shortest), sizes, 2e-3)
    packets_ns = 1_200 * np.array([[300, 500, 600], [100, 300, 600]])  # processor sharing; shortest first
    for network, expected_ns in zip((in_turn, shortest), packets_ns, strict=True):
        assert np.allclose(finish_ns(network), expected_ns, atol=2 * BASE_RTT_NS)


def test_pulls_may_be_spaced_wider(make_network: MakeNetwork) -> None:
    wide = driven(None, receiver=Receiver(on_data=pull_all, pull_spacing=2.0))
    network = run_messages(make_network, wide, {1: 400, 2: 400}, 4e-3)
    assert max(finish_ns(network)) == pytest.approx(2 * 800 * 1_200, rel=0.03)


@pytest.mark.parametrize("recovery", ["told", "sack"])
@pytest.mark.parametrize("loss_detection", ["rack", "dupack"])
def test_lost_data_and_lost_pulls_are_made_good(
    make_network: MakeNetwork, recovery: str, loss_detection: str
) -> None:
    network = run_messages(
        make_network,
        driven(pull_all, recovery=recovery),
        {1: 200, 2: 200, 3: 200, 4: 200},
        1.0,
        faults__loss_probability=0.02,
        transport__loss_detection=loss_detection,
    )
    flows = network.flows()
    assert np.isfinite(flows.finish_s).all()
    assert network.hosts().active_flows.sum() == 0
    assert flows.retransmitted_packets.sum() > 10
    assert network._state.inboxes["n_messages"].sum() == 0
    assert network._state.inboxes["pulls"].sum() == 0


def test_what_is_asked_for_again_comes_without_a_time_out(make_network: MakeNetwork) -> None:
    receiver = Receiver(on_data=grant_all, on_tick=ask_when_late)
    network = run_messages(
        make_network,
        driven(None, receiver=receiver, tick_s=20e-6),
        {1: 60, 2: 60, 3: 60, 4: 60},
        20e-3,
        queue__buffer_bytes=60_000,
        queue__ecn_threshold_bytes=30_000,
        transport__min_rto_s=10e-3,
    )
    flows = network.flows()
    assert network.ports().dropped_packets.sum() > 50
    assert flows.timeouts.sum() == 0
    assert np.nanmax(flows.finish_s) < 2e-3
    assert flows.retransmitted_packets.sum() == network.ports().dropped_packets.sum()  # nothing came twice


def test_a_failing_receiver_names_its_callback(make_network: MakeNetwork) -> None:
    def on_data(message, host, event):  # type: ignore[no-untyped-def]
        set_rank(host, message, np.nan)

    with pytest.raises(TransportError, match=r"(?s)receiver\.on_data .*ValueError"):
        run_messages(make_network, driven(on_data), {1: 7}, 1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recovery": "told"}, "no receiver"),
        ({"on_grant": one_packet_first}, "no receiver"),
        ({"receiver": Receiver(on_data=pull_all, pull_spacing=0.0)}, "pull_spacing"),
    ],
)
def test_what_does_not_fit_together_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SysgymError, match=message):
        Transport("wrong", "for a test", **options)


def test_a_tick_calls_every_message_once_although_its_law_moves_it_back(make_network: MakeNetwork) -> None:
    def on_tick(message, host, event):  # type: ignore[no-untyped-def]
        message.state[0] += 1.0
        set_rank(host, message, message.rank + 1.0)

    law = Transport(
        "ages",
        "",
        on_start=one_packet_first,
        receiver=Receiver(on_data=pull_all, on_tick=on_tick),
        tick_s=20e-6,
    )
    network = make_network(law, **SWITCH)
    rng = np.random.default_rng(0)
    network.reset(0, make_schedule(rng, [0, 1, 2, 3], [4] * 4, size_bytes=1_000_000, start_ns=0))
    network.advance(390e-6)
    assert network._state.messages["state"][:, 0].tolist() == [19.0] * 4
