"""Transports in a network: queues and rates according to their sources."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.transports.base import multiplicative_decrease, restart_from_one
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError


def settled(
    transport: str | Transport, seed: int = 1, settle_s: float = 50e-3, **overrides: Any
) -> PacketNetwork:
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    network = PacketNetwork(
        load_scenario("dumbbell-10g", overrides=dotted, expect=CongestionScenario), transport=transport
    )
    network.reset(seed)
    network.advance(settle_s)
    return network


def mean_core_queue_packets(network: PacketNetwork, duration_s: float = 100e-3) -> float:
    before = network.ports().queue_byte_s
    network.advance(duration_s)
    return float((network.ports().queue_byte_s - before).max() / duration_s / 1500)


def utilisation(network: PacketNetwork, duration_s: float = 100e-3) -> float:
    before = network.hosts().delivered_bytes.sum()
    network.advance(duration_s)
    return float(8 * (network.hosts().delivered_bytes.sum() - before) / duration_s / (10e9 * 1460 / 1500))


@pytest.mark.parametrize("threshold_packets", [30, 65, 100])
def test_dctcp_holds_the_queue_around_the_threshold(threshold_packets: int) -> None:
    network = settled("dctcp", queue__ecn_threshold_bytes=1500 * threshold_packets)
    mean = mean_core_queue_packets(network)
    assert 0.6 * threshold_packets <= mean <= 1.2 * threshold_packets
    assert network.ports().dropped_packets.sum() == 0
    assert utilisation(network) > 0.97


def test_dctcp_marks_only_above_the_threshold() -> None:
    network = settled("dctcp", queue__ecn_threshold_bytes=900_000, topology__hosts_per_side=1)
    # One sender cannot fill a core link as fast as its own card: there is no queue to mark.
    assert network.ports().marked_packets.sum() == 0


def test_dctcp_alpha_settles_near_the_analysis() -> None:
    # Alizadeh et al., SIGCOMM 2010, 3.3: alpha is about sqrt(2 / (C RTT + K)) for one flow, in packets of a
    # flow's share.
    network = settled("dctcp", settle_s=100e-3)
    alpha = float(np.mean(network._state.flows["state"][:, 0]))
    share = (10e9 / 8 / 1500 * 64e-6 + 65) / 4
    assert 0.5 * np.sqrt(2 / share) < alpha < 1.5 * np.sqrt(2 / share)


@pytest.mark.parametrize("n_flows", [1, 2, 4])
def test_new_vegas_keeps_about_ten_packets_a_flow_in_the_queue(n_flows: int) -> None:
    network = settled(
        "newvegas", topology__hosts_per_side=n_flows, topology__core_rate_bps=2.5e9,
        workload__start_jitter_s=0.0, settle_s=100e-3,
    )  # fmt: skip
    mean = mean_core_queue_packets(network)
    assert 4 * n_flows <= mean <= 16 * n_flows
    assert utilisation(network) * 4 > 0.97


@pytest.mark.parametrize("transport", ["reno", "cubic"])
def test_loss_based_transports_fill_the_buffer(transport: str) -> None:
    # A buffer of one bandwidth-delay product keeps a halving sender busy.
    network = settled(transport, queue__buffer_bytes=150_000, queue__ecn_threshold_bytes=75_000)
    ports = network.ports()
    assert ports.dropped_packets.sum() > 0
    assert ports.marked_packets.sum() == 0, "not ECN capable: dropped, never marked"
    assert utilisation(network) > 0.9
    assert network.ports().queue_max_bytes.max() == pytest.approx(150_000, abs=1500)


def test_new_reno_repairs_a_burst_of_losses_without_a_time_out() -> None:
    network = settled("reno", settle_s=5e-3, queue__buffer_bytes=60_000, queue__ecn_threshold_bytes=60_000)
    flows = network.flows()
    assert flows.retransmitted_packets.sum() > 4
    assert flows.timeouts.sum() == 0


def forty_answers_of_two_packets(transport: str, loss_detection: str) -> PacketNetwork:
    """An incast that overflows a buffer of 30 packets; windows of two packets yield no three duplicates."""
    incast = {"kind": "incast", "senders": 40, "request_bytes": 2_920, "period_s": 1.0}
    return settled(
        transport, settle_s=500e-3, workload=incast,
        queue__buffer_bytes=45_000, queue__ecn_threshold_bytes=45_000,
        topology={"kind": "single_switch", "hosts": 41, "link_rate_bps": 10e9, "link_delay_s": 1e-6},
        transport__initial_window_packets=2, transport__loss_detection=loss_detection,
    )  # fmt: skip


@pytest.mark.parametrize("transport", ["reno", "cubic"])
def test_probes_repair_tails_before_a_time_out(transport: str) -> None:
    network = forty_answers_of_two_packets(transport, "rack")
    flows = network.flows()
    assert network.ports().dropped_packets.sum() > 0
    assert flows.timeouts.sum() == 0
    # Who lost both packets has no round trip to go by, and probes when others would time out.
    assert np.all(flows.finish_s - flows.start_s < 12e-3)
    assert np.mean(flows.finish_s - flows.start_s < 4e-3) > 0.2


@pytest.mark.parametrize("transport", ["reno", "cubic"])
def test_a_time_out_repairs_what_nothing_else_tells_of(transport: str) -> None:
    network = forty_answers_of_two_packets(transport, "dupack")
    flows = network.flows()
    assert flows.timeouts.sum() > 0
    assert np.all(np.isfinite(flows.finish_s))
    late = flows.finish_s - flows.start_s > 9e-3
    assert late.sum() >= 1, "who timed out waited for the least time-out of 10 ms"
    assert np.array_equal(late, flows.timeouts > 0)


def test_a_user_transport_runs_beside_the_built_in_ones() -> None:
    def on_ack(flow: Any, event: Any) -> None:
        if event.marked:
            flow.cwnd = max(flow.cwnd - 0.5, 2.0)
        elif event.window_limited:
            flow.cwnd += 1.0 / flow.cwnd

    def on_loss(flow: Any, event: Any) -> None:
        multiplicative_decrease(flow, event, 0.5)

    def on_timeout(flow: Any, event: Any) -> None:
        restart_from_one(flow, event, 0.5)

    mine = Transport(
        "half-a-packet-a-mark", "", on_ack=on_ack, on_loss=on_loss, on_timeout=on_timeout, ecn_capable=True
    )
    network = settled(mine)
    assert utilisation(network) > 0.97
    assert 30 < mean_core_queue_packets(network) < 100


def test_same_seed_same_bytes_other_seed_other_bytes() -> None:
    def fingerprint(seed: int) -> bytes:
        return settled("cubic", seed, settle_s=10e-3)._state.flows.tobytes()

    assert fingerprint(4) == fingerprint(4)
    assert fingerprint(4) != fingerprint(5)


def test_duplicates_are_what_arrives_beyond_a_hole() -> None:
    def on_ack(flow: Any, event: Any) -> None:
        flow.state[0] += event.duplicate
        flow.state[1] += event.duplicate and flow.sacked == 0

    def on_loss(flow: Any, event: Any) -> None:
        pass

    counting = Transport("counts-duplicates", "", on_ack=on_ack, on_loss=on_loss, on_timeout=on_loss)
    duplicates = {}
    for buffer_bytes in (10_000, 2_000_000):
        network = settled(
            counting, settle_s=3e-3, transport__initial_window_packets=20,
            queue__buffer_bytes=buffer_bytes, queue__ecn_threshold_bytes=buffer_bytes,
        )  # fmt: skip
        state = network._state.flows["state"]
        duplicates[buffer_bytes] = state[:, 0].sum()
        assert state[:, 1].sum() == 0
        assert (network.ports().dropped_packets.sum() > 0) == (buffer_bytes == 10_000)
    assert duplicates[10_000] > 0
    assert duplicates[2_000_000] == 0


def test_a_callback_with_other_arguments_is_named() -> None:
    def on_ack(flow: Any) -> None:
        del flow

    law = Transport("one", "one argument", on_ack=on_ack)  # type: ignore[arg-type]
    with pytest.raises(
        SysgymError, match=r"on_ack .*test_behaviour.py:\d+\) takes 1 .*on_ack\(flow, event\)"
    ):
        law.callbacks()
