"""What an episode of two laws shows, against the counters of a network that is played by hand."""

from __future__ import annotations

import pytest

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import get_transport
from sysgym.envs.congestion.sharing import play_together
from sysgym.scenarios import CongestionScenario, load_scenario

DURATION_S = 0.04


@pytest.mark.parametrize(("law", "drops"), [("cubic", True), ("dctcp", False)])
def test_the_second_half_of_an_episode_counts(law: str, drops: bool) -> None:
    small = {"queue.buffer_bytes": 200_000}
    scenario = load_scenario("dumbbell-10g", overrides=small, expect=CongestionScenario)
    transport = get_transport(law)
    together = play_together(scenario, transport, transport, DURATION_S, 1)
    network = PacketNetwork(scenario, transport=transport)
    network.reset(1)
    network.advance(DURATION_S / 2)
    delivered, queued = network.flows().delivered_bytes.copy(), network.ports().queue_byte_s.copy()
    dropped, sent = network.ports().dropped_packets.sum(), network.hosts().sent_packets.sum()
    network.advance(DURATION_S / 2)
    bits = 8.0 * (network.flows().delivered_bytes - delivered)
    assert together.settled_bps == pytest.approx(bits / (DURATION_S / 2))
    queue_bytes = (network.ports().queue_byte_s - queued).max() / (DURATION_S / 2)
    assert together.queue_mean_bytes == pytest.approx(queue_bytes)
    dropped, sent = network.ports().dropped_packets.sum() - dropped, network.hosts().sent_packets.sum() - sent
    assert together.drop_fraction == pytest.approx(dropped / sent)
    assert (together.drop_fraction > 0.0) == drops
