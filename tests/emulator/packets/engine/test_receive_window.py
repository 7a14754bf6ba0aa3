"""Receive windows: what they allow, and what they limit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.scenarios import CongestionScenario, load_scenario
from tests.emulator.packets.simple_laws import ALONE

MakeNetwork = Callable[..., PacketNetwork]

BASE_RTT_S = 63.744e-6
BANDWIDTH_DELAY_PACKETS = 53


@pytest.mark.parametrize("transport", ["cubic", "reno", "dctcp", "bbr_ideal", "dcqcn", "hpcc"])
@pytest.mark.parametrize("packets", [1, 20])
def test_a_window_below_the_bandwidth_delay_product_sets_the_rate(
    make_network: MakeNetwork, transport: str, packets: int
) -> None:
    network = make_network(transport, transport__receive_window_bytes=1460 * packets + 1459, **ALONE)
    network.advance(5e-3)
    before = network.flows().delivered_bytes.sum()
    network.advance(10e-3)
    goodput_bps = 8 * (network.flows().delivered_bytes.sum() - before) / 10e-3
    assert goodput_bps == pytest.approx(packets * 1460 * 8 / BASE_RTT_S, rel=0.01)


def test_a_congestion_window_does_not_grow_beyond_what_it_is_used_for(make_network: MakeNetwork) -> None:
    """RFC 9438, 5.8, and RFC 5681 with RFC 7661: a window grows only while it limits the sender."""
    network = make_network("cubic", transport__receive_window_bytes=1460 * 20, **ALONE)
    network.advance(20e-3)
    assert 20 <= network._state.flows["cwnd"][0] <= 22
    assert network.ports().queue_max_bytes.max() <= 21 * 1500


def test_a_larger_window_changes_nothing(make_network: MakeNetwork) -> None:
    bounds = (None, 1460 * 4096, 1460 * 10_000)
    networks = [make_network("cubic", transport__receive_window_bytes=bound) for bound in bounds]
    for network in networks:
        network.advance(10e-3)
    states = [network._state.flows.tobytes() for network in networks]
    assert states[0] == states[1] == states[2]


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 60),
    st.sampled_from(["cubic", "reno", "dctcp", "bbr"]),
    st.sampled_from(["rack", "dupack"]),
    st.integers(0, 1000),
)
def test_no_sender_ever_exceeds_it(packets: int, transport: str, detection: str, seed: int) -> None:
    overrides = {
        "transport.receive_window_bytes": 1460 * packets,
        "transport.loss_detection": detection,
        "faults.loss_probability": 0.003,
        "queue.buffer_bytes": 30_000,
        "queue.ecn_threshold_bytes": 20_000,
    }
    scenario = load_scenario("dumbbell-10g", overrides=overrides, expect=CongestionScenario)
    network = PacketNetwork(scenario, transport=transport)
    network.reset(seed)
    flows = network._state.flows
    for _ in range(40):
        network.advance(53e-6)
        assert (flows["nxt"] - flows["una"]).max() <= packets
        assert (flows["high"] - flows["rcv_nxt"]).max() <= packets
    network.advance(20e-3)
    assert network.flows().delivered_bytes.min() > 0
