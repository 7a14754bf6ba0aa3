"""Shared memory of a switch's ports: thresholds against their closed form, bursts, and what is refused."""

from __future__ import annotations

import copy
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

PACKET_BYTES = 1500
MEMORY_BYTES = 1_200_000
RATE_BPS = 10e9


def switch(n_hosts: int) -> dict[str, Any]:
    return {"kind": "single_switch", "hosts": n_hosts, "link_rate_bps": RATE_BPS, "link_delay_s": 1e-6}


def shared(memory_bytes: int = MEMORY_BYTES, alpha: float = 1.0, **keys: Any) -> dict[str, Any]:
    return {
        "buffer_bytes": memory_bytes,
        "shared_buffer_bytes": memory_bytes,
        "shared_buffer_alpha": alpha,
        **keys,
    }


def start(network: PacketNetwork, src: list[int], dst: list[int]) -> None:
    """Start long flows between hosts, which send at line rate whatever is lost."""
    network.reset(1, make_schedule(np.random.default_rng(0), src, dst, size_bytes=-1, start_ns=0))


def held_bytes(network: PacketNetwork) -> NDArray[np.float64]:
    """What the queues of every switch hold now, shape (n_switches,)."""
    topology, ports = network.topology, network.topology.switch_ports
    owner = topology.link_source[ports] - topology.n_hosts
    held = np.zeros(topology.n_switches)
    np.add.at(held, owner, network.ports().queue_bytes[ports])
    return held


@pytest.mark.parametrize("alpha", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("n_ports", [1, 2, 5])
def test_equally_loaded_ports_hold_what_the_closed_form_says(
    make_network: MakeNetwork, n_ports: int, alpha: float
) -> None:
    """Two senders for each port: queue = alpha (memory - n queue), so alpha memory / (1 + n alpha)."""
    network = make_network("paced", topology=switch(3 * n_ports), queue=shared(alpha=alpha))
    receivers = list(range(n_ports))
    start(network, list(range(n_ports, 3 * n_ports)), receivers * 2)
    network.advance(4e-3)
    queues = network.ports().queue_bytes[network.topology.host_downlink]
    expected = alpha * MEMORY_BYTES / (1 + n_ports * alpha)
    assert queues[:n_ports] == pytest.approx(np.full(n_ports, expected), abs=2 * PACKET_BYTES)
    assert queues[n_ports:].max() < 2 * PACKET_BYTES
    assert network.ports().dropped_packets.sum() > 0


def test_a_port_that_was_idle_finds_room(make_network: MakeNetwork) -> None:
    """The free memory, half of all, is there for a second port; both end with a third of the memory."""
    network = make_network("paced", topology=switch(6), queue=shared())
    schedule = make_schedule(
        np.random.default_rng(0), [2, 3, 4, 5], [0, 0, 1, 1], size_bytes=-1,
        start_ns=[0, 0, 5_000_000, 5_000_000],
    )  # fmt: skip
    network.reset(1, schedule)
    ports = network.topology.host_downlink[:2]
    network.advance(5e-3)
    assert network.ports().queue_bytes[ports] == pytest.approx([MEMORY_BYTES / 2, 0], abs=2 * PACKET_BYTES)
    dropped = network.ports().dropped_packets[ports]
    # The new queue grows as fast as the old one drains: they meet at a third after 320 us.
    network.advance(300e-6)
    assert np.array_equal(network.ports().dropped_packets[ports] > dropped, [True, False])
    network.advance(1e-3)
    assert network.ports().queue_bytes[ports] == pytest.approx([MEMORY_BYTES / 3] * 2, abs=2 * PACKET_BYTES)


def test_every_switch_has_its_own_memory(make_network: MakeNetwork) -> None:
    """Flows in both directions fill one port of each of a dumbbell's two switches: n = 1 in both."""
    network = make_network("paced", queue=shared())
    start(network, [0, 1, 4, 5], [4, 5, 0, 1])
    network.advance(4e-3)
    core = network.topology.links_named("west<->east")
    half = np.full(2, MEMORY_BYTES / 2)
    assert network.ports().queue_bytes[core] == pytest.approx(half, abs=2 * PACKET_BYTES)


def test_a_port_takes_no_more_than_its_own_limit(make_network: MakeNetwork) -> None:
    network = make_network("paced", topology=switch(3), queue=shared(alpha=8.0, buffer_bytes=300_000))
    start(network, [1, 2], [0, 0])
    network.advance(4e-3)
    longest = network.ports().queue_max_bytes[network.topology.host_downlink[0]]
    assert longest == pytest.approx(300_000, abs=PACKET_BYTES)


def test_an_incast_loses_less_than_with_a_partition_of_the_same_memory(make_network: MakeNetwork) -> None:
    """The burst fits into half of the memory, but not into a seventeenth."""
    incast = {"kind": "incast", "senders": 16, "request_bytes": 30_000, "period_s": 0.2}
    dropped = []
    for queue in ({"buffer_bytes": MEMORY_BYTES // 17}, shared()):
        network = make_network("paced", topology=switch(17), workload=incast, queue=queue)
        network.advance(0.15)
        dropped.append(int(network.ports().dropped_packets.sum()))
        assert np.all(np.isfinite(network.flows().finish_s))
    assert dropped[0] > 100
    assert dropped[1] == 0


@pytest.mark.parametrize("transport", ["dctcp", "cubic", "bbr"])
def test_memory_that_never_runs_short_changes_nothing(make_network: MakeNetwork, transport: str) -> None:
    networks = [
        make_network(transport, seed=3, queue={"buffer_bytes": 300_000, **keys})
        for keys in ({}, {"shared_buffer_bytes": 2**40})
    ]
    for network in networks:
        network.advance(20e-3)
    first, second = networks
    assert first.ports().dropped_packets.sum() > 0 or transport == "bbr"
    assert np.array_equal(first._state.links, second._state.links)
    assert np.array_equal(first.flows().delivered_bytes, second.flows().delivered_bytes)


TOPOLOGIES = {
    "switch": switch(9),
    "fat tree": {"kind": "fat_tree", "k": 4, "link_rate_bps": 1e9, "link_delay_s": 2e-6},
    "shaper": {**switch(9), "link_model": "shaper"},
}
CHANGES = [
    {
        "link": "*",
        "interval_s": {"low": 1e-4, "high": 1e-3, "scale": "linear"},
        "factor": {"low": 0.1, "high": 2.0, "scale": "log"},
    }
]


@settings(max_examples=40, deadline=None)
@given(
    transport=st.sampled_from(["cubic", "dctcp", "paced"]),
    seed=st.integers(0, 2**31 - 1),
    topology=st.sampled_from(sorted(TOPOLOGIES)),
    alpha=st.floats(0.01, 1024.0),
    memory_packets=st.integers(1, 200),
    rates_change=st.booleans(),
)
def test_queues_never_hold_more_than_the_memory(
    transport: str, seed: int, topology: str, alpha: float, memory_packets: int, rates_change: bool
) -> None:
    memory_bytes = PACKET_BYTES * memory_packets
    scenario = load_scenario(
        "dumbbell-10g",
        overrides={
            "topology": TOPOLOGIES[topology],
            "workload": {"kind": "incast", "senders": 8, "request_bytes": 60_001, "period_s": 1e-3,
                         "receiver": "drawn"},
            "queue": shared(memory_bytes, alpha),
            "transport.min_rto_s": 1e-3,
            "faults.rate_changes": CHANGES if rates_change else [],
        },
        expect=CongestionScenario,
    )  # fmt: skip
    network = PacketNetwork(scenario, transport=transport)
    network.reset(seed)
    # A queue is a time in whole ns: every packet is rounded, by at most half a ns.
    rounding_bytes = (memory_bytes / 20 + 10) * 0.5e-9 * 2 * RATE_BPS / 8
    for _ in range(200):
        network.advance(2e-5)
        held = held_bytes(network)
        assert held.max() <= memory_bytes + rounding_bytes
        assert np.all(held <= network._state.memories["bound_bytes"] + rounding_bytes)


def test_the_same_seed_gives_the_same_and_a_copy_goes_on_alike(make_network: MakeNetwork) -> None:
    incast = {"kind": "incast", "senders": 16, "request_bytes": 90_000, "period_s": 2e-3}
    first, second = (
        make_network("cubic", seed=5, topology=switch(17), workload=incast, queue=shared(300_000))
        for _ in range(2)
    )
    first.advance(5e-3)
    second.advance(5e-3)
    third = copy.deepcopy(first)
    for network in (first, second, third):
        network.advance(5e-3)
    assert first.ports().dropped_packets.sum() > 0
    for other in (second, third):
        assert np.array_equal(first._state.links, other._state.links)
        assert np.array_equal(first._state.memories, other._state.memories)


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ({"buffer_bytes": 100_000, "shared_buffer_alpha": 2.0}, "shared_buffer_bytes beside it"),
        ({"buffer_bytes": 100_000, "shared_buffer_bytes": 90_000}, "at most shared_buffer_bytes = 90000"),
        (shared(alpha=0.0), "shared_buffer_alpha"),
        (shared(pfc_pause_bytes=100_000), "no such key with shared_buffer_bytes"),
        (shared(ecn_threshold_bytes=700_000), "at most 600000: with shared_buffer_alpha = 1, a port"),
        (
            shared(alpha=0.5, discipline="red", red_min_bytes=100_000, red_max_bytes=500_000),
            "at most 400000: with shared_buffer_alpha = 0.5",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    make_network: MakeNetwork, queue: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        make_network(queue=queue)
