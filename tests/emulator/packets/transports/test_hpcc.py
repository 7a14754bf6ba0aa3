"""HPCC against Li et al., SIGCOMM 2019: algorithm 1 by hand, utilisation and queue in a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports.hpcc import (
    ETA,
    EXPECTED_FLOWS,
    MAX_STAGE,
    REFERENCE,
    STAGE,
    UTILISATION,
    WINDOW,
)

Drive = Callable[..., Any]
MakeNetwork = Callable[..., PacketNetwork]
Measure = Callable[..., Any]

BASE_NS = 60_000
INITIAL = 10e9 * 60e-6 / 8 / 1500  # 50 packets
ADDITIVE = INITIAL * (1 - ETA) / EXPECTED_FLOWS


class Path:
    """Two switches that stamp; the second's queue and load are given."""

    def __init__(self, drive: Drive) -> None:
        self.driver = drive("hpcc", base_rtt_ns=BASE_NS)
        event = self.driver.event
        event.int_hops = 2
        event.int_rate_bps[:2] = (40_000_000_000, 10_000_000_000)
        self.tx_bytes = 1_000_000.0
        self.now_ns = 100_000
        self.ack(0.0, 0)

    def ack(self, utilisation: float, queue_bytes: int, elapsed_ns: int = BASE_NS, packets: int = 1) -> float:
        """An ACK whose second link has sent at a fraction of its rate since the last; returns W."""
        self.now_ns += elapsed_ns
        self.tx_bytes += utilisation * 10e9 / 8e9 * elapsed_ns
        event = self.driver.event
        event.int_time_ns[:2] = self.now_ns
        event.int_tx_bytes[:2] = (0, round(self.tx_bytes))
        event.int_queue_bytes[:2] = (0, queue_bytes)
        self.driver.ack(packets=packets, now_ns=self.now_ns)
        return float(self.driver.flow.state[WINDOW])


def test_starts_at_line_rate_with_a_whole_product(drive: Drive) -> None:
    driver = drive("hpcc", base_rtt_ns=BASE_NS)
    assert driver.flow.cwnd == 50
    assert driver.flow.pacing_rate_bps == pytest.approx(10e9)


def test_a_full_link_shrinks_the_window_to_eta_of_its_load(drive: Drive) -> None:
    path = Path(drive)
    # A round trip later: U = txRate / B + qlen / (B T) = 1 + 75,000 / 75,000, the weight of the sample is 1.
    path.ack(1.0, 75_000)
    assert path.ack(1.0, 75_000, packets=51) == pytest.approx(INITIAL / (2 / ETA) + ADDITIVE, rel=1e-6)
    assert path.driver.flow.pacing_rate_bps == pytest.approx(
        path.driver.flow.state[WINDOW] * 1500 * 8 / 60e-6
    )
    assert path.driver.flow.cwnd == np.ceil(path.driver.flow.state[WINDOW])


def test_the_smaller_of_two_queues_counts(drive: Drive) -> None:
    path = Path(drive)
    path.ack(1.0, 0)
    assert path.ack(1.0, 75_000) == pytest.approx(INITIAL / (1 / ETA) + ADDITIVE, rel=1e-6)


def test_samples_shorter_than_a_round_trip_weigh_less(drive: Drive) -> None:
    path = Path(drive)
    path.ack(0.5, 0)  # U = 1/2
    path.ack(0.9, 0, elapsed_ns=BASE_NS // 4)
    utilisation = 0.75 * 0.5 + 0.25 * 0.9
    assert path.driver.flow.state[0] == pytest.approx(utilisation, rel=1e-4)


def test_windows_are_reckoned_from_the_reference_of_the_round(drive: Drive) -> None:
    path = Path(drive)
    path.ack(1.0, 0, packets=1)
    reference = path.driver.flow.state[REFERENCE]
    for _ in range(5):  # ACKs of one round trip: the same answer, not one after the other
        assert path.ack(1.0, 0, elapsed_ns=BASE_NS // 50) == pytest.approx(
            reference / (1 / ETA) + ADDITIVE, rel=1e-3
        )
    assert path.driver.flow.state[REFERENCE] == reference
    path.ack(1.0, 0, packets=100)
    assert path.driver.flow.state[REFERENCE] == pytest.approx(reference * ETA + ADDITIVE, rel=1e-3)


def test_five_additive_steps_then_a_multiplicative_one(drive: Drive) -> None:
    path = Path(drive)
    path.ack(1.0, 225_000, packets=100)
    path.ack(1.0, 225_000, packets=100)  # four times too much
    path.driver.flow.state[STAGE] = 0.0
    window = float(path.driver.flow.state[REFERENCE])
    path.ack(0.5, 0, packets=100)
    for stage in range(1, int(MAX_STAGE) + 1):
        window += ADDITIVE
        assert path.driver.flow.state[REFERENCE] == pytest.approx(window, rel=1e-6)
        assert path.driver.flow.state[STAGE] == stage
        path.ack(0.5, 0, packets=100)
    assert path.driver.flow.state[STAGE] == 0
    assert path.driver.flow.state[REFERENCE] == pytest.approx(
        min(window * ETA / 0.5 + ADDITIVE, INITIAL), rel=1e-3
    )


@pytest.mark.parametrize("flows_per_pair", [1, 6])
def test_utilisation_is_eta_and_the_queue_next_to_nothing(
    make_network: MakeNetwork, measure: Measure, flows_per_pair: int
) -> None:
    network = make_network("hpcc", workload__flows_per_pair=flows_per_pair, queue__buffer_bytes=4_000_000)
    network.advance(100e-3)
    measured = measure(network)
    assert measured.goodput_bps.sum() / (10e9 * 1460 / 1500) == pytest.approx(ETA, abs=0.03)
    assert measured.queue_bytes < 6 * 1500
    assert measured.jain > 0.93
    assert measured.dropped_packets == 0


def test_a_late_flow_finds_room_without_filling_the_queue(make_network: MakeNetwork) -> None:
    network = make_network("hpcc", topology__hosts_per_side=2, workload__start_jitter_s=20e-3)
    network.advance(60e-3)
    first_window_bytes = 10e9 / 8 * 64e-6
    assert network.ports().queue_max_bytes.max() < 1.1 * first_window_bytes, "one window of the newcomer"


def test_loses_nothing_with_flow_control(make_network: MakeNetwork) -> None:
    network = make_network(
        "hpcc", topology={"kind": "single_switch", "hosts": 17, "link_rate_bps": 10e9, "link_delay_s": 1e-6},
        workload={"kind": "incast", "senders": 16, "request_bytes": 500_000, "period_s": 10e-3},
        queue={"buffer_bytes": 60_000, "pfc_pause_bytes": 20_000},
    )  # fmt: skip
    network.advance(40e-3)
    flows = network.flows()
    assert np.isfinite(flows.finish_s[: 3 * 16]).all()
    assert network.ports().dropped_packets.sum() == 0
    assert flows.retransmitted_packets.sum() == 0


def references_and_utilisations(network: PacketNetwork) -> tuple[Any, Any]:
    """Means over 20 ms of every flow's reference window and of the utilisation that it measures."""
    samples = []
    for _ in range(400):
        network.advance(50e-6)
        samples.append(network._state.flows["state"][:, [REFERENCE, UTILISATION]].copy())
    references, utilisations = np.mean(samples, axis=0).T
    return references, utilisations


def test_flows_in_step_keep_shares_that_follow_from_the_utilisation_that_each_measures(
    make_network: MakeNetwork,
) -> None:
    """Equal flows in lock step always meet the same queue ahead of them.

    At rest a round reduces W by as much as it adds, W (U / eta - 1) = W_AI: a difference of 0.3 % in U is one
    of half in W. A host that takes some microseconds to answer lets the flows change places.
    """
    shares = {}
    for jitter_s in (0.0, 5e-6):
        network = make_network("hpcc", transport__host_jitter_s=jitter_s)
        network.advance(0.3)
        before = network.flows().delivered_bytes
        references, utilisations = references_and_utilisations(network)
        goodput = (network.flows().delivered_bytes - before).astype(float)
        shares[jitter_s] = goodput.min() / goodput.max()
        if jitter_s == 0.0:
            first_window = 10e9 * 64.3e-6 / 8 / 1500
            additive = first_window * (1 - ETA) / EXPECTED_FLOWS
            assert references == pytest.approx(additive / (utilisations / ETA - 1), rel=0.2)
            assert np.ptp(utilisations) < 0.005
    assert 0.6 < shares[0.0] < 0.75
    assert shares[5e-6] > 0.9


@pytest.mark.parametrize("flows_per_pair", [3, 25])
def test_many_flows_share_equally(make_network: MakeNetwork, measure: Measure, flows_per_pair: int) -> None:
    network = make_network("hpcc", workload__flows_per_pair=flows_per_pair)
    network.advance(50e-3)
    assert measure(network, 50e-3).jain > 0.999


def test_the_long_queue_is_that_of_the_first_windows(make_network: MakeNetwork) -> None:
    """24 flows begin with a bandwidth-delay product each; from 10 ms on the queue is a few packets."""
    network = make_network("hpcc", workload__flows_per_pair=6)
    network.advance(10e-3)
    assert network.ports().queue_max_bytes.max() > 300_000
    longest = []
    for _ in range(400):
        network.advance(50e-6)
        longest.append(network.ports().queue_bytes.max())
    assert max(longest) < 20_000
