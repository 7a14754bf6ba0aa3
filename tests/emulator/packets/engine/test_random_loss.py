"""Random loss: senders detect the lost packets, retransmit them, and rarely time out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import get_transport
from sysgym.emulator.packets.transports.paced import PACED_FLOW
from sysgym.scenarios import CongestionScenario, load_scenario

LINKS = 3
CORE_BPS = 3.6e6


def a_lossy_link(
    probability: float, delay_s: float, transport: str = "paced", **own: object
) -> PacketNetwork:
    scenario = load_scenario(
        "aurora-links",
        overrides={
            "faults.loss_probability": probability,
            "topology.link_delay_s": delay_s,
            "topology.core_rate_bps": CORE_BPS,
            "queue.buffer_bytes": 1_000_000,
            **own,
        },
        expect=CongestionScenario,
    )
    network = PacketNetwork(scenario, transport=PACED_FLOW if transport == "paced_flow" else transport)
    network.reset(7)
    return network


@pytest.mark.parametrize("probability", [0.002, 0.01695])
@pytest.mark.parametrize("delay_s", [0.0166667, 0.1666667])
@pytest.mark.parametrize("transport", ["paced", "paced_flow"])
def test_a_paced_flow_repairs_what_was_lost_and_no_more(
    probability: float, delay_s: float, transport: str
) -> None:
    network = a_lossy_link(probability, delay_s, transport)
    rate_bps, duration_s = 0.8 * CORE_BPS, 150.0
    if transport == "paced":
        network.set_host_rate_caps(np.full(2, rate_bps))
    else:
        network.advance(1e-9)
        network.set_flow_rates(np.zeros(1, np.int64), rate_bps)
    network.advance(duration_s)
    (counters,) = network.flow_counters(np.zeros(1, np.int64))
    lost_one_way = 1.0 - (1.0 - probability) ** LINKS
    expected = lost_one_way / (lost_one_way + (1.0 - lost_one_way) ** 2)  # ACKs are lost too
    fraction = counters["lost_packets"] / (counters["lost_packets"] + counters["acked_packets"])
    sent = int(network.hosts().sent_packets[0])
    assert sent == pytest.approx(rate_bps * duration_s / 12_000, rel=0.001)
    assert abs(fraction - expected) < 4.0 * math.sqrt(lost_one_way / sent)
    flow = network.flows()
    out = network.routes()[0]
    lost = int(network.ports().lost_packets[out[out >= 0]].sum())
    assert lost - 20 <= flow.retransmitted_packets[0] <= 1.02 * lost + 5
    assert flow.timeouts[0] == 0
    goodput_bps = 8 * flow.delivered_bytes[0] / duration_s
    # What is under way, or waits behind a hole at the end: at most some round trips' worth.
    assert goodput_bps > 0.97 * (1.0 - lost_one_way) * rate_bps * 1460 / 1500


def test_ends_that_lose_more_than_they_keep_go_on() -> None:
    network = a_lossy_link(0.25, 0.01)
    network.set_host_rate_caps(np.full(2, 2e6))
    network.advance(100.0)
    share = 0.75**LINKS
    assert 8 * network.flows().delivered_bytes[0] / 100.0 > 0.8 * share * 2e6 * 1460 / 1500


@pytest.mark.parametrize("transport", ["cubic", "dctcp", "bbr", "newvegas"])
def test_windows_recover_too(transport: str) -> None:
    assert get_transport(transport).recovery == "sack"
    network = a_lossy_link(0.005, 0.01, transport)
    network.advance(100.0)
    flow = network.flows()
    out = network.routes()[0]
    lost = int(network.ports().lost_packets[out[out >= 0]].sum())
    dropped = int(network.ports().dropped_packets[out[out >= 0]].sum())
    assert lost > 50
    assert dropped - 20 <= flow.retransmitted_packets[0] <= 1.05 * dropped + 10
    assert flow.timeouts[0] <= 2


@pytest.mark.parametrize("largest_window", [16, 64, 4096])
def test_packets_are_delivered_once_whatever_the_window(largest_window: int) -> None:
    """The bits of an ACK wrap around in the scoreboard, and there are none in windows below 64 packets."""
    own: dict[str, object] = {
        "transport.max_window_packets": largest_window,
        "transport.initial_window_packets": 10,
    }
    network = a_lossy_link(0.01695, 0.0166667, "cubic", **own)
    for _ in range(40):
        network.advance(2.0)
        flow = network._state.flows[0]
        holes = flow["nxt"] - flow["una"] - flow["sacked"]
        assert 0 <= flow["lost"] <= holes
        assert 0 <= flow["sacked"] <= flow["rcv_nxt"] - flow["una"] + flow["held_out_of_order"]
        assert flow["una"] <= flow["rcv_nxt"] <= flow["nxt"] <= flow["una"] + largest_window
    assert network.hosts().received_bytes[1] == network.flows().delivered_bytes[0] > 100_000
