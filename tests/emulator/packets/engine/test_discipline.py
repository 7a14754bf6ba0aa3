"""Random early detection against its formula, and losses on links against their probability."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sysgym.emulator.packets.engine.discipline import red_probability
from sysgym.emulator.packets.network import PacketNetwork
from tests.emulator.packets.simple_laws import paced_at, window_of

MakeNetwork = Callable[..., PacketNetwork]


@pytest.mark.parametrize(
    ("average", "gentle", "probability"),
    [
        (0.0, True, 0.0),
        (9.99, True, 0.0),
        (10.0, True, 0.0),
        (20.0, True, 0.05),
        (29.9999999, True, 0.1),
        (45.0, True, 0.1 + 0.9 * 0.5),
        (60.0, True, 1.0),
        (30.0, False, 1.0),
        (20.0, False, 0.05),
    ],
)
def test_probability_is_the_formula(average: float, gentle: bool, probability: float) -> None:
    assert red_probability(average, 10.0, 30.0, 0.1, gentle) == pytest.approx(probability, abs=1e-8)


@pytest.mark.parametrize(("queue_packets", "expected"), [(20, 0.0), (60, 0.25), (80, 0.5), (110, 0.68)])
def test_a_standing_queue_is_marked_as_often_as_the_formula_says(
    make_network: MakeNetwork, queue_packets: int, expected: float
) -> None:
    """A constant window holds the queue; the average follows it at once (weight 1)."""
    network = make_network(
        # What is not in the queue is on the way: 26 packets at 5 Gb/s.
        window_of(queue_packets + 26, ecn_capable=True), topology__hosts_per_side=1,
        topology__core_rate_bps=5e9, workload__start_jitter_s=0.0, transport__host_jitter_s=0.0,
        queue={
            "buffer_bytes": 1_000_000, "discipline": "red", "red_min_bytes": 40 * 1500,
            "red_max_bytes": 80 * 1500, "red_max_probability": 0.5, "red_weight": 1.0,
        },
    )  # fmt: skip
    network.advance(10e-3)
    before = network.ports()
    network.advance(100e-3)
    after = network.ports()
    core = int(np.argmax(after.marked_packets + after.queue_bytes))
    packets = after.accepted_packets[core] - before.accepted_packets[core]
    marked = after.marked_packets[core] - before.marked_packets[core]
    mean_bytes = (after.queue_byte_s[core] - before.queue_byte_s[core]) / 100e-3
    # Arriving packets find the queue half a packet shorter than it is on average over time.
    formula = red_probability(mean_bytes - 750, 60_000.0, 120_000.0, 0.5, True)
    assert packets > 40_000
    assert marked / packets == pytest.approx(formula, abs=4 * np.sqrt(0.25 / packets) + 0.01)
    assert formula == pytest.approx(expected, abs=0.07)


def test_the_average_follows_the_queue_with_its_weight(make_network: MakeNetwork) -> None:
    network = make_network(
        window_of(130, ecn_capable=True), topology__hosts_per_side=1,
        topology__core_rate_bps=5e9, workload__start_jitter_s=0.0, transport__host_jitter_s=0.0,
        queue={
            "buffer_bytes": 1_000_000, "discipline": "red", "red_min_bytes": 900_000,
            "red_max_bytes": 990_000, "red_weight": 0.01,
        },
    )  # fmt: skip
    network.advance(20e-3)
    state = network._state
    core = int(np.argmax(network.ports().queue_bytes))
    standing_ns = float(network.ports().queue_bytes[core] * 8 / 5)
    assert state.ports["red_average_ns"][core] == pytest.approx(standing_ns, rel=0.02)
    assert network.ports().marked_packets.sum() == 0
    # Idle times count as packets that found the queue empty: 100 packet times leave (1 - 0.01)^100.
    fresh = make_network(
        window_of(130, ecn_capable=True), topology__hosts_per_side=1, topology__core_rate_bps=5e9,
        queue={
            "buffer_bytes": 1_000_000, "discipline": "red", "red_min_bytes": 900_000,
            "red_max_bytes": 990_000, "red_weight": 0.01,
        },
    )  # fmt: skip
    fresh.advance(40e-6)
    assert fresh._state.ports["red_average_ns"].max() < 0.5 * standing_ns


def test_dropping_red_keeps_the_queue_of_cubic_short(make_network: MakeNetwork) -> None:
    means = []
    for action in (None, "drop"):
        queue: dict[str, object] = {"buffer_bytes": 600_000}
        if action is not None:
            queue |= {
                "discipline": "red", "red_min_bytes": 60_000, "red_max_bytes": 180_000, "red_action": action
            }  # fmt: skip
        network = make_network("cubic", queue=queue)
        network.advance(100e-3)
        means.append(network.ports().queue_byte_s.max() / 100e-3)
        assert network.ports().dropped_packets.sum() > 0
    assert means[1] < 0.5 * means[0]


@pytest.mark.parametrize("probability", [0.001, 0.05, 0.3])
def test_links_lose_what_they_should(make_network: MakeNetwork, probability: float) -> None:
    network = make_network("paced", faults={"loss_probability": probability})
    network.set_host_rate_caps(np.full(network.n_hosts, 2e9))
    network.advance(50e-3)
    ports = network.ports()
    crossings, lost = ports.accepted_packets.sum(), ports.lost_packets.sum()
    deviation = np.sqrt(probability * (1 - probability) / crossings)
    assert crossings > 50_000
    assert lost / crossings == pytest.approx(probability, abs=4 * deviation)
    assert np.array_equal(ports.lost_packets, ports.dropped_packets)
    assert network.hosts().retransmitted_packets.sum() > 0


def test_losses_are_those_of_the_seed(make_network: MakeNetwork) -> None:
    lost = []
    for seed in (1, 1, 2):
        network = make_network("cubic", seed=seed, faults={"loss_probability": 0.01})
        network.advance(10e-3)
        lost.append(network.ports().lost_packets.tolist())
    assert lost[0] == lost[1]
    assert lost[0] != lost[2]


def test_reno_under_random_loss_has_the_rate_of_the_square_root_law(make_network: MakeNetwork) -> None:
    """Mathis et al., CCR 1997: a window of sqrt(3 / (2 p)) packets."""
    probability = 2e-3
    network = make_network(
        "reno", topology__hosts_per_side=1, workload__flows_per_pair=1, queue__ecn_threshold_bytes=1_000_000,
        faults={"loss_probability": probability / 3},
    )  # fmt: skip
    network.advance(2.0)
    delivered = network.flows().delivered_bytes[0] / 1460
    window = delivered / 2.0 * network.flows().rtt_mean_s[0]
    assert window == pytest.approx(np.sqrt(1.5 / probability), rel=0.25)


def test_packets_that_find_the_buffer_full_count_in_the_average(make_network: MakeNetwork) -> None:
    """Floyd and Jacobson's average is that of all arrivals; a port with classes has always counted them."""
    averages_ns = []
    for classes in (1, 2):
        network = make_network(
            paced_at(10e9),
            topology={"kind": "single_switch", "hosts": 4, "link_rate_bps": 10e9, "link_delay_s": 1e-6},
            workload={"kind": "incast", "senders": 3, "request_bytes": 50_000_000, "period_s": 1.0},
            queue={
                "buffer_bytes": 150_000, "discipline": "red", "red_action": "drop", "red_weight": 0.002,
                "red_min_bytes": 20_000, "red_max_bytes": 150_000, "red_max_probability": 0.01,
                "classes": classes,
            },
        )  # fmt: skip
        network.advance(400e-6)
        link = int(network.topology.host_downlink[0])
        ports, queues = network._state.ports, network._state.class_queues
        averages_ns.append(float((ports[link] if classes == 1 else queues[link, 0])["red_average_ns"]))
    assert averages_ns[0] > 0.75 * 150_000 * 8 / 10.0
    assert averages_ns[0] == pytest.approx(averages_ns[1], rel=0.02)
