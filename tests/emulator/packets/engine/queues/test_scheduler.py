"""Classes of packets: strict priority and deficit round robin against closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.errors import ScenarioError
from sysgym.scenarios import CongestionScenario, load_scenario

MakeNetwork = Callable[..., PacketNetwork]

RATE_BPS = 10e9
PACKET_BYTES = 1500
PACKET_S = 8 * PACKET_BYTES / RATE_BPS


def switch(n_hosts: int) -> dict[str, Any]:
    return {"kind": "single_switch", "hosts": n_hosts, "link_rate_bps": RATE_BPS, "link_delay_s": 1e-6}


def start(
    network: PacketNetwork,
    src: list[int],
    dst: list[int],
    classes: list[int],
    size_bytes: list[int] | int = -1,
    start_ns: list[int] | int = 0,
) -> None:
    """Start flows of the given classes, by start time."""
    rng = np.random.default_rng(0)
    network.reset(1, make_schedule(rng, src, dst, size_bytes=size_bytes, start_ns=start_ns))
    network._state.flows["priority"] = classes


def sent_by_class(network: PacketNetwork, link_id: int) -> NDArray[np.int64]:
    """Bytes of each class that a port has begun to send, shape (n_classes,)."""
    counters = network.classes()
    return counters.accepted_bytes[link_id] - counters.waiting_bytes[link_id]


def test_a_higher_class_starves_a_lower_one(make_network: MakeNetwork) -> None:
    """Two hosts at line rate into one port: the higher class fills it, the lower one waits in its queue."""
    queue = {"buffer_bytes": 100_000, "classes": 2}
    network = make_network("paced", topology=switch(3), queue=queue)
    port = network.topology.host_downlink[0]
    start(network, [1, 2], [0, 0], [0, 1])
    network.advance(1e-3)
    before = sent_by_class(network, port)
    network.advance(5e-3)
    sent = sent_by_class(network, port) - before
    assert sent[1] == pytest.approx(5e-3 * RATE_BPS / 8, abs=2 * PACKET_BYTES)
    # Jitter leaves the higher class's line idle now and then, at most by a packet at a time.
    assert sent[0] < 0.01 * sent[1]
    counters = network.classes()
    assert counters.dropped_packets[port, 0] > 0
    assert counters.dropped_packets[port, 1] == 0
    assert counters.waiting_bytes[port, 0] == pytest.approx(100_000, abs=2 * PACKET_BYTES)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, 3.0], [4.0, 1.0, 0.5], [0.1, 0.25]])
def test_weighted_classes_share_a_link_by_their_weights(
    make_network: MakeNetwork, weights: list[float]
) -> None:
    """While every class has packets, each gets its weight's share, to within what it may send in a turn."""
    n = len(weights)
    queue = {"buffer_bytes": 200_000, "classes": n, "scheduler": "wrr", "weights": weights}
    network = make_network("paced", topology=switch(n + 1), queue=queue)
    port = network.topology.host_downlink[0]
    start(network, list(range(1, n + 1)), [0] * n, list(range(n)))
    network.advance(1e-3)
    assert np.all(network.classes().waiting_bytes[port] > 10 * PACKET_BYTES)
    before = sent_by_class(network, port)
    network.advance(5e-3)
    sent = sent_by_class(network, port) - before
    shares = np.array(weights) / sum(weights) * 5e-3 * RATE_BPS / 8
    turn_bytes = PACKET_BYTES * (max(weights) + 1)
    assert sent == pytest.approx(shares, abs=2 * turn_bytes)


def test_a_class_without_packets_leaves_its_share_to_the_others(make_network: MakeNetwork) -> None:
    queue = {"buffer_bytes": 200_000, "classes": 3, "scheduler": "wrr", "weights": [1, 8, 1]}
    network = make_network("paced", topology=switch(3), queue=queue)
    port = network.topology.host_downlink[0]
    start(network, [1, 2], [0, 0], [0, 2])
    network.advance(1e-3)
    before = sent_by_class(network, port)
    network.advance(5e-3)
    sent = sent_by_class(network, port) - before
    assert sent[1] == 0
    assert sent[[0, 2]] == pytest.approx(np.full(2, 2.5e-3 * RATE_BPS / 8), abs=3 * PACKET_BYTES)


@pytest.mark.parametrize(("own_class", "waits_for_queue"), [(0, True), (1, False)])
def test_a_packet_of_a_higher_class_waits_for_one_packet_at_most(
    make_network: MakeNetwork, own_class: int, waits_for_queue: bool
) -> None:
    """Class 0 keeps 100 packets in front of the receiver; a single packet meets them, or only the last."""
    queue = {"buffer_bytes": 100 * PACKET_BYTES, "classes": 2}
    network = make_network("paced", topology=switch(4), queue=queue, transport__host_jitter_s=0.0)
    start(network, [1, 2, 3], [0, 0, 0], [0, 0, own_class], [-1, -1, 1460], [0, 0, 3_000_000])
    network.advance(5e-3)
    flows = network.flows()
    took_s = (flows.finish_s - flows.start_s)[2]
    empty_s = 2 * (PACKET_S + 1e-6)
    if waits_for_queue:
        assert not took_s < empty_s + 90 * PACKET_S  # nan: it was dropped
    else:
        assert empty_s <= took_s <= empty_s + PACKET_S + 1e-9


def test_the_card_of_a_host_serves_its_higher_class_first(make_network: MakeNetwork) -> None:
    """Both flows of a host have a full card, so its link carries the higher class only until that ends."""
    queue = {"buffer_bytes": 1_000_000, "classes": 2}
    network = make_network("cubic", topology=switch(3), queue=queue, transport__initial_window_packets=1024)
    start(network, [1, 1], [0, 2], [0, 1], [1_460_000, 1_460_000], [0, 100_000])
    network.advance(5e-3)
    flows = network.flows()
    high_s = 1000 * PACKET_S + 2e-6 + 3 * PACKET_S  # jitter, the packet being sent, the switch
    assert (flows.finish_s - flows.start_s)[1] == pytest.approx(high_s, abs=3 * PACKET_S)
    assert flows.finish_s[0] == pytest.approx(2000 * PACKET_S, rel=0.01)


def test_acks_go_in_their_own_class(make_network: MakeNetwork) -> None:
    queue = {"buffer_bytes": 1_000_000, "classes": 3, "ack_class": 2}
    network = make_network("dctcp", topology=switch(2), queue=queue)
    start(network, [0], [1], [1])
    network.advance(1e-3)
    up, down = network.topology.host_uplink, network.topology.host_downlink
    packets = network.classes().accepted_packets
    assert np.array_equal(packets[up[0]] > 0, [False, True, False])
    assert np.array_equal(packets[up[1]] > 0, [False, False, True])
    assert np.array_equal(packets[down[0]] > 0, [False, False, True])


def test_a_class_that_ports_do_not_have_is_the_nearest_one(make_network: MakeNetwork) -> None:
    network = make_network("paced", topology=switch(3), queue={"buffer_bytes": 100_000, "classes": 2})
    start(network, [1, 2], [0, 0], [7, -3])
    network.advance(1e-3)
    packets = network.classes().accepted_packets[network.topology.host_uplink]
    assert np.array_equal(packets[1:] > 0, [[False, True], [True, False]])


def test_one_used_class_of_many_is_like_one_queue_but_for_rounding(make_network: MakeNetwork) -> None:
    flows = []
    for keys in ({}, {"classes": 4, "scheduler": "wrr", "weights": [1, 2, 3, 4]}):
        queue = {"buffer_bytes": 1_000_000, "ecn_threshold_bytes": 97_500, **keys}
        network = make_network("dctcp", queue=queue, transport__host_jitter_s=0.0)
        network.advance(20e-3)
        flows.append(network.flows())
    assert flows[0].delivered_bytes.sum() == pytest.approx(flows[1].delivered_bytes.sum(), rel=1e-3)
    assert flows[0].rtt_mean_s == pytest.approx(flows[1].rtt_mean_s, rel=0.05)


@settings(max_examples=30, deadline=None)
@given(
    scheduler=st.sampled_from(["strict", "wrr"]),
    n_classes=st.integers(2, 8),
    seed=st.integers(0, 2**31 - 1),
    buffer_packets=st.integers(1, 40),
    shared=st.booleans(),
    trim=st.booleans(),
)
def test_every_class_of_every_port_conserves_bytes(
    scheduler: str, n_classes: int, seed: int, buffer_packets: int, shared: bool, trim: bool
) -> None:
    """What is in a port is what its lists hold; classes keep their limits, and so does the switch."""
    buffer_bytes = PACKET_BYTES * buffer_packets
    queue = {"buffer_bytes": buffer_bytes, "classes": n_classes, "scheduler": scheduler, "trim": trim}
    if shared:
        queue |= {"shared_buffer_bytes": 2 * buffer_bytes}
    scenario = load_scenario(
        "dumbbell-10g",
        overrides={
            "topology": switch(9),
            "workload": {"kind": "incast", "senders": 8, "request_bytes": 60_001, "period_s": 1e-3},
            "queue": queue,
            "transport.min_rto_s": 1e-3,
        },
        expect=CongestionScenario,
    )  # fmt: skip
    network = PacketNetwork(scenario, transport="dctcp")
    network.reset(seed)
    network._state.flows["priority"] = np.arange(len(network._state.flows)) % n_classes
    for _ in range(50):
        network.advance(5e-5)
        check_lists(network)
        state = network._state
        counters, ports = network.classes(), network.ports()
        assert np.array_equal(counters.accepted_packets.sum(axis=1), ports.accepted_packets)
        assert np.array_equal(counters.dropped_packets.sum(axis=1), ports.dropped_packets)
        at_switch = counters.waiting_bytes[network.topology.switch_ports]
        assert at_switch.max() <= buffer_bytes
        if shared:
            held = state.ports["queued_bytes"][network.topology.switch_ports].sum()
            assert held == state.memories["bound_bytes"][0] <= 2 * buffer_bytes
    assert (counters.trimmed_packets.sum() > 0) <= trim


def check_lists(network: PacketNetwork) -> None:
    """Lists of packets and what is counted of them agree."""
    state = network._state
    for link_id, queues in enumerate(state.class_queues):
        for queue in queues:
            slots, slot = [], int(queue["head"])
            while slot != -1:
                slots.append(slot)
                slot = int(state.packets["next"][slot])
            assert state.packets["size_bytes"][slots].sum() == queue["waiting_bytes"]
            if slots:
                assert queue["tail"] == slots[-1]
            if len(slots) > 1:
                assert queue["before_tail"] == slots[-2]
        waiting = queues["waiting_bytes"].sum() + state.ports["sending_bytes"][link_id]
        assert waiting == state.ports["queued_bytes"][link_id]
        assert waiting == 0 or state.ports["sending_bytes"][link_id] > 0, "the port is idle"


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ({"scheduler": "wrr"}, "classes = 2 or more"),
        ({"trim": True}, "classes = 2 or more"),
        ({"classes": 2, "weights": [1, 2]}, 'scheduler = "wrr" beside it'),
        ({"classes": 2, "scheduler": "wrr", "weights": [1, 2, 3]}, "one value for each of classes = 2"),
        ({"classes": 3, "class_buffer_bytes": [9000, 9000]}, "one value for each of classes = 3"),
        ({"classes": 2, "ack_class": 2}, "less than classes = 2"),
        ({"classes": 2, "trim": True, "pfc_pause_bytes": 50_000}, "false with pfc_pause_bytes"),
        ({"classes": 9}, "queue.classes"),
    ],
)
def test_what_makes_no_sense_is_refused(
    make_network: MakeNetwork, queue: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        make_network(queue={"buffer_bytes": 100_000, **queue})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"transport__loss_detection": "dupack", "queue__trim": True}, '"rack" with queue.trim'),
        ({"topology": {**switch(3), "link_model": "shaper"}}, '"wire" with queue.classes'),
        (
            {
                "faults__rate_changes": [
                    {
                        "link": "*",
                        "interval_s": {"low": 1e-3, "high": 1e-2, "scale": "log"},
                        "factor": {"low": 0.5, "high": 2.0, "scale": "log"},
                    }
                ]
            },
            "no changing links with queue.classes",
        ),
    ],
)
def test_what_classes_cannot_do_is_refused(
    make_network: MakeNetwork, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        make_network(queue__classes=2, **keys)
