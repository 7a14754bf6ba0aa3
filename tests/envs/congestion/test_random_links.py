"""Links drawn at random: what is drawn can be played, within the ranges that are said."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.packets.transports import get_transport
from sysgym.envs.congestion.random_links import (
    CROWD_PACKETS,
    CROWD_RATES_BPS,
    SHARED_PACKETS,
    SHARED_RATES_BPS,
    draw_crowd,
    draw_shared_link,
)
from sysgym.envs.congestion.random_networks import PACKET_BITS
from sysgym.envs.congestion.sharing import flow_count, measure_sharing


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_links_are_valid_and_in_their_ranges(seed: int) -> None:
    for draw, rates_bps, packets, flows in (
        (draw_crowd, CROWD_RATES_BPS, CROWD_PACKETS, (8, 256)),
        (draw_shared_link, SHARED_RATES_BPS, (SHARED_PACKETS, SHARED_PACKETS), (2, 24)),
    ):
        link = draw(np.random.default_rng(seed))
        rate_bps = link.scenario.topology.link_rate_bps
        assert rates_bps[0] <= rate_bps <= rates_bps[1]
        assert flows[0] <= flow_count(link.scenario) <= flows[1]
        assert flow_count(link.scenario) % 2 == 0
        assert packets[0] * 0.999 <= link.duration_s * rate_bps / PACKET_BITS <= packets[1] * 1.001
        queue = link.scenario.queue
        assert 0 < (queue.ecn_threshold_bytes or 0) <= queue.buffer_bytes / 2


def test_the_same_generator_draws_the_same_link() -> None:
    one, two, other = (draw_shared_link(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one.scenario.sha256() == two.scenario.sha256() != other.scenario.sha256()
    assert one.duration_s == two.duration_s


def test_links_are_used_by_long_lived_flows() -> None:
    link = draw_shared_link(np.random.default_rng(3))
    law = get_transport("dctcp")
    found = measure_sharing(link.scenario, law, law, link.duration_s, 0)
    assert found.goodput_bps > 0.8 * link.scenario.topology.link_rate_bps
