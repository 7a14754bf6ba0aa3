"""The law `neural` on the kernel: DCTCP without a network, and the network's corrections with one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.transports.searched.neural import (
    HIDDEN_WEIGHTS,
    INPUTS,
    N_PARAMETERS,
    OUTPUT_BIAS,
    OUTPUT_WEIGHTS,
)
from sysgym.scenarios.errors import SysgymError

from .conftest import SLOW_DUMBBELL, MakeWorld
from .test_world import DELIVERED, PAYLOAD_SHARE, RATE_BPS, core, ports_of, rates_bps, run

pytestmark = pytest.mark.linux

WINDOW_COLUMN = 9
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
    worlds = [make_world(transport="neural", parameters={"neural": one}) for one in (silent, cautious)]
    (goodput, marks, queue), (cautious_goodput, cautious_marks, cautious_queue) = map(measure, worlds)
    assert goodput > 0.9 * RATE_BPS * PAYLOAD_SHARE
    assert marks > 100
    assert 0.6 * THRESHOLD_BYTES < queue < 1.5 * THRESHOLD_BYTES
    assert cautious_goodput > 0.6 * RATE_BPS * PAYLOAD_SHARE
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
        make_world(transport="neural", parameters={"neural": parameters})


def test_a_network_sees_marks(make_world: MakeWorld) -> None:
    """Its only weight is on their share: it answers them more, and does nothing else."""
    parameters = [0.0] * N_PARAMETERS
    parameters[HIDDEN_WEIGHTS + INPUTS.index("fraction of marked packets")] = 4.0
    parameters[OUTPUT_WEIGHTS] = -1.0
    dctcp = make_world(transport="neural", parameters={"neural": [0.0] * N_PARAMETERS})
    answering = make_world(transport="neural", parameters={"neural": parameters})
    (_, marks, queue), (goodput, fewer_marks, shorter_queue) = map(measure, (dctcp, answering))
    assert goodput > 0.6 * RATE_BPS * PAYLOAD_SHARE
    assert 0 < fewer_marks < 0.8 * marks
    assert shorter_queue < 0.9 * queue


def test_a_window_that_limits_nobody_has_an_end(make_world: MakeWorld) -> None:
    """Hosts with a cap never fill their windows, which this network makes larger every round trip."""
    parameters = [0.0] * N_PARAMETERS
    parameters[OUTPUT_BIAS] = 0.1
    world = make_world(transport="neural", parameters={"neural": parameters})
    world.reset(1)
    world.apply(host_caps_bps=np.array([4e6, 4e6, np.inf, np.inf]))
    run(world, 1.5)
    windows = world.flow_counters(np.arange(2))[:, WINDOW_COLUMN]
    assert np.all(windows > 1000)


def test_a_time_out_begins_again_with_one_packet(make_world: MakeWorld) -> None:
    """A buffer of three packets for two flows that start with many: they lose whole windows, and go on."""
    world = make_world(
        transport="neural",
        parameters={"neural": [0.0] * N_PARAMETERS},
        overrides=SLOW_DUMBBELL | {"queue.buffer_bytes": 4_500, "queue.ecn_threshold_bytes": 4_500},
    )
    world.reset(1)
    run(world, 1.5)
    assert ports_of(world).dropped_packets.sum() > 0
    assert rates_bps(world, 1.0, DELIVERED).sum() > 0.5 * RATE_BPS
