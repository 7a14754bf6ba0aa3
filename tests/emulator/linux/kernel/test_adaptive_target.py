"""Decisions of the kernel's law `adaptive_target`, compiled for user space, beside the simulator's."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sysgym.emulator.packets.transports.searched import adaptive_target as law
from sysgym.emulator.packets.transports.searched import other_laws, rounds

from . import company
from .company import LEVEL_ONE, MOST_PACKETS, ONE, Seen, constants_of, simulator_in_python
from .user_space import compiled_for_user_space

MOST_QUEUE = 2.0**24

SOURCE = """
#include "decisions/adaptive_target.h"
void start(struct law *law, unsigned int packets) { law_start(law, packets); }
void end_round(const struct constants *constants, struct law *law, const struct seen *seen)
{
	law_end_round(constants, law, seen);
}
void lose(const struct constants *constants, struct law *law) { law_lose(constants, law); }
"""


class Law(ctypes.Structure):
    """``struct law``."""

    _fields_ = [
        ("packets", ctypes.c_uint32),
        ("ssthresh", ctypes.c_uint32),
        ("growth", ctypes.c_uint32),
        ("company", company.Company),
    ]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled_for_user_space(SOURCE, tmp_path_factory.mktemp("adaptive_target"))


@pytest.fixture(scope="module", autouse=True)
def uncompiled_simulator() -> Iterator[None]:
    with simulator_in_python(law):
        yield


def test_constants_have_the_order_of_the_simulators() -> None:
    assert constants_of("adaptive_target.h") == [constant.name for constant in law.CONSTANTS]


def draw_law(rng: np.random.Generator) -> Law:
    """A connection's memory in the middle of its life."""
    packets = company.draw_packets(rng)
    return Law(
        packets=round(packets * ONE),
        ssthresh=min(round(packets * 2.0 ** rng.uniform(-2.0, 4.0) * ONE), 2**32 - 1),
        growth=round(ONE),
        company=company.draw_company(packets, rng),
    )


def flow_of(memory: Law, line_ns: int, base_ns: int) -> Any:
    """A flow of the simulator with the same memory."""
    flow = company.flow_of(memory, line_ns, base_ns)
    flow.ssthresh = memory.ssthresh / ONE
    flow.state[law.CALM_FOR] = memory.company.counted
    flow.state[law.PER_ROUND] = memory.growth / ONE
    return flow


def assert_alike(memory: Law, flow: Any) -> None:
    company.assert_alike(memory, flow)
    assert memory.ssthresh / ONE == pytest.approx(flow.ssthresh, rel=2e-3, abs=3 / ONE)
    assert memory.growth / ONE == pytest.approx(flow.state[law.PER_ROUND], rel=2e-3, abs=3 / ONE)
    assert memory.company.counted == flow.state[law.CALM_FOR]


@settings(deadline=None, max_examples=500)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_round_ends_as_the_simulators_does(compiled: ctypes.CDLL, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fixed, constants = company.draw_constants(law.CONSTANTS, rng)
    memory = draw_law(rng)
    line_ns, base_ns = (round(2.0 ** rng.uniform(*bounds)) for bounds in ((5.0, 23.5), (13.0, 27.0)))
    flow = flow_of(memory, line_ns, base_ns)
    target = law.least_target(flow, constants) * 2.0 ** flow.state[other_laws.STRETCH]
    delay_ns = round(target * line_ns * 2.0 ** rng.uniform(-6.0, 6.0))
    least_ns = round(delay_ns * rng.uniform())
    assume(delay_ns < 2**32 and target < MOST_QUEUE and max(delay_ns, base_ns) / line_ns < MOST_QUEUE)
    memory.company.queue_before_ns = min(round(delay_ns * 2.0 ** rng.uniform(-1.0, 1.0)), 2**32 - 1)
    flow.state[other_laws.QUEUE_BEFORE] = memory.company.queue_before_ns / line_ns
    # Where two numbers are equal, one packet more decides; the last steps of a fixed-point number do not.
    for one, other in (
        (delay_ns, target * line_ns),
        (delay_ns, law.CALM * target * line_ns),
        (least_ns, target * line_ns),
        (delay_ns, other_laws.FOLLOWS * memory.company.queue_before_ns),
    ):
        assume(abs(one - other) > 2e-3 * other + 1.0)
    seen = Seen(
        mean_rtt_ns=base_ns + delay_ns, least_rtt_ns=base_ns + least_ns, base_rtt_ns=base_ns, line_ns=line_ns
    )
    company.see(flow, seen, rng)
    law.end_round(flow, constants)
    undone = constants[law.UNDO] * flow.state[other_laws.WINDOW_BELOW]
    assume(undone < MOST_PACKETS)
    compiled.end_round(fixed, ctypes.byref(memory), ctypes.byref(seen))
    assert_alike(memory, flow)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_loss_matters_as_much_as_on_the_simulator(compiled: ctypes.CDLL, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fixed, constants = company.draw_constants(law.CONSTANTS, rng)
    memory = draw_law(rng)
    flow = flow_of(memory, 1000, 100_000)
    compiled.lose(fixed, ctypes.byref(memory))
    law.on_loss(flow, constants)
    assume(flow.state[rounds.WINDOW] > rounds.LEAST_WINDOW)
    flow.state[other_laws.RESTS] = min(np.ceil(flow.state[other_laws.RESTS]), 255)
    assert_alike(memory, flow)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    times=st.tuples(*[st.integers(0, 2**34)] * 3),
    line_ns=st.sampled_from([0, 1, 30, 1200, 12_000_000, 2**32 - 1]),
    delivered=st.integers(0, 2**32 - 1),
    share=st.integers(0, 2**16),
)
def test_nothing_overflows(
    compiled: ctypes.CDLL, seed: int, times: tuple[int, int, int], line_ns: int, delivered: int, share: int
) -> None:
    """Whatever a kernel measures: the window grows only when it is restored, and sums have their bounds."""
    rng = np.random.default_rng(seed)
    fixed, _ = company.draw_constants(law.CONSTANTS, rng)
    memory, before = draw_law(rng), Law()
    ctypes.memmove(ctypes.byref(before), ctypes.byref(memory), ctypes.sizeof(Law))
    seen = Seen(*sorted(times, reverse=True), line_ns, delivered, share, 0)
    compiled.end_round(fixed, ctypes.byref(memory), ctypes.byref(seen))
    assert memory.packets <= max(before.packets, 1.5 * before.company.window_below)
    assert memory.packets >= before.packets * (1.0 - fixed[law.MARK_DECREASE] / ONE) * 0.25 - 2
    assert memory.company.stretch <= other_laws.MOST_STRETCH * ONE
    assert memory.company.level <= LEVEL_ONE + 1
    assert memory.growth <= max(136.0 * ONE, before.packets, memory.packets)


def test_averages_of_marks_reach_their_ends(compiled: ctypes.CDLL) -> None:
    memory = Law()
    compiled.start(ctypes.byref(memory), 10 << 16)
    fixed = (ctypes.c_int32 * law.N_PARAMETERS)(*(round(constant.value * ONE) for constant in law.CONSTANTS))
    for share, expected in ((1.0, 1.0), (0.0, 0.0)):
        seen = Seen(200_000, 150_000, 100_000, 1200, 1000, round(share * ONE), 0)
        for _ in range(400):
            compiled.end_round(fixed, ctypes.byref(memory), ctypes.byref(seen))
        assert memory.company.alpha / ONE == pytest.approx(expected, abs=3e-4)
        assert memory.company.marks / ONE == pytest.approx(expected, abs=3e-4)
