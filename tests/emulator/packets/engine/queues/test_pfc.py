"""Priority flow control: no drops, spreading of pauses, and recovery after congestion."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.memory.records import NOBODY
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.workloads.schedule import make_schedule
from sysgym.errors import ScenarioError
from tests.emulator.packets.simple_laws import paced_at

MakeNetwork = Callable[..., PacketNetwork]

SWITCH = {"kind": "single_switch", "hosts": 17, "link_rate_bps": 10e9, "link_delay_s": 1e-6}
INCAST = {"kind": "incast", "senders": 16, "request_bytes": 300_000, "period_s": 0.2}
LOSSLESS = {"buffer_bytes": 100_000, "pfc_pause_bytes": 50_000, "pfc_resume_bytes": 40_000}


def test_an_incast_loses_nothing(make_network: MakeNetwork) -> None:
    drops = []
    for queue in ({"buffer_bytes": 100_000}, LOSSLESS):
        network = make_network("paced", topology=SWITCH, workload=INCAST, queue=queue)
        network.advance(20e-3)
        ports = network.ports()
        drops.append(ports.dropped_packets.sum())
        flows = network.flows()
    assert drops[0] > 0
    assert drops[1] == 0
    assert np.all(np.isfinite(flows.finish_s))
    assert network.hosts().retransmitted_packets.sum() == 0
    assert network.hosts().timeouts.sum() == 0
    # The last byte arrives when the receiver's link has carried all, and no later.
    carried_s = 16 * np.ceil(300_000 / 1460) * 40 * 8 / 10e9 + 16 * 300_000 * 8 / 10e9
    assert flows.finish_s.max() == pytest.approx(carried_s, rel=0.02)
    assert np.all(ports.pauses[network.topology.host_uplink[1:]] > 0)
    assert np.all(ports.paused_s[network.topology.host_uplink[1:]] > 1e-3)
    assert ports.pauses[network.topology.host_downlink].sum() == 0


def test_what_came_over_a_link_never_exceeds_its_room(make_network: MakeNetwork) -> None:
    network = make_network("paced", topology=SWITCH, workload=INCAST, queue=LOSSLESS)
    most = 0
    for _ in range(1000):
        network.advance(4e-6)
        held_bytes = network._state.class_queues["held_bytes"]
        most = max(most, int(held_bytes.max()))
        queued = network._state.ports["queued_bytes"][network.topology.switch_ports].sum()
        assert held_bytes.sum() == queued, "held by the way in and by the way out differ"
    overshoot_bytes = 2 * 1e-6 * 10e9 / 8 + 4 * 1500 + 64
    assert 50_000 < most <= 50_000 + overshoot_bytes


def test_without_congestion_it_changes_nothing_but_rounding(make_network: MakeNetwork) -> None:
    flows = []
    for queue in ({"buffer_bytes": 1_000_000}, {"buffer_bytes": 1_000_000, "pfc_pause_bytes": 500_000}):
        network = make_network(
            "paced", queue=queue, workload__start_jitter_s=0.0, transport__host_jitter_s=0.0
        )
        network.set_host_rate_caps(np.full(8, 2e9))
        network.advance(10e-3)
        assert network.ports().pauses.sum() == 0
        flows.append(network.flows())
        queue_byte_s = network.ports().queue_byte_s.sum()
        flows_queue = (network.flows().delivered_bytes, queue_byte_s)
    assert np.array_equal(flows[0].delivered_bytes, flows[1].delivered_bytes)
    assert flows[0].rtt_mean_s == pytest.approx(flows[1].rtt_mean_s, abs=2e-9)
    assert flows_queue[1] > 0


@pytest.mark.parametrize("lossless", [False, True])
def test_both_kinds_of_queue_measure_the_same_mean(make_network: MakeNetwork, lossless: bool) -> None:
    queue: dict[str, Any] = {"buffer_bytes": 1_000_000, "ecn_threshold_bytes": 97_500}
    if lossless:
        queue["pfc_pause_bytes"] = 900_000
    network = make_network("dctcp", queue=queue)
    network.advance(30e-3)
    before = network.ports().queue_byte_s
    network.advance(50e-3)
    mean_packets = (network.ports().queue_byte_s - before).max() / 50e-3 / 1500
    assert 40 < mean_packets < 78
    quantile = network.queue_quantile_bytes(0.5).max() / 1500
    assert quantile == pytest.approx(mean_packets, rel=0.25)


def test_a_pause_holds_up_whom_it_does_not_concern(make_network: MakeNetwork) -> None:
    """The victim flow shares only the core link with an incast behind it (head-of-line blocking)."""
    goodputs = []
    for queue in (
        {"buffer_bytes": 400_000, "pfc_pause_bytes": 100_000},
        {"buffer_bytes": 50_000_000},
    ):
        network = make_network(
            "paced", topology={"kind": "dumbbell", "hosts_per_side": 4, "link_rate_bps": 10e9,
                               "core_rate_bps": 40e9, "link_delay_s": 1e-6}, queue=queue,
        )  # fmt: skip
        rng = np.random.default_rng(0)
        src, dst = [0, 1, 2, 3], [4, 4, 4, 5]  # three hosts fill host 4's link; the fourth sends to host 5
        network.reset(0, make_schedule(rng, src, dst, size_bytes=-1, start_ns=0))
        network.advance(5e-3)
        goodputs.append(8 * network.flows().delivered_bytes / 5e-3)
        if "pfc_pause_bytes" in queue:
            core = network.topology.links_named("west->east")
            assert network.ports().pauses[core] > 0
            assert network.ports().dropped_packets.sum() == 0
    assert goodputs[1][3] > 9e9
    assert goodputs[0][3] < 0.6 * goodputs[1][3]


@pytest.mark.parametrize("transport", ["dctcp", "cubic", "paced"])
def test_everything_stops_and_starts_on_a_fat_tree_without_deadlock(
    make_network: MakeNetwork, transport: str
) -> None:
    network = make_network(
        transport, topology={"kind": "fat_tree", "k": 4, "link_rate_bps": 10e9, "link_delay_s": 1e-6},
        workload={"kind": "incast", "senders": 15, "request_bytes": 200_000, "period_s": 4e-3,
                  "receiver": "drawn"},
        queue={"buffer_bytes": 60_000, "pfc_pause_bytes": 20_000}, control__episode_steps=80,
    )  # fmt: skip
    network.advance(50e-3)
    flows = network.flows()
    assert np.all(np.isfinite(flows.finish_s))
    assert network.ports().dropped_packets.sum() == 0
    assert network.ports().pauses.sum() > 0
    state = network._state
    assert np.all(state.links["head"] == NOBODY)
    assert np.all(state.class_queues["held_bytes"] == 0)
    assert np.all(state.ports["queued_bytes"] == 0)
    assert np.all(state.class_queues["paused"] == 0)
    assert state.world["free_packets"][0] == len(state.packets)


CLASSES = {"classes": 2, "scheduler": "wrr"}


def test_a_pause_of_one_class_does_not_hold_up_another(make_network: MakeNetwork) -> None:
    """As above, but the victim is of another class: it has what the full link leaves, as if alone."""
    network = make_network(
        "paced", topology={"kind": "dumbbell", "hosts_per_side": 4, "link_rate_bps": 10e9,
                           "core_rate_bps": 40e9, "link_delay_s": 1e-6},
        queue={"buffer_bytes": 400_000, "pfc_pause_bytes": 100_000, **CLASSES},
    )  # fmt: skip
    rng = np.random.default_rng(0)
    network.reset(0, make_schedule(rng, [0, 1, 2, 3], [4, 4, 4, 5], size_bytes=-1, start_ns=0,
                                   priority=[0, 0, 0, 1]))  # fmt: skip
    network.advance(5e-3)
    goodputs_bps = 8 * network.flows().delivered_bytes / 5e-3
    core = network.topology.links_named("west->east")[0]
    assert network.classes().pauses[core, 0] > 0
    assert network.classes().pauses[:, 1].sum() == 0
    assert network.ports().dropped_packets.sum() == 0
    assert goodputs_bps[3] == pytest.approx(10e9 * 1460 / 1500, rel=0.01)
    assert goodputs_bps[:3].sum() == pytest.approx(10e9 * 1460 / 1500, rel=0.01)


@pytest.mark.parametrize("classes", [1, 2])
def test_a_paused_class_leaves_its_host_to_the_other(make_network: MakeNetwork, classes: int) -> None:
    """Host 1 sends a third of what host 0 takes; its other flow has the rest of the link, or waits too."""
    queue = {"buffer_bytes": 400_000, "pfc_pause_bytes": 100_000, **(CLASSES if classes == 2 else {})}
    network = make_network("paced", topology={**SWITCH, "hosts": 5}, queue=queue)
    rng = np.random.default_rng(0)
    network.reset(0, make_schedule(rng, [1, 2, 3, 1], [0, 0, 0, 4], size_bytes=-1, start_ns=0,
                                   priority=[0, 0, 0, classes - 1]))  # fmt: skip
    network.advance(5e-3)
    before = network.flows().delivered_bytes
    network.advance(20e-3)
    goodputs = (network.flows().delivered_bytes - before) * 8 / 20e-3 / (10e9 * 1460 / 1500)
    by_sender = dict(zip(zip(network.flows().src, network.flows().dst, strict=True), goodputs, strict=True))
    assert by_sender[1, 0] + by_sender[2, 0] + by_sender[3, 0] == pytest.approx(1.0, rel=0.01)
    assert by_sender[1, 0] == pytest.approx(1 / 3, rel=0.15)
    if classes == 2:
        assert by_sender[1, 4] == pytest.approx(1.0 - by_sender[1, 0], rel=0.01)
    else:  # both take turns in the card, and wait for the same pauses
        assert by_sender[1, 4] == pytest.approx(by_sender[1, 0], rel=0.05)


@pytest.mark.parametrize("scheduler", ["strict", "wrr"])
@pytest.mark.parametrize("pfc_classes", [None, [0, 2]])
def test_no_class_with_flow_control_loses_anything(
    make_network: MakeNetwork, scheduler: str, pfc_classes: list[int] | None
) -> None:
    """Three classes of incasts on a fat tree; the class that is not protected has the port's own limit."""
    network = make_network(
        "cubic", topology={"kind": "fat_tree", "k": 4, "link_rate_bps": 10e9, "link_delay_s": 1e-6},
        workload={"kind": "incast", "senders": 15, "request_bytes": 100_000, "period_s": 2e-3,
                  "receiver": "drawn"},
        queue={"buffer_bytes": 60_000, "pfc_pause_bytes": 20_000, "classes": 3, "scheduler": scheduler,
               "pfc_classes": pfc_classes}, transport__min_rto_s=1e-3,
    )  # fmt: skip
    state = network._state
    state.flows["priority"] = np.arange(len(state.flows)) % 3
    lossless = [0, 1, 2] if pfc_classes is None else pfc_classes
    at_switch = network.topology.switch_ports
    for _ in range(200):
        network.advance(1e-4)
        queues = state.class_queues
        assert queues["held_bytes"].max() <= 60_000
        # What is held by the way in is what is held by the way out, class by class.
        out = queues["waiting_bytes"][at_switch].sum(axis=0)
        np.add.at(out, state.ports["sending_class"][at_switch], state.ports["sending_bytes"][at_switch])
        assert np.array_equal(queues["held_bytes"].sum(axis=0)[lossless], out[lossless])
    counters = network.classes()
    assert np.all(counters.pauses.sum(axis=0)[lossless] > 0)
    assert counters.dropped_packets.sum(axis=0)[lossless].sum() == 0
    if pfc_classes is not None:
        assert counters.dropped_packets[:, 1].sum() > 0
        assert counters.pauses[:, 1].sum() == 0
    network.advance(0.1)
    assert np.all(np.isfinite(network.flows().finish_s[network.flows().start_s < 20e-3]))


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ({"pfc_classes": [0]}, "pfc_pause_bytes beside it"),
        ({"pfc_classes": [0, 2], "classes": 2, "pfc_pause_bytes": 50_000}, "numbers less than classes = 2"),
    ],
)
def test_classes_that_cannot_be_paused_are_refused(
    make_network: MakeNetwork, queue: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        make_network(queue={"buffer_bytes": 400_000, **queue})


@pytest.mark.parametrize("link_jitter_s", [0.0, 5e-6, 50e-6])
def test_the_room_that_is_required_is_enough_where_links_have_jitter(
    make_network: MakeNetwork, link_jitter_s: float
) -> None:
    """The largest threshold that is accepted drops nothing: the pause frame may be late, too."""
    arguments: dict[str, Any] = {
        "topology": {"kind": "leaf_spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 4,
                     "link_rate_bps": 10e9, "link_delay_s": 1e-6, "link_jitter_s": link_jitter_s},
        "workload": {"kind": "incast", "senders": 7, "request_bytes": 2_000_000, "period_s": 1.0},
        "transport__host_jitter_s": 0.0,
    }  # fmt: skip
    queue = {"buffer_bytes": 300_000, "pfc_pause_bytes": 299_999}
    with pytest.raises(ScenarioError, match="at most") as refused:
        make_network(paced_at(10e9), queue=queue, **arguments)
    found = re.search(r"at most (\d+)", str(refused.value))
    assert found is not None
    queue["pfc_pause_bytes"] = int(found[1])
    for seed in range(3):
        network = make_network(paced_at(10e9), seed=seed, queue=queue, **arguments)
        network.advance(10e-3)
        assert network.ports().dropped_packets.sum() == 0
