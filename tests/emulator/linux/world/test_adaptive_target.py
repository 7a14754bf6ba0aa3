"""The law `adaptive_target` on the kernel: its target, its constants, its neighbours, and losses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sysgym.emulator.packets.transports.searched import neural
from sysgym.emulator.packets.transports.searched.adaptive_target import CONSTANTS, N_PARAMETERS
from sysgym.scenarios.errors import SysgymError

from .conftest import SLOW_DUMBBELL, MakeWorld
from .test_neural import measure
from .test_world import DELIVERED, PAYLOAD_SHARE, RATE_BPS, ports_of, rates_bps, run

pytestmark = pytest.mark.linux

LAW = "adaptive_target"
UNMARKED = SLOW_DUMBBELL | {"queue.ecn_threshold_bytes": 60_000}


def constants(**values: float) -> dict[str, list[float]]:
    """The law's constants, some of them others than usual."""
    return {LAW: [values.get(constant.name, constant.value) for constant in CONSTANTS]}


def test_two_worlds_have_targets_of_their_own(make_world: MakeWorld) -> None:
    """The kernel's queue is about the target, and no packet is marked."""
    measured = []
    for target in (2.0, 12.0):
        own = constants(target=target, target_of_small=4.0)
        measured.append(measure(make_world(transport=LAW, parameters=own, overrides=UNMARKED)))
    for goodput_bps, marks, _ in measured:
        assert goodput_bps > 0.9 * RATE_BPS * PAYLOAD_SHARE
        assert marks == 0
    short, long = (queue_bytes / 1500 for _, _, queue_bytes in measured)
    assert 2.0 < short < 8.0
    assert 10.0 < long < 20.0


def test_marks_reduce_the_window(make_world: MakeWorld) -> None:
    """With a target above the threshold of ten packets, marks alone keep the queue there."""
    heeding, ignoring = (
        measure(
            make_world(
                transport=LAW, parameters=constants(target=24.0, marks_memory=0.002, mark_decrease=share)
            )
        )
        for share in (0.5, 0.01)
    )
    assert heeding[0] > 0.9 * RATE_BPS * PAYLOAD_SHARE
    assert 0 < heeding[1] < 0.7 * ignoring[1]
    assert heeding[2] < 0.8 * ignoring[2]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((), f"expected {N_PARAMETERS} parameters, got 0"),
        ([1.0] * (N_PARAMETERS + 1), f"got {N_PARAMETERS + 1}"),
        ([1.0] * (N_PARAMETERS - 1) + [9000.0], "below 8192"),
    ],
)
def test_other_parameters_are_refused(make_world: MakeWorld, parameters: list[float], message: str) -> None:
    with pytest.raises(SysgymError, match=message):
        make_world(transport=LAW, parameters={LAW: parameters})


def test_two_laws_with_parameters_share_a_world(make_world: MakeWorld) -> None:
    world = make_world(
        transport=LAW,
        flow_transports={1: neural.NAME},
        parameters=constants(patience=1.3, patience_again=1.3) | {neural.NAME: [0.0] * neural.N_PARAMETERS},
    )
    world.reset(1)
    run(world, 0.5)
    goodput_bps = rates_bps(world, 2.0, DELIVERED)
    assert goodput_bps.sum() > 0.9 * RATE_BPS * PAYLOAD_SHARE
    assert np.all(goodput_bps[:2] > 0.1 * RATE_BPS)


def test_beside_a_law_with_a_long_queue(make_world: MakeWorld) -> None:
    """CUBIC fills the buffer. Who notices that decreases are in vain has a share, others little.

    In every third episode the port has no room for the flow's retransmissions, and it is locked out however
    soon it would notice. So one of a few episodes must show the share.
    """

    def shares(patience: float, n_episodes: int) -> Iterator[float]:
        own = constants(patience=patience, patience_again=min(patience, 8.0))
        world = make_world(transport=LAW, flow_transports={1: "cubic"}, parameters=own, overrides=UNMARKED)
        for seed in range(n_episodes):
            world.reset(seed)
            run(world, 1.0)
            goodput_bps = rates_bps(world, 3.0, DELIVERED)
            yield goodput_bps[0] / goodput_bps.sum()

    assert any(share > 0.3 for share in shares(1.3, n_episodes=6))
    assert all(share < 0.2 for share in shares(16.0, n_episodes=2))


def test_a_time_out_begins_again_with_one_packet(make_world: MakeWorld) -> None:
    """A buffer of three packets for two flows that start with many: they lose whole windows, and go on."""
    world = make_world(
        transport=LAW,
        parameters=constants(),
        overrides=SLOW_DUMBBELL | {"queue.buffer_bytes": 4_500, "queue.ecn_threshold_bytes": 4_500},
    )
    world.reset(1)
    run(world, 1.5)
    assert ports_of(world).dropped_packets.sum() > 0
    assert rates_bps(world, 1.0, DELIVERED).sum() > 0.5 * RATE_BPS
