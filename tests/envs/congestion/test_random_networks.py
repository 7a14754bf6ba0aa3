"""Random networks: kinds, ranges, and draws that do not depend on their number."""

from __future__ import annotations

import numpy as np

from sysgym.envs.congestion.random_networks import (
    BUFFER_PACKETS,
    KINDS,
    PACKET_BITS,
    PATH_PACKETS,
    RATES_BPS,
    RTTS_S,
    SPLIT,
    Network,
    draw_networks,
)

LINKS = {"fat_tree": 6, "leaf_spine": 4, "dumbbell": 3, "incast": 2}
PACKET_BYTES = PACKET_BITS // 8


def test_networks_are_of_all_kinds_and_within_the_ranges() -> None:
    networks = draw_networks(200, seed=3)
    assert {network.kind for network in networks} == set(KINDS)
    unmarked = []
    for network in networks:
        scenario = network.scenario
        rtt_s = 2 * LINKS[network.kind] * scenario.topology.link_delay_s
        for value, (least, most) in (
            (network.rate_bps, RATES_BPS),
            (rtt_s, RTTS_S),
            (rtt_s * network.rate_bps / PACKET_BITS, PATH_PACKETS),
        ):
            assert least * 0.999 <= value <= most * 1.001
        buffer_bytes, threshold_bytes = scenario.queue.buffer_bytes, scenario.queue.ecn_threshold_bytes
        assert buffer_bytes is not None
        assert threshold_bytes is not None
        assert BUFFER_PACKETS[0] * PACKET_BYTES - 1 <= buffer_bytes <= BUFFER_PACKETS[1] * PACKET_BYTES
        assert threshold_bytes <= buffer_bytes
        unmarked.append(threshold_bytes == buffer_bytes)
        assert scenario.draw(SPLIT, network.seed) == scenario.draw(SPLIT, network.seed)
        assert not scenario.splits[SPLIT].vary, "what was drawn is not varied again"
    assert 0.05 < np.mean(unmarked) < 0.3


def test_more_networks_leave_the_first_ones_as_they_are() -> None:
    few, many, others = draw_networks(5, seed=1), draw_networks(9, seed=1), draw_networks(5, seed=2)

    def digests(networks: list[Network]) -> list[tuple[str, int]]:
        return [(network.scenario.sha256(), network.seed) for network in networks]

    assert digests(few) == digests(many)[:5]
    assert not set(digests(few)) & set(digests(others))
