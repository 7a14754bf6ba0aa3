"""The law `adaptive_swift` on the kernel: its target, its constants, and marks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sysgym.emulator.linux.kernel.bpf_objects import run_times
from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.packets.transports.searched.adaptive_swift import CONSTANTS, N_PARAMETERS
from sysgym.scenarios.errors import SysgymError

from .conftest import SLOW_DUMBBELL, MakeWorld
from .test_neural import measure
from .test_world import PAYLOAD_SHARE, RATE_BPS, core, ports_of, run

pytestmark = pytest.mark.linux

LAW = "adaptive_swift"
UNMARKED = SLOW_DUMBBELL | {"queue.ecn_threshold_bytes": 60_000}


def constants(**values: float) -> dict[str, list[float]]:
    """The law's constants, some of them others than usual."""
    return {LAW: [values.get(constant.name, constant.value) for constant in CONSTANTS]}


def test_two_worlds_have_targets_of_their_own(make_world: MakeWorld) -> None:
    """The kernel's queue is about the target, and no packet is marked."""
    measured = []
    for target in (2.0, 12.0):
        own = constants(target=target, target_of_small=4.0, growth=1.0)
        measured.append(measure(make_world(transport=LAW, parameters=own, overrides=UNMARKED)))
    for goodput_bps, marks, _ in measured:
        assert goodput_bps > 0.9 * RATE_BPS * PAYLOAD_SHARE
        assert marks == 0
    short, long = (queue_bytes / 1500 for _, _, queue_bytes in measured)
    assert 1.5 < short < 8.0
    assert 9.0 < long < 20.0


def test_marks_count_where_the_target_is_raised_only(make_world: MakeWorld) -> None:
    """Alone its queue is above the threshold of ten packets, whatever it would do about marks."""
    queues = [
        measure(make_world(transport=LAW, parameters=constants(target=24.0, mark_decrease=share)))[2] / 1500
        for share in (1.0, 0.01)
    ]
    assert all(20.0 < queue < 45.0 for queue in queues)


@pytest.mark.parametrize("path_delay", ["known", "least_seen"])
def test_it_drains_where_hosts_measure_the_empty_path(
    make_world: MakeWorld, programs: Programs, path_delay: str
) -> None:
    """In a drain the queue of thirty packets, which the flows otherwise keep, is gone."""
    settings = UNMARKED | {"transport.path_delay": path_delay}
    programs.flow_slots()[1]["least_before_us"][:] = 0
    world = make_world(transport=LAW, parameters=constants(target=30.0), overrides=settings)
    world.reset(1)
    run(world, 0.7)
    queues = []
    for _ in range(400):
        world.advance(0.005)
        queues.append(ports_of(world).queue_bytes[core(world)] / 1500)
    drained = programs.flow_slots()[1]["least_before_us"].any()
    assert np.median(queues) > 15.0
    assert drained == (path_delay == "least_seen")
    assert (min(queues) < 5.0) == drained


def test_the_kernel_counts_the_time_of_its_program(make_world: MakeWorld) -> None:
    setting = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = setting.read_text()
    world = make_world(transport=LAW, parameters=constants())
    world.reset(1)
    try:
        setting.write_text("1")
        run(world, 0.5)
    finally:
        setting.write_text(before)
    counted = [(taken_ns, runs) for taken_ns, runs in run_times("_cong").values() if runs > 100]
    assert any(20.0 < taken_ns / runs < 1e5 for taken_ns, runs in counted)
    assert not run_times("no such program")


def test_other_parameters_are_refused(make_world: MakeWorld) -> None:
    with pytest.raises(SysgymError, match=f"expected {N_PARAMETERS} parameters, got 0"):
        make_world(transport=LAW, parameters={LAW: ()})
