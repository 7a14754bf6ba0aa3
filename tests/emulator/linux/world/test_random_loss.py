"""Random loss on every link of the kernel."""

from __future__ import annotations

import numpy as np
import pytest

from .conftest import SLOW_DUMBBELL, MakeWorld
from .test_world import ports_of, run

pytestmark = pytest.mark.linux


def test_every_port_loses_its_share(make_world: MakeWorld) -> None:
    probability = 0.05
    world = make_world(transport="paced", overrides={**SLOW_DUMBBELL, "faults.loss_probability": probability})
    world.reset(1)
    run(world, 2.0)
    ports = ports_of(world)
    offered = ports.accepted_packets + ports.dropped_packets
    busy = offered > 1_000
    assert busy.sum() >= 3
    deviation = np.sqrt(offered * probability * (1 - probability))
    lost = ports.dropped_packets
    # Full queues drop packets too, on ports of switches only; no port loses less than its share.
    assert np.all(lost[busy] > (offered * probability - 5 * deviation)[busy])
    hosts = busy & world.topology.from_host
    assert np.all(lost[hosts] < (offered * probability + 5 * deviation)[hosts])
    assert hosts.any()


def test_packets_that_may_be_lost_travel_by_themselves(make_world: MakeWorld) -> None:
    fast = {**SLOW_DUMBBELL, "topology.link_rate_bps": 1e9, "queue.buffer_bytes": 10**6}
    assert make_world(overrides=fast).bundle_packets > 1
    assert make_world(overrides={**fast, "faults.loss_probability": 1e-3}).bundle_packets == 1
