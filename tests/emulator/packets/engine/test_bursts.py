"""Bursts: those of segmentation offload, and those that a paced flow's law asks for."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.packets.engine.bursts import burst_packets
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import ScenarioError
from tests.emulator.packets.simple_laws import ALONE, paced_at, window_of

MakeNetwork = Callable[..., PacketNetwork]

PACKET_S = 1.2e-6
"""Time to send one packet of 1500 bytes at 10 Gb/s."""


@pytest.mark.parametrize(("burst_bytes", "packets"), [(3_000, 2), (4_500, 3), (12_000, 8), (65_536, 43)])
def test_a_paced_flow_pauses_behind_each_burst(
    make_network: MakeNetwork, burst_bytes: int, packets: int
) -> None:
    rate_bps = 1e9
    network = make_network(
        paced_at(rate_bps), transport__segmentation_offload_bytes=burst_bytes,
        transport__host_queue_packets=64, **ALONE,
    )  # fmt: skip
    pause_s = packets * 1500 * 8 / rate_bps
    network.advance(1e-9)
    assert network.hosts().sent_packets[0] == packets
    network.advance(pause_s - 3e-9)
    assert network.hosts().sent_packets[0] == packets
    network.advance(4e-9)
    assert network.hosts().sent_packets[0] == 2 * packets
    network.advance(98 * pause_s)
    assert network.hosts().sent_packets[0] == 100 * packets


def test_a_burst_is_a_millisecond_long_where_the_path_is_long(make_network: MakeNetwork) -> None:
    for rate_bps, packets in ((12e6, 2), (60e6, 5), (125e6, 10)):
        network = make_network(
            paced_at(rate_bps), transport__segmentation_offload_bytes=65_536,
            **{**ALONE, "topology__link_delay_s": 10e-3},
        )  # fmt: skip
        network.advance(20e-6 + packets * PACKET_S)
        assert network.hosts().sent_packets[0] == packets


def test_a_flow_waits_until_a_third_of_its_window_is_free(make_network: MakeNetwork) -> None:
    lowest = {}
    for burst_bytes in (None, 65_536):
        network = make_network(window_of(30), transport__segmentation_offload_bytes=burst_bytes, **ALONE)
        network.advance(500e-6)
        flow = network._state.flows[0]
        in_flight = []
        for _ in range(2_000):
            network.advance(0.3e-6)
            in_flight.append(int(flow["nxt"] - flow["una"]))
        lowest[burst_bytes] = min(in_flight)
        assert max(in_flight) == 30
    assert lowest == {None: 30, 65_536: 21}


def test_what_is_held_back_for_a_burst_does_not_keep_a_window_from_growing(make_network: MakeNetwork) -> None:
    windows = []
    for burst_bytes in (None, 65_536):
        network = make_network(
            "cubic", transport__segmentation_offload_bytes=burst_bytes,
            **{**ALONE, "queue__buffer_bytes": 10_000_000},
        )  # fmt: skip
        network.advance(1e-3)
        windows.append(network._state.flows["cwnd"][0])
    assert 50 < windows[0] <= windows[1] < 2 * windows[0]


def test_a_receive_window_is_used_like_a_congestion_window(make_network: MakeNetwork) -> None:
    goodput = {}
    for limit in ("congestion window", "receive window"):
        window = 32 if limit == "congestion window" else 1e9
        receive_bytes = 32 * 1460 if limit == "receive window" else None
        network = make_network(
            window_of(window), transport__segmentation_offload_bytes=65_536,
            transport__receive_window_bytes=receive_bytes, **ALONE,
        )  # fmt: skip
        network.advance(10e-3)
        goodput[limit] = int(network.flows().delivered_bytes.sum())
    assert goodput["receive window"] == pytest.approx(goodput["congestion window"], rel=0.01)


def test_bursts_reach_the_link_as_a_whole(make_network: MakeNetwork) -> None:
    network = make_network(
        paced_at(3e9), transport__segmentation_offload_bytes=15_000, transport__host_jitter_s=0.0,
        topology__hosts_per_side=1, workload__flows_per_pair=3, workload__start_jitter_s=0.0,
    )  # fmt: skip
    uplink = int(network._state.hosts["uplink"][0])
    recording = network.record([network.topology.link_names[uplink]])
    network.advance(3e-3)
    flows = recording.packets["flow"]
    ends = np.flatnonzero(np.diff(flows)) + 1
    runs = np.diff(ends)
    assert len(runs) > 100
    assert np.mean(runs % 10 == 0) > 0.95


@settings(max_examples=300, deadline=None)
@given(
    st.integers(3_000, 65_536),
    st.floats(1e3, 4e11),
    st.integers(1_000, 10**9),
    st.booleans(),
)
def test_the_length_of_a_burst_follows_its_formula(
    burst_bytes: int, rate_bps: float, rtt_ns: int, paced: bool
) -> None:
    """A millisecond at the rate, and the longest burst halved for every 512 us of the shortest round trip."""
    window = rate_bps * rtt_ns * 1e-9 / (8 * 1500)
    flow = SimpleNamespace(
        pace_ns_per_byte_q20=int(8e9 / rate_bps * 2**20) if paced else 0,
        srtt_ns=float(rtt_ns), min_rtt_ns=rtt_ns, base_rtt_ns=rtt_ns,
        cwnd=window, ssthresh=window, packet_bytes=1500,
    )  # fmt: skip
    packets = burst_packets.py_func(SimpleNamespace(burst_bytes=burst_bytes), flow)
    gain = 1.0 if paced else 1.2
    expected_bytes = gain * rate_bps / 8e3 + burst_bytes / 2 ** (rtt_ns // 512_000)
    assert 2 <= packets <= burst_bytes // 1500
    assert packets == pytest.approx(np.clip(expected_bytes / 1500, 2, burst_bytes / 1500), rel=1e-3, abs=1.0)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["reno", "cubic", "dctcp", "bbr", "swift", "hpcc", "dcqcn"]),
    st.sampled_from(["rack", "dupack", "go_back_n"]),
    st.integers(3_000, 65_536),
    st.sampled_from([None, 3e-6, 200e-6]),
    st.integers(0, 1000),
)
def test_all_is_delivered_in_the_end(
    transport: str, detection: str, burst_bytes: int, coalescing_s: float | None, seed: int
) -> None:
    overrides = {
        "transport.segmentation_offload_bytes": burst_bytes,
        "transport.receive_coalescing_s": coalescing_s,
        "transport.loss_detection": detection,
        "faults.loss_probability": 0.005,
        "queue.buffer_bytes": 90_000,
        "queue.ecn_threshold_bytes": 30_000,
    }
    scenario = load_scenario("dumbbell-10g", overrides=overrides, expect=CongestionScenario)
    network = PacketNetwork(scenario, transport=transport)
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 400_000, 6)
    half = network.n_hosts // 2
    sources, destinations = rng.integers(0, half, 6), half + rng.integers(0, half, 6)
    network.reset(seed, make_schedule(rng, sources, destinations, size_bytes=sizes, start_ns=0))
    network.advance(8.0)
    assert network.flows().delivered_bytes.tolist() == sizes.tolist()
    assert np.isfinite(network.flows().finish_s).all()


@pytest.mark.parametrize(
    ("burst_packets", "window", "packets"), [(0, 1e9, 1), (1, 1e9, 1), (5, 1e9, 5), (5, 3.0, 3)]
)
def test_a_law_may_ask_for_bursts_that_its_window_need_not_fill(
    make_network: MakeNetwork, burst_packets: int, window: float, packets: int
) -> None:
    rate_bps = 100e6
    law = paced_at(rate_bps, window=window, burst_packets=burst_packets)
    network = make_network(law, transport__host_queue_packets=64, **ALONE)
    pause_s = packets * 1500 * 8 / rate_bps
    network.advance(pause_s - 2e-9)
    assert network.hosts().sent_packets[0] == packets
    network.advance(98 * pause_s + 4e-9)
    assert network.hosts().sent_packets[0] == 100 * packets


def test_the_pace_holds_behind_a_burst_during_which_bursts_end(make_network: MakeNetwork) -> None:
    def on_start(flow, event):  # type: ignore[no-untyped-def]
        flow.cwnd = 1e9
        flow.pacing_rate_bps = 1e9
        flow.pacing_burst_packets = 50

    def on_ack(flow, event):  # type: ignore[no-untyped-def]
        flow.pacing_burst_packets = 1

    network = make_network(Transport("ends", "bursts end", on_ack, on_start=on_start), **ALONE)
    network.advance(60 * PACKET_S)
    assert network.hosts().sent_packets[0] == 50
    network.advance(50 * 12e-6)
    before = network.hosts().sent_packets[0]
    network.advance(100 * 12e-6)
    assert network.hosts().sent_packets[0] == before + 100


def test_a_burst_has_at_least_two_packets() -> None:
    with pytest.raises(ScenarioError, match="at least two packets, 3000"):
        load_scenario("dumbbell-10g", overrides={"transport.segmentation_offload_bytes": 2_999})
