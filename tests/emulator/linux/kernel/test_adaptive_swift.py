"""Decisions of the kernel's law `adaptive_swift`, compiled for user space, beside the simulator's."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sysgym.emulator.packets.transports.searched import adaptive_swift as law
from sysgym.emulator.packets.transports.searched import drains, mark_threshold, other_laws, rounds

from . import company
from .company import LEVEL_ONE, MOST_PACKETS, ONE, PACKET_BYTES, Seen, constants_of, simulator_in_python
from .user_space import compiled_for_user_space

MOST_QUEUE = 2.0**24
HALVES = 2.0  # of a packet, in which the shortest marked queue is kept
MOST_MARKED_QUEUE = 4095.5

SOURCE = """
#include "decisions/adaptive_swift.h"
#include "decisions/rtt_change.h"
unsigned long long rtt_change(unsigned long long average_ns, unsigned int before_us, unsigned int rtt_us)
{
	return rtt_change_after(average_ns, before_us, rtt_us);
}
unsigned int grow(const struct constants *constants, struct law *law, const struct told *told, int acked)
{
	return law_grow(constants, law, told, acked);
}
int follow(const struct constants *constants, struct law *law, const struct told *told)
{
	return law_follow(constants, law, told);
}
void end_round(const struct constants *constants, struct law *law, const struct seen *seen)
{
	law_end_round(constants, law, seen);
}
unsigned int together(void)
{
	return TOGETHER;
}
void lose(const struct constants *constants, struct law *law, unsigned int now_us)
{
	law_lose(constants, law, now_us);
}
void time_out(const struct constants *constants, struct law *law)
{
	law_time_out(constants, law);
}
unsigned int pace(const struct constants *constants, const struct law *law, fixed path)
{
	return law_pace(constants, law, path);
}
void start(const struct constants *constants, struct law *law, unsigned int packets, unsigned int now_us)
{
	law_start(constants, law, packets, now_us);
}
"""


class Law(ctypes.Structure):
    """``struct law``."""

    _fields_ = [
        ("packets", ctypes.c_uint32),
        ("gain", ctypes.c_uint32, 18),
        ("marked_queue", ctypes.c_uint32, 13),
        ("by_marks", ctypes.c_uint32, 1),
        ("decreased_at_us", ctypes.c_uint32),
        ("company", company.Company),
    ]


class Told(ctypes.Structure):
    """``struct told``."""

    _fields_ = [
        ("rtt_ns", ctypes.c_uint64),
        ("base_rtt_ns", ctypes.c_uint64),
        ("rtt_change_ns", ctypes.c_uint64),
        ("present_rtt_us", ctypes.c_uint32),
        ("now_us", ctypes.c_uint32),
        ("line_ns", ctypes.c_uint32),
        ("marked", ctypes.c_uint32),
    ]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = compiled_for_user_space(SOURCE, tmp_path_factory.mktemp("adaptive_swift"))
    library.rtt_change.argtypes = [ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32]
    library.rtt_change.restype = ctypes.c_uint64
    return library


@pytest.fixture(scope="module", autouse=True)
def uncompiled_simulator() -> Iterator[None]:
    with simulator_in_python(law):
        yield


def test_constants_have_the_order_of_the_simulators() -> None:
    assert constants_of("adaptive_swift.h") == [constant.name for constant in law.CONSTANTS]


def draw_law(rng: np.random.Generator) -> Law:
    """A connection's memory in the middle of its life."""
    packets = company.draw_packets(rng)
    memory = Law(
        packets=round(packets * ONE),
        gain=rng.integers(4) and round(2.0 ** rng.uniform(np.log2(law.LEAST_GAIN) + 0.01, 1.0) * ONE),
        marked_queue=rng.integers(2) and round(2.0 ** rng.uniform(0.0, 13.0)) - 1,
        by_marks=rng.integers(2),
        company=company.draw_company(packets, rng),
    )
    if rng.integers(2):  # so few marks that some delay counts as noise
        memory.company.marks = int(rng.integers(round(law.MARKS_SHOWN * ONE)))
    memory.company.counted = rng.integers(int(law.ROUNDS_IN_VAIN) + 2)
    memory.company.counted_apart = rng.integers(int(law.ROUNDS_AT_THRESHOLD) + 2)
    return memory


def flow_of(memory: Law, line_ns: int, base_ns: int) -> Any:
    """A flow of the simulator with the same memory."""
    flow = company.flow_of(memory, line_ns, base_ns)
    flow.state[other_laws.IN_VAIN] = memory.company.counted
    flow.state[law.IN_VAIN_AT_THRESHOLD] = memory.company.counted_apart
    flow.state[law.GAIN] = memory.gain / ONE
    flow.state[mark_threshold.MARKED_QUEUE] = memory.marked_queue / HALVES
    flow.state[law.BY_MARKS] = memory.by_marks
    return flow


def draw_change_ns(flow: Any, rng: np.random.Generator) -> int:
    """Average change of a flow's round trip from a sample to the next; 0 in half of the draws."""
    change_ns: int = int(rng.integers(2)) * round(flow.base_rtt_ns * 2.0 ** rng.uniform(-8.0, 1.0))
    flow.state[rounds.RTT_CHANGE_NS] = change_ns
    return change_ns


def at_the_end_of_the_round(flow: Any, constants: list[float]) -> tuple[float, float, float]:
    """Target, its addition for noise, and how far marks leave that, after the round's marks are averaged."""
    before = flow.state.copy()
    other_laws.factor_of_marks(flow, 0.0, constants[law.MARKS_MEMORY], law.MARKS_IGNORED)
    unmarked = 1.0 - flow.state[other_laws.MARKS] / law.MARKS_SHOWN
    targets = law.present_target(flow, constants), law.target_of_noise(flow, constants)
    flow.state[:] = before
    return *targets, unmarked


def assert_alike(memory: Law, flow: Any) -> None:
    company.assert_alike(memory, flow)
    assert memory.gain / ONE == pytest.approx(flow.state[law.GAIN], rel=2e-3, abs=3 / ONE)
    assert memory.company.counted == flow.state[other_laws.IN_VAIN]
    assert memory.company.counted_apart == flow.state[law.IN_VAIN_AT_THRESHOLD]
    assert memory.marked_queue / HALVES == pytest.approx(
        flow.state[mark_threshold.MARKED_QUEUE], abs=1.0 / HALVES
    )
    assert memory.by_marks == flow.state[law.BY_MARKS]


class Event(list[float]):
    """Constants, and what an ACK tells."""

    acked_packets: int
    duplicate = 0
    in_flight_packets = 0
    marked = 0
    window_limited = 1
    now_ns: int
    rtt_ns: int
    rtt_sampled: int


@settings(deadline=None, max_examples=500)
@given(seed=st.integers(0, 2**32 - 1))
def test_an_ack_is_answered_as_on_the_simulator(compiled: ctypes.CDLL, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fixed, constants = company.draw_constants(law.CONSTANTS, rng)
    memory = draw_law(rng)
    line_ns, base_us = (round(2.0 ** rng.uniform(*bounds)) for bounds in ((5.0, 23.5), (3.0, 17.0)))
    flow = flow_of(memory, line_ns, base_us * 1000)
    flow.in_recovery = 0
    change_ns = draw_change_ns(flow, rng)
    target = law.present_target(flow, constants)
    delay_ns = round(target * line_ns * 2.0 ** rng.uniform(-6.0, 6.0))
    assume(delay_ns < 2**32 and max(target, max(delay_ns, base_us * 1000) / line_ns) < MOST_QUEUE)
    assume(abs(delay_ns - target * line_ns) > 2e-3 * target * line_ns + 1.0)
    now_us = int(rng.integers(2**31))
    memory.decreased_at_us = now_us - round(base_us * 2.0 ** rng.uniform(-2.0, 2.0)) % 2**32
    since_us = now_us - memory.decreased_at_us if memory.decreased_at_us <= now_us else now_us + 2**32
    flow.state[law.DECREASED_AT_NS] = (now_us - since_us) * 1000.0
    event = Event(constants)
    event.acked_packets = int(rng.integers(1, 40))
    event.rtt_sampled, event.marked = int(rng.integers(8) > 0), int(rng.integers(2))
    assume(not event.marked or delay_ns < MOST_MARKED_QUEUE * line_ns)
    event.now_ns, event.rtt_ns = now_us * 1000, (base_us * 1000 + delay_ns) * event.rtt_sampled
    told = Told(event.rtt_ns, base_us * 1000, change_ns, base_us, now_us, line_ns, event.marked)
    law.answer(flow, event)
    assume(flow.state[rounds.WINDOW] < MOST_PACKETS)
    if compiled.follow(fixed, ctypes.byref(memory), ctypes.byref(told)):
        memory.packets = compiled.grow(fixed, ctypes.byref(memory), ctypes.byref(told), event.acked_packets)
    assert_alike(memory, flow)
    assert (memory.decreased_at_us == now_us) == (flow.state[law.DECREASED_AT_NS] == event.now_ns)


@settings(deadline=None, max_examples=500)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_round_ends_as_the_simulators_does(compiled: ctypes.CDLL, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fixed, constants = company.draw_constants(law.CONSTANTS, rng)
    memory = draw_law(rng)
    line_ns, base_ns = (round(2.0 ** rng.uniform(*bounds)) for bounds in ((5.0, 23.5), (13.0, 27.0)))
    flow = flow_of(memory, line_ns, base_ns)
    change_ns = draw_change_ns(flow, rng)
    target = law.present_target(flow, constants)
    delay_ns = round(target * line_ns * 2.0 ** rng.uniform(-6.0, 6.0))
    least_ns = round(delay_ns * rng.uniform())
    assume(delay_ns < 2**32 and target < MOST_QUEUE and max(delay_ns, base_ns) / line_ns < MOST_QUEUE)
    assume(delay_ns > 0.05 * line_ns)  # queues have steps of 2^-16 packets; thousandths are compared
    before_ns = min(round(delay_ns * 2.0 ** rng.uniform(-1.0, 1.0)), 2**32 - 1)
    memory.company.queue_before_ns = before_ns
    flow.state[other_laws.QUEUE_BEFORE] = before_ns / line_ns
    seen = Seen(
        mean_rtt_ns=base_ns + delay_ns,
        least_rtt_ns=base_ns + least_ns,
        base_rtt_ns=base_ns,
        line_ns=line_ns,
        rtt_change_ns=change_ns,
        just_drained=int(rng.random() < 0.1),
    )
    company.see(flow, seen, rng)
    flow.state[drains.JUST_DRAINED] = seen.just_drained
    target, noise, unmarked = at_the_end_of_the_round(flow, constants)
    assume(not -0.01 < unmarked < 0.5)  # of a small difference thousandths are compared, too
    # Where two numbers are equal, one packet more decides; the last steps of a fixed-point number do not.
    for one, other in (
        (delay_ns, target * line_ns),
        (least_ns, target * line_ns),
        (least_ns, law.CALM_QUEUE * (target - noise) * line_ns),
        (delay_ns, other_laws.FOLLOWS * before_ns),
        (delay_ns, (law.target_at(constants, law.OWN_WINDOW) + noise) * line_ns),
        (delay_ns, mark_threshold.AT_THRESHOLD * memory.marked_queue / HALVES * line_ns),
        (delay_ns, mark_threshold.ABOVE_THRESHOLD * memory.marked_queue / HALVES * line_ns),
    ):
        assume(abs(one - other) > 2e-3 * other + 1.0)
    law.end_round(flow, constants)
    assume(flow.state[other_laws.WINDOW_BELOW] < MOST_PACKETS)
    compiled.end_round(fixed, ctypes.byref(memory), ctypes.byref(seen))
    assert_alike(memory, flow)


@pytest.mark.parametrize(("queue", "by_marks"), [(60, 1), (90, 0)])
def test_decreases_in_vain_near_the_threshold_let_marks_rule_the_window(
    compiled: ctypes.CDLL, queue: int, by_marks: int
) -> None:
    """Draws seldom meet all conditions of the change."""
    line_ns, base_ns = 1200, 60_000
    fixed = (ctypes.c_int32 * law.N_PARAMETERS)(*(round(one.value * ONE) for one in law.CONSTANTS))
    constants = [one.value for one in law.CONSTANTS]
    memory = Law(packets=round(8 * ONE), marked_queue=120)
    memory.company.window_below, memory.company.marks = round(100 * ONE), 2**15
    memory.company.counted = int(law.ROUNDS_IN_VAIN)
    memory.company.counted_apart = int(law.ROUNDS_AT_THRESHOLD)
    memory.company.queue_before_ns = queue * line_ns
    flow = flow_of(memory, line_ns, base_ns)
    rtt_ns = base_ns + queue * line_ns
    seen = Seen(mean_rtt_ns=rtt_ns, least_rtt_ns=rtt_ns, base_rtt_ns=base_ns, line_ns=line_ns)
    company.see(flow, seen, np.random.default_rng(0))
    if not by_marks:  # the other way to notice others needs larger decreases
        memory.packets = round(4 * ONE)
        flow.state[rounds.WINDOW] = 4.0
    law.end_round(flow, constants)
    compiled.end_round(fixed, ctypes.byref(memory), ctypes.byref(seen))
    assert_alike(memory, flow)
    assert memory.by_marks == by_marks
    assert (memory.company.stretch > 0) == (not by_marks)


@given(samples_us=st.lists(st.integers(1, 2**26), min_size=1, max_size=50))
def test_changes_of_the_round_trip_are_averaged_as_on_the_simulator(
    compiled: ctypes.CDLL, samples_us: list[int]
) -> None:
    flow, event, before_us, average_ns = flow_of(Law(), 1000, 1000), Event(), 0, 0
    for rtt_us in samples_us:
        event.rtt_ns = 1000 * rtt_us
        rounds.note_rtt_change(flow, event)
        average_ns = compiled.rtt_change(average_ns, before_us, rtt_us)
        before_us = rtt_us
    assert average_ns == pytest.approx(flow.state[rounds.RTT_CHANGE_NS], abs=16.0)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_loss_matters_as_much_as_on_the_simulator(compiled: ctypes.CDLL, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fixed, constants = company.draw_constants(law.CONSTANTS, rng)
    memory = draw_law(rng)
    flow = flow_of(memory, 1000, 100_000)
    event = Event(constants)
    event.now_ns = 5_000
    compiled.lose(fixed, ctypes.byref(memory), 5)
    law.on_loss(flow, event)
    assume(flow.state[rounds.WINDOW] > rounds.LEAST_WINDOW)
    assert_alike(memory, flow)
    assert memory.decreased_at_us == 5


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_it_starts_and_starts_again_as_on_the_simulator(compiled: ctypes.CDLL, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fixed, constants = company.draw_constants(law.CONSTANTS, rng)
    first, event = Law(), Event(constants)
    event.now_ns = 5_000
    compiled.start(fixed, ctypes.byref(first), 10 << 16, 5)
    assert first.packets == 10 << 16
    assert first.gain / ONE == constants[law.START_GROWTH]
    again = draw_law(rng)
    flow = flow_of(again, 1000, 100_000)
    compiled.time_out(fixed, ctypes.byref(again))
    law.on_timeout(flow, event)
    assert_alike(again, flow)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_windows_are_paced_as_on_the_simulator(compiled: ctypes.CDLL, seed: int) -> None:
    """The least rate of the start is a pace here: what an eighth of the line carries in the round trip."""
    rng = np.random.default_rng(seed)
    fixed, constants = company.draw_constants(law.CONSTANTS, rng)
    memory = draw_law(rng)
    memory.packets = round(max(memory.packets / ONE, law.TOGETHER) * ONE)
    line_ns, rtt_ns = (round(2.0 ** rng.uniform(*bounds)) for bounds in ((5.0, 23.5), (13.0, 27.0)))
    flow = flow_of(memory, line_ns, rtt_ns)
    path = rtt_ns / line_ns
    assume(path < MOST_QUEUE)
    law.set_window(flow, Event(constants), memory.packets / ONE, float(rtt_ns))
    windows_a_round = compiled.pace(fixed, ctypes.byref(memory), ctypes.c_longlong(round(path * ONE)))
    window_bps = memory.packets / ONE * PACKET_BYTES * 8e9 / rtt_ns
    expected = min(flow.pacing_rate_bps / window_bps, 2.0**16)  # it has 32 bits
    assert (windows_a_round & 0xFFFFFFFF) / ONE == pytest.approx(expected, rel=1e-2)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    times=st.tuples(*[st.integers(0, 2**34)] * 3),
    line_ns=st.sampled_from([0, 1, 30, 1200, 12_000_000, 2**32 - 1]),
    acked=st.integers(0, 2**32 - 1),
    share=st.integers(0, 2**16),
)
def test_nothing_overflows(
    compiled: ctypes.CDLL, seed: int, times: tuple[int, int, int], line_ns: int, acked: int, share: int
) -> None:
    """Whatever a kernel measures: the window grows only by its growth or when it is restored."""
    rng = np.random.default_rng(seed)
    fixed, _ = company.draw_constants(law.CONSTANTS, rng)
    memory, before = draw_law(rng), Law()
    ctypes.memmove(ctypes.byref(before), ctypes.byref(memory), ctypes.sizeof(Law))
    most, middle, least = sorted(times, reverse=True)
    told = Told(most, least, middle, int(rng.integers(2**26)), int(rng.integers(2**32)), line_ns, share & 1)
    may_grow = compiled.follow(fixed, ctypes.byref(memory), ctypes.byref(told))
    assert memory.packets <= before.packets
    decrease = law.MARKED_DECREASE if before.by_marks else fixed[law.MOST_DECREASE] / ONE
    assert memory.packets >= before.packets * (1.0 - decrease) - 2
    grown = compiled.grow(fixed, ctypes.byref(memory), ctypes.byref(told), acked) & 0xFFFFFFFF
    assert grown >= memory.packets or not may_grow
    seen = Seen(most, middle, least, line_ns, acked, share, 0, most)
    compiled.end_round(fixed, ctypes.byref(memory), ctypes.byref(seen))
    assert memory.packets <= max(before.packets, before.company.window_below)
    assert memory.company.stretch <= other_laws.MOST_STRETCH * ONE
    assert memory.company.level <= LEVEL_ONE + 1


def test_as_many_packets_as_on_the_simulator_are_in_flight_at_least(compiled: ctypes.CDLL) -> None:
    assert compiled.together() == law.TOGETHER


def test_it_has_the_room_of_the_other_law() -> None:
    """A connection's private memory is full (``PRIVATE_BYTES``)."""
    assert ctypes.sizeof(Law) == 32
