"""Random early detection of a scenario, on ports of switches only."""

from __future__ import annotations

import numpy as np
import pytest

from .conftest import SLOW_DUMBBELL, MakeWorld
from .test_world import DELIVERED, PAYLOAD_SHARE, RATE_BPS, core, ports_of, rates_bps, run

pytestmark = pytest.mark.linux

RED = {
    **SLOW_DUMBBELL,
    "queue.buffer_bytes": 120_000,
    "queue.ecn_threshold_bytes": None,
    "queue.discipline": "red",
    "queue.red_min_bytes": 15_000,
    "queue.red_max_bytes": 45_000,
    "queue.red_weight": 0.02,
    "queue.red_max_probability": 0.3,
}


@pytest.mark.parametrize(("transport", "action"), [("dctcp", "mark"), ("reno", "drop")])
def test_queue_stays_between_the_thresholds(make_world: MakeWorld, transport: str, action: str) -> None:
    world = make_world(transport=transport, overrides={**RED, "queue.red_action": action})
    world.reset(1)
    run(world, 0.5)
    before, begun_s = ports_of(world), world.readings()["now_s"]
    goodput_bps = rates_bps(world, 1.0, DELIVERED).sum()
    after, ended_s = ports_of(world), world.readings()["now_s"]
    bottleneck = core(world)
    mean_bytes = (after.queue_byte_s - before.queue_byte_s)[bottleneck] / (ended_s - begun_s)
    assert goodput_bps > 0.85 * RATE_BPS * PAYLOAD_SHARE
    assert 5_000 < mean_bytes < 45_000
    n_marked = (after.marked_packets - before.marked_packets)[bottleneck]
    n_dropped = (after.dropped_packets - before.dropped_packets)[bottleneck]
    assert (n_marked > 0, n_dropped > 0) == (action == "mark", action == "drop")
    hosts = world.topology.from_host
    early = world._laws.programs.ports()["red_max_bytes"][world._ports]
    assert np.array_equal(early > 0, ~hosts)


def test_bundles_are_no_longer_than_the_lower_threshold(make_world: MakeWorld) -> None:
    fast = {**RED, "topology.link_rate_bps": 1e9, "queue.red_min_bytes": 3000, "queue.buffer_bytes": 10**6}
    assert make_world(overrides=fast).bundle_packets == 2
