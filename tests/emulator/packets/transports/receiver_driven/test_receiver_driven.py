"""NDP, EQDS and Homa: incasts at the speed of the link, order by length, the switches that they need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scripts.peers.beside_htsim import CASES, Case, completion_us
from scripts.peers.beside_htsim import make_network as htsim_network
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.scenarios.errors import ScenarioError

MakeNetwork = Callable[..., PacketNetwork]

TRIMMING: dict[str, Any] = {"queue__classes": 2, "queue__trim": True}
SWITCH: dict[str, Any] = {
    "topology": {"kind": "single_switch", "hosts": 33, "link_rate_bps": 10e9, "link_delay_s": 1e-6},
    "queue__ecn_threshold_bytes": None,
}
PACKET_S = 1.2e-6
FULL_PACKET_BYTES = 1460


def run_messages(
    make_network: MakeNetwork, transport: str, packets: list[int], until_s: float, **options: Any
) -> PacketNetwork:
    """A network in which hosts 1, 2 ... send host 0 one message each, of so many full packets, at once."""
    network = make_network(transport, **{**SWITCH, **options})
    schedule = make_schedule(
        np.random.default_rng(1),
        np.arange(1, len(packets) + 1),
        np.zeros(len(packets), int),
        size_bytes=FULL_PACKET_BYTES * np.array(packets),
        start_ns=np.zeros(len(packets), int),
    )
    network.reset(1, schedule)
    network.advance(until_s)
    return network


@pytest.mark.parametrize("transport", ["ndp", "eqds"])
def test_trimmed_incasts_keep_the_link_busy(make_network: MakeNetwork, transport: str) -> None:
    network = run_messages(make_network, transport, [44] * 32, 10e-3, queue__buffer_bytes=12_000, **TRIMMING)
    flows = network.flows()
    assert network._state.flows["trimmed_packets"].sum() > 50
    assert network.ports().dropped_packets.sum() == 0
    assert flows.timeouts.sum() == 0
    assert 32 * 44 * PACKET_S < flows.finish_s.max() < 1.1 * 32 * 44 * PACKET_S
    assert np.median(flows.finish_s) > 0.85 * flows.finish_s.max()  # all senders in turn


def test_ndp_sends_each_packet_once_more_than_it_was_trimmed(make_network: MakeNetwork) -> None:
    network = run_messages(make_network, "ndp", [44] * 32, 10e-3, queue__buffer_bytes=12_000, **TRIMMING)
    assert network.flows().retransmitted_packets.sum() == network._state.flows["trimmed_packets"].sum()
    messages = network._state.messages
    assert np.array_equal(messages["granted_packets"], messages["arrived_packets"])


def test_homa_serves_the_shortest_message_first(make_network: MakeNetwork) -> None:
    packets = [40, 80, 160, 320, 640]
    network = run_messages(
        make_network, "homa", packets, 10e-3, queue__classes=8, queue__buffer_bytes=400_000
    )
    finish_s = network.flows().finish_s
    assert network.ports().dropped_packets.sum() == 0
    alone_s = np.cumsum(packets) * PACKET_S  # of a server that always works on the shortest
    assert np.all(finish_s > alone_s)
    # First windows come together, and overcommitted packets ahead of their turn; in turn, it would be 192 us.
    assert np.all(finish_s < alone_s + 100e-6)
    assert len(set(network._state.messages["priority"].tolist())) > 1


def test_homa_grants_nothing_to_messages_of_the_first_window(make_network: MakeNetwork) -> None:
    network = run_messages(make_network, "homa", [1, 2, 3], 1e-3, queue__classes=8)
    assert np.isfinite(network.flows().finish_s).all()
    assert network._state.messages["control_sent"].sum() == 0


def test_homa_asks_again_for_what_a_shallow_buffer_drops(make_network: MakeNetwork) -> None:
    network = run_messages(
        make_network, "homa", [44] * 32, 40e-3, queue__classes=8, queue__buffer_bytes=30_000
    )
    flows = network.flows()
    assert network.ports().dropped_packets.sum() > 0
    assert np.isfinite(flows.finish_s).all()
    assert flows.retransmitted_packets.sum() >= network.ports().dropped_packets.sum()


@pytest.mark.parametrize(
    ("transport", "options", "key"),
    [
        ("ndp", {}, r"queue\.classes"),
        ("ndp", {"queue__classes": 2}, r"queue\.trim"),
        ("homa", {"queue__classes": 7}, r"queue\.classes"),
    ],
)
def test_switches_that_cannot_do_it_are_refused(
    make_network: MakeNetwork, transport: str, options: dict[str, Any], key: str
) -> None:
    with pytest.raises(ScenarioError, match=key):
        make_network(transport, **options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case[:6])))
def test_medians_are_within_a_tenth_of_htsims_or_explained(case: Case) -> None:
    median_us = np.median(completion_us(htsim_network(case), case, 1))
    assert (abs(median_us / case.median_us - 1.0) > 0.1) == case.differs
