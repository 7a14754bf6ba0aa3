"""Drains of the kernel's laws, compiled for user space, beside the simulator's."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sysgym.emulator.packets.transports.searched import drains, rounds

from .company import in_python
from .user_space import compiled_for_user_space

SOURCE = """
#include "decisions/drains.h"
void start(struct drains *drains, unsigned long long now_us)
{
	drains_start(drains, now_us);
}
int draining(struct drains *drains, const struct round_trip *seen)
{
	return is_draining(drains, seen);
}
unsigned int drained(unsigned int packets)
{
	return drained_window(packets);
}
"""

PACKET_BYTES = 1500
SLOTS = (
    (drains.SHORT_AT_NS, 1e3),
    (drains.ACKED_AT_NS, 1e3),
    (drains.DRAIN_END_NS, 1e3),
    (drains.LEAST_BEFORE_NS, 1e3),
    (drains.JUST_DRAINED, 1.0),
)
"""Slots of the simulator, and nanoseconds in the kernel's unit."""


FIELDS = ("short_at_us", "acked_at_us", "end_us", "least_before_us", "just_drained")


class Drains(ctypes.Structure):
    """``struct drains``."""

    _fields_ = [(name, ctypes.c_uint64) for name in FIELDS]


class RoundTrip(ctypes.Structure):
    """``struct round_trip``."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("now_us", "rtt_us", "least_us", "present_us", "line_ns")]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled_for_user_space(SOURCE, tmp_path_factory.mktemp("drains"))


@pytest.fixture(scope="module", autouse=True)
def uncompiled_simulator() -> Iterator[None]:
    with in_python(drains, rounds):
        yield


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), line_us=st.sampled_from([1, 12, 120, 1200]))
def test_a_connection_drains_when_the_simulators_does(compiled: ctypes.CDLL, seed: int, line_us: int) -> None:
    """ACKs over some hundred round trips, with pauses, short queues, and round trips shorter than before."""
    rng = np.random.default_rng(seed)
    now_us, least_us, srtt_us, drained = 1_000_000, 64 * line_us, 96 * line_us, 0
    memory = Drains()
    compiled.start(ctypes.byref(memory), ctypes.c_uint64(now_us))
    flow = SimpleNamespace(
        state=np.zeros(40),
        nxt=0,
        line_rate_bps=PACKET_BYTES * 8e6 / line_us,
        packet_bytes=PACKET_BYTES,
    )
    event = SimpleNamespace(path_measured=1, now_ns=now_us * 1000)
    drains.count_from_now(flow, event)
    for _ in range(400):
        queue_us = int(
            rng.integers(1, 64) * line_us if rng.random() < 0.995 else rng.integers(-8, 2) * line_us
        )
        rtt_us = least_us + queue_us
        least_us = min(least_us, rtt_us)
        srtt_us += (rtt_us - srtt_us) // 8
        now_us += int(rng.integers(1, rtt_us)) * (100 if rng.random() < 0.01 else 1)
        sampled = int(rng.random() < 0.9)
        event.now_ns, event.rtt_ns, event.rtt_sampled = now_us * 1000, rtt_us * 1000, sampled
        present_us = max(srtt_us, least_us)
        flow.base_rtt_ns, flow.srtt_ns = least_us * 1000, present_us * 1000.0
        seen = RoundTrip(now_us, rtt_us * sampled, least_us, present_us, line_us * 1000)
        expected = drains.is_draining(flow, event)
        assert bool(compiled.draining(ctypes.byref(memory), ctypes.byref(seen))) == expected
        remembered = [float(getattr(memory, name)) for name in FIELDS]
        assert remembered == pytest.approx([flow.state[slot] / unit for slot, unit in SLOTS], abs=1.0)
        drained += expected
    assume(drained)


@given(packets=st.floats(0.01, 65_000.0))
def test_as_little_is_in_flight_as_on_the_simulator(compiled: ctypes.CDLL, packets: float) -> None:
    flow = SimpleNamespace(state=np.zeros(40))
    flow.state[rounds.WINDOW] = packets
    drained = compiled.drained(ctypes.c_uint32(round(packets * 2.0**16))) & 0xFFFFFFFF
    assert drained / 2.0**16 == pytest.approx(drains.drained_window(flow), abs=2e-4)
