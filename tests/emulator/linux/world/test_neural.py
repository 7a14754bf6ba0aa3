"""The law `neural` on the kernel: without a network it is DCTCP, with one it does what that says."""

from __future__ import annotations

from typing import Any

import pytest

from sysgym.emulator.linux.programs import FLOW_SLOTS, NETWORKS, PORT_SLOTS
from sysgym.emulator.linux.world import PORTS_A_SESSION, SLOTS_A_SESSION
from sysgym.emulator.linux.worlds import MAX_SESSIONS
from sysgym.emulator.packets.transports.neural import N_PARAMETERS, OUTPUT_BIAS
from sysgym.scenarios.errors import SysgymError

from .conftest import SLOW_DUMBBELL, MakeWorld
from .test_world import DELIVERED, PAYLOAD_SHARE, RATE_BPS, core, ports_of, rates_bps, run

pytestmark = pytest.mark.linux

THRESHOLD_BYTES = SLOW_DUMBBELL["queue.ecn_threshold_bytes"]


def measure(world: Any) -> tuple[float, int, float]:
    """Goodput of all flows, bit/s, marks and the mean queue, bytes, over a second after the start."""
    world.reset(1)
    run(world, 0.7)
    before, begun_s = ports_of(world), world.readings()["now_s"]
    goodput_bps = float(rates_bps(world, 1.0, DELIVERED).sum())
    after, ended_s = ports_of(world), world.readings()["now_s"]
    marks = int((after.marked_packets - before.marked_packets)[core(world)])
    area = (after.queue_byte_s - before.queue_byte_s)[core(world)]
    return goodput_bps, marks, float(area / (ended_s - begun_s))


def test_two_worlds_have_networks_of_their_own(make_world: MakeWorld) -> None:
    """One says nothing, which leaves DCTCP; the other takes a quarter off the window every round trip."""
    silent, cautious = [0.0] * N_PARAMETERS, [0.0] * N_PARAMETERS
    cautious[OUTPUT_BIAS] = -0.5
    worlds = [make_world(transport="neural", parameters=one) for one in (silent, cautious)]
    (goodput, marks, queue), (cautious_goodput, cautious_marks, cautious_queue) = map(measure, worlds)
    assert goodput > 0.9 * RATE_BPS * PAYLOAD_SHARE
    assert marks > 100
    assert 0.6 * THRESHOLD_BYTES < queue < 1.5 * THRESHOLD_BYTES
    assert cautious_goodput > 0.8 * RATE_BPS * PAYLOAD_SHARE
    assert cautious_marks == 0
    assert cautious_queue < 0.6 * queue


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((), f"expected {N_PARAMETERS} parameters, got 0"),
        ([0.0] * (N_PARAMETERS - 1), f"got {N_PARAMETERS - 1}"),
        ([0.0] * (N_PARAMETERS - 1) + [2000.0], "below 1024"),
        ([float("nan")] * N_PARAMETERS, "below 1024"),
    ],
)
def test_what_is_no_network_is_refused(make_world: MakeWorld, parameters: list[float], message: str) -> None:
    with pytest.raises(SysgymError, match=message):
        make_world(transport="neural", parameters=parameters)


def test_every_world_of_a_service_has_room() -> None:
    assert MAX_SESSIONS * SLOTS_A_SESSION <= FLOW_SLOTS
    assert MAX_SESSIONS * PORTS_A_SESSION <= PORT_SLOTS
    assert MAX_SESSIONS <= NETWORKS
