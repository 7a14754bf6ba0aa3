"""One short flow on an empty network of the kernel: its ACKs, and the time between its packets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.counters.statistics import FlowTable
from sysgym.emulator.packets.workloads.schedule import make_schedule

from .conftest import SLOW_DUMBBELL
from .test_world import ports_of

MakeWorld = Callable[..., Any]

pytestmark = pytest.mark.linux

PACKETS = 200


def play_one_flow(world: Any, packets: int, seconds: float) -> None:
    schedule = make_schedule(np.random.default_rng(0), [0], [2], size_bytes=1460 * packets, start_ns=0)
    world.reset(1, schedule)
    world.advance(seconds)


@pytest.mark.parametrize(("every", "least", "most"), [(2, 100, 125), (1, 200, 210)])
def test_a_receiver_acknowledges_each_packet_or_every_second_one(
    make_world: MakeWorld, every: int, least: int, most: int
) -> None:
    """Sixteen ACKs at once, then one for two packets; also that of a connection's end."""
    overrides = {**SLOW_DUMBBELL, "queue.buffer_bytes": 600_000, "transport.delayed_ack_packets": every}
    world = make_world(transport="reno", overrides=overrides)
    play_one_flow(world, PACKETS, 0.3)
    assert np.isfinite(FlowTable(**world.flows()).finish_s[0])
    (uplink,) = world.topology.links_named("h2->east")
    assert least <= ports_of(world).accepted_packets[uplink] <= most


def test_packets_leave_a_slow_port_at_its_rate_from_the_first_one_on(make_world: MakeWorld) -> None:
    """Ten packets of 6 ms each: the tenth leaves nine times that, less a tenth of one, after the first."""
    overrides = {**SLOW_DUMBBELL, "topology.core_rate_bps": 2e6}
    world = make_world(transport="reno", overrides=overrides)
    play_one_flow(world, 10, 0.2)
    table = FlowTable(**world.flows())
    assert 53e-3 < table.finish_s[0] - table.start_s[0] < 62e-3
