"""The simulator, compared with closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.workloads.schedule import make_schedule
from tests.emulator.packets.simple_laws import window_of

SWITCH = {"kind": "single_switch", "link_rate_bps": 1e9, "link_delay_s": 1e-6}

MakeNetwork = Callable[..., PacketNetwork]


def core_port(network: PacketNetwork) -> int:
    """The dumbbell's core link, west to east: the one that most bytes cross between switches."""
    ports = network.topology.switch_ports
    inner = ports[~network.topology.to_host[ports]]
    return int(inner[np.argmax(network._state.links["sent_bytes"][inner])])


@pytest.mark.parametrize("rate_bps", [10e6, 1e9, 10e9, 100e9])
def test_one_flow_gets_the_rate_less_the_headers(make_network: MakeNetwork, rate_bps: float) -> None:
    network = make_network(
        topology__link_rate_bps=rate_bps, topology__hosts_per_side=1, workload__start_jitter_s=0.0,
        transport__min_rto_s=0.2,
    )  # fmt: skip
    packet_s = 1500 * 8 / rate_bps
    network.advance(max(4000 * packet_s, 5e-3))
    before = network.flows().delivered_bytes.sum()
    duration_s = max(10_000 * packet_s, 5e-3)
    network.advance(duration_s)
    goodput_bps = 8 * (network.flows().delivered_bytes.sum() - before) / duration_s
    assert goodput_bps == pytest.approx(rate_bps * 1460 / 1500, rel=2e-3)


def test_first_round_trip_takes_what_the_path_takes(make_network: MakeNetwork) -> None:
    network = make_network(
        topology__hosts_per_side=1, workload__start_jitter_s=0.0, transport__host_jitter_s=0.0,
        transport__initial_window_packets=1,
    )  # fmt: skip
    network.advance(65e-6)
    # Three links each way: 10 us of delay and 1.2 us (data) or 48 ns (ACK) of sending on each.
    assert network.flows().rtt_min_s[0] == pytest.approx(3 * (10e-6 + 1.2e-6) + 3 * (10e-6 + 48e-9), abs=1e-9)
    assert network._state.flows["base_rtt_ns"][0] == pytest.approx(63_744, abs=1)


@pytest.mark.parametrize("window", [1.0, 10.0, 40.0, 53.0])
def test_window_below_the_bandwidth_delay_product_sets_the_rate(
    make_network: MakeNetwork, window: float
) -> None:
    network = make_network(
        window_of(window),
        topology__hosts_per_side=1,
        workload__start_jitter_s=0.0,
        transport__host_jitter_s=0.0,
    )
    network.advance(20e-3)
    expected_bytes = window * 1460 / 63.744e-6 * 20e-3
    assert network.flows().delivered_bytes[0] == pytest.approx(expected_bytes, rel=0.01)


def test_window_beyond_the_bandwidth_delay_product_stands_in_the_queue(make_network: MakeNetwork) -> None:
    window = 200
    network = make_network(
        window_of(window), topology__hosts_per_side=1, topology__core_rate_bps=5e9,
        workload__start_jitter_s=0.0, transport__host_jitter_s=0.0, queue__ecn_threshold_bytes=999_000,
    )  # fmt: skip
    network.advance(10e-3)
    before = network.ports()
    network.advance(10e-3)
    after = network.ports()
    core = core_port(network)
    mean_bytes = (after.queue_byte_s[core] - before.queue_byte_s[core]) / 10e-3
    base_rtt_s = 60e-6 + 2 * 1.2e-6 + 2.4e-6 + 2 * 48e-9 + 96e-9
    # The queue as seen at the port counts the packet being sent by what is left of it.
    expected_bytes = window * 1500 - (base_rtt_s - 2.4e-6) * 5e9 / 8 - 750
    assert mean_bytes == pytest.approx(expected_bytes, rel=0.01)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_packets_at_random_wait_as_in_an_m_d_1_queue(make_network: MakeNetwork, load: float) -> None:
    """Equal packets that arrive as a Poisson process wait rho / (2 (1 - rho)) services on average."""
    n_senders, n_packets, service_s = 64, 200_000, 12e-6
    network = make_network(
        topology={**SWITCH, "hosts": n_senders + 1},
        workload={"kind": "incast", "senders": n_senders, "request_bytes": 1460, "period_s": 1.0},
        queue__buffer_bytes=10_000_000, transport__host_jitter_s=0.0,
    )  # fmt: skip
    rng = np.random.default_rng(7)
    start_ns = np.cumsum(rng.exponential(service_s / load, n_packets) * 1e9).astype(np.int64)
    network.reset(
        0,
        make_schedule(
            rng, rng.integers(1, n_senders + 1, n_packets), np.zeros(n_packets, np.int64), size_bytes=1460,
            start_ns=start_ns,
        ),
    )  # fmt: skip
    duration_s = float(start_ns[-1]) * 1e-9
    network.advance(duration_s)
    port = network.topology.host_downlink[0]
    # Arrivals see time averages, so the mean of the work in the queue is the mean wait.
    mean_wait_s = network.ports().queue_byte_s[port] * 8 / 1e9 / duration_s
    assert mean_wait_s == pytest.approx(load / (2 * (1 - load)) * service_s, rel=0.06)


def test_four_flows_share_the_core_fairly(make_network: MakeNetwork) -> None:
    network = make_network()
    network.advance(20e-3)
    before = network.flows().delivered_bytes
    network.advance(200e-3)
    goodput_bps = 8 * (network.flows().delivered_bytes - before) / 200e-3
    share_bps = 10e9 * 1460 / 1500 / 4
    assert goodput_bps.sum() == pytest.approx(4 * share_bps, rel=0.01)
    assert goodput_bps == pytest.approx(np.full(4, share_bps), rel=0.2)


def test_caps_at_the_max_min_fair_rates_deliver_them_without_a_queue(make_network: MakeNetwork) -> None:
    network = make_network("paced", workload__start_jitter_s=0.0)
    network.advance(1e-6)
    caps_bps = np.full(network.n_hosts, 10e9)
    rates_bps = network.oracle_rates_bps()
    caps_bps[rates_bps > 0] = rates_bps[rates_bps > 0]
    assert rates_bps[:4] == pytest.approx(np.full(4, 2.5e9))
    network.set_host_rate_caps(caps_bps)
    network.advance(5e-3)
    before = network.flows().delivered_bytes
    network.clear_maxima()
    network.advance(20e-3)
    goodput_bps = 8 * (network.flows().delivered_bytes - before) / 20e-3
    assert goodput_bps == pytest.approx(np.full(4, 2.5e9 * 1460 / 1500), rel=0.005)
    assert network.ports().queue_max_bytes[core_port(network)] <= 8 * 1500


@pytest.mark.parametrize("fraction", [0.01, 0.3, 1.0])
def test_a_cap_holds_for_the_host_whatever_its_flows_and_transport(
    make_network: MakeNetwork, fraction: float
) -> None:
    for transport in ("paced", "dctcp", "cubic"):
        network = make_network(transport, workload__flows_per_pair=5, workload__start_jitter_s=0.0)
        network.set_host_rate_caps(np.full(network.n_hosts, fraction * 10e9 / 4))
        before = network.hosts().sent_bytes
        network.advance(50e-3)
        sent_bps = 8 * (network.hosts().sent_bytes - before)[:4] / 50e-3
        assert np.all(sent_bps <= fraction * 2.5e9 + 2 * 1500 * 8 / 50e-3)
        assert sent_bps == pytest.approx(
            np.full(4, fraction * 2.5e9), rel=0.06 if transport == "paced" else 0.2
        )


def test_round_trip_over_shaped_links_is_that_of_their_delays_and_queues(make_network: MakeNetwork) -> None:
    network = make_network(
        window_of(40), topology__link_model="shaper", topology__hosts_per_side=1,
        workload__start_jitter_s=0.0, transport__host_jitter_s=0.0, queue__ecn_threshold_bytes=None,
    )  # fmt: skip
    network.advance(65e-6)
    assert network.flows().rtt_min_s[0] == pytest.approx(60e-6, abs=1e-9)
    assert network._state.flows["base_rtt_ns"][0] == 60_000
    network.advance(10e-3)
    # 40 packets take less than the round trip, which would hold 50: the rate is the window's.
    before = network.flows().delivered_bytes[0]
    network.advance(10e-3)
    goodput_bps = 8 * (network.flows().delivered_bytes[0] - before) / 10e-3
    assert goodput_bps == pytest.approx(40 * 1460 * 8 / 60e-6, rel=0.01)


@pytest.mark.parametrize(("link_model", "left"), [("wire", 0), ("shaper", 1)])
@pytest.mark.parametrize("room", [1, 2, 7])
def test_a_shaped_port_holds_a_packet_more_because_the_one_that_is_charged_has_left(
    make_network: MakeNetwork, link_model: str, left: int, room: int
) -> None:
    """Twelve packets arrive at a port within the time of one, and it takes as many as it has room for."""
    network = make_network(
        window_of(12), topology__hosts_per_side=1, topology__core_rate_bps=10e6, workload__start_jitter_s=0.0,
        transport__host_jitter_s=0.0, topology__link_model=link_model, queue__buffer_bytes=room * 1500,
        queue__ecn_threshold_bytes=None,
    )  # fmt: skip
    network.advance(45e-6)  # before the first ACK
    assert network.ports().accepted_packets[core_port(network)] == room + left
    assert network.ports().dropped_packets[core_port(network)] == 12 - room - left


@pytest.mark.parametrize("batch_s", [0.0, 1e-6, 3e-6])
@pytest.mark.parametrize("early_s", [-5e-7, 5e-7, 1.5e-6, 3.5e-6])
def test_a_shaped_port_has_room_for_what_arrives_in_the_batch_of_its_turn(
    make_network: MakeNetwork, batch_s: float, early_s: float
) -> None:
    """Twelve packets fill the core port; another one arrives about when the first that waits has its turn."""
    network = make_network(
        window_of(12), topology__hosts_per_side=2, topology__core_rate_bps=10e6,
        topology__link_model="shaper", topology__link_delay_s=1e-6, topology__link_batch_s=batch_s,
        transport__host_jitter_s=0.0, queue__buffer_bytes=6000, queue__ecn_threshold_bytes=None,
    )  # fmt: skip
    turn_ns = 1_080_000  # of 1500 bytes at 10 Mb/s, after the first packet's arrival, less a tenth
    start_ns = np.array([0, turn_ns - round(early_s * 1e9)])
    sizes = np.array([12 * 1460, 1460])
    schedule = make_schedule(np.random.default_rng(0), [0, 1], [2, 3], size_bytes=sizes, start_ns=start_ns)
    network.reset(1, schedule)
    network.advance(1.07e-3)
    before = network.ports().accepted_packets[core_port(network)]
    network.advance(20e-6)
    accepted = network.ports().accepted_packets[core_port(network)] - before
    assert accepted == (early_s < batch_s)


@pytest.mark.parametrize(("rate_bps", "spared_s"), [(10e6, 120e-6), (100e6, 250e-6)])
def test_a_shaped_port_makes_up_for_idle_time(
    make_network: MakeNetwork, rate_bps: float, spared_s: float
) -> None:
    """The bucket has a tenth of a packet's time, or 250 us where that is more than a packet's."""
    network = make_network(
        window_of(12), topology__hosts_per_side=1, topology__core_rate_bps=rate_bps,
        topology__link_model="shaper", topology__link_delay_s=1e-6, transport__host_jitter_s=0.0,
    )  # fmt: skip
    packet_s = 12_000 / rate_bps
    sizes = np.array([12 * 1460])
    schedule = make_schedule(
        np.random.default_rng(0), [0], [1], size_bytes=sizes, start_ns=np.array([1_000_000])
    )
    network.reset(1, schedule)
    seen = network.record([network.topology.link_names[core_port(network)]])
    network.advance(20e-3)
    gaps_s = np.diff(np.sort(seen.packets["time_ns"])) * 1e-9
    assert gaps_s.sum() == pytest.approx(11 * packet_s - spared_s, abs=2e-6)


@pytest.mark.parametrize(
    ("transport", "link_model", "sendings"), [("paced", "wire", 1.0), (window_of(400), "shaper", 0.0)]
)
def test_ideal_completion_time_is_reached_on_an_empty_network(
    make_network: MakeNetwork, transport: Any, link_model: str, sendings: float
) -> None:
    network = make_network(
        transport, topology__core_rate_bps=4e9, workload__start_jitter_s=0.0, transport__host_jitter_s=0.0,
        queue__buffer_bytes=1_000_000_000, topology__link_model=link_model,
        transport__host_queue_packets=4096,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    sizes = np.array([1, 1460, 1461, 14_600, 300_001])
    schedule = make_schedule(
        rng, np.zeros(5, np.int64), np.full(5, 4), size_bytes=sizes, start_ns=np.arange(5) * 5_000_000
    )
    network.reset(0, schedule)
    network.advance(40e-3)
    flows = network.flows()
    assert flows.finish_s - flows.start_s == pytest.approx(flows.ideal_fct_s, abs=20e-9)
    # By hand: three links, two delays of a packet of 41 bytes at 10 Gb/s and one at 4 Gb/s.
    assert flows.ideal_fct_s[0] == pytest.approx(30e-6 + sendings * (41 * 8 / 10e9 * 2 + 41 * 8 / 4e9))


def test_queue_quantile_and_maximum_of_a_standing_queue(make_network: MakeNetwork) -> None:
    network = make_network(
        window_of(100), topology__hosts_per_side=1, topology__core_rate_bps=1e9, workload__start_jitter_s=0.0,
        transport__host_jitter_s=0.0, queue__ecn_threshold_bytes=999_000,
    )  # fmt: skip
    network.advance(50e-3)
    core = core_port(network)
    queue_bytes = network.ports().queue_bytes[core]
    assert queue_bytes > 100_000
    for quantile in (0.5, 0.99):
        assert network.queue_quantile_bytes(quantile)[core] == pytest.approx(queue_bytes, rel=1 / 16 + 0.02)
    assert network.ports().queue_max_bytes[core] == pytest.approx(queue_bytes, rel=0.03)
