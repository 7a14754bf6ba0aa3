"""Simulated time up to its end, 2.4 hours: the events keep their order."""

from __future__ import annotations

import itertools

from sysgym.emulator.packets.engine.events import MAX_SOURCES, MAX_TIME_NS, NO_EVENT, SOURCE_BITS
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.scenarios import CongestionScenario, load_scenario


def test_no_event_comes_after_every_event() -> None:
    # A time of 4398 s and its source were once beyond what stood there, and the events lost their order.
    assert int(NO_EVENT) >= (MAX_TIME_NS << SOURCE_BITS) | (MAX_SOURCES - 1)


def test_a_network_goes_on_to_the_longest_episode() -> None:
    scenario = load_scenario(
        "aurora-links",
        expect=CongestionScenario,
        overrides={
            "topology.link_rate_bps": 2e5,
            "topology.core_rate_bps": 1e5,
            "topology.link_delay_s": 0.5,
            "faults.loss_probability": 0.02,
        },
    )
    network = PacketNetwork(scenario, transport="reno")
    hops = [0]
    for _ in range(7):
        network.advance(1000.0)
        hops.append(network.packet_hops)
    steps = [after - before for before, after in itertools.pairwise(hops)]
    assert min(steps) > 0.5 * max(steps)
