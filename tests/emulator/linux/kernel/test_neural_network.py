"""Fixed-point curves and the network of the kernel's law `neural`, compiled for user space."""

from __future__ import annotations

import ctypes
import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sysgym.emulator.linux.kernel.bpf_objects import SOURCES
from sysgym.emulator.linux.kernel.bpf_programs import FLOW_SLOTS, PORT_SLOTS
from sysgym.emulator.linux.kernel.parameters import PARAMETER_SETS
from sysgym.emulator.linux.service.worlds import MAX_SESSIONS
from sysgym.emulator.linux.world import PORTS_A_SESSION, SLOTS_A_SESSION
from sysgym.emulator.packets.transports.searched import neural, rounds

from .user_space import compiled_for_user_space

ONE = 2.0**16

SOURCE = """
#include "decisions/network.h"
long long log2_of(unsigned long long n) { return fixed_log2(n); }
long long exp2_of(long long n) { return fixed_exp2(n); }
long long tanh_of(long long n) { return fixed_tanh(n); }
void look(const struct seen *seen, int *inputs) { network_look(seen, inputs); }
void decide(const struct network *network, const int *inputs, struct decision *decision)
{
	network_decide(network, inputs, decision);
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    found = compiled_for_user_space(SOURCE, tmp_path_factory.mktemp("network"))
    found.log2_of.argtypes, found.log2_of.restype = [ctypes.c_uint64], ctypes.c_int64
    for name in ("exp2_of", "tanh_of"):
        function = getattr(found, name)
        function.argtypes, function.restype = [ctypes.c_int64], ctypes.c_int64
    return found


@settings(deadline=None)
@given(st.one_of(st.integers(1, 2**64 - 1), st.integers(0, 63).map(lambda bit: 2**bit)))
@example(1)
@example(2**64 - 1)
def test_logarithm(compiled: ctypes.CDLL, number: int) -> None:
    assert compiled.log2_of(number) / ONE == pytest.approx(math.log2(number), abs=5e-5)


def test_zero_has_the_logarithm_of_one(compiled: ctypes.CDLL) -> None:
    assert compiled.log2_of(0) == compiled.log2_of(1) == 0


@settings(deadline=None)
@given(st.floats(-12.0, 30.0))
@example(0.0)
@example(-1.0)
def test_power_of_two(compiled: ctypes.CDLL, power: float) -> None:
    assert compiled.exp2_of(round(power * ONE)) / ONE == pytest.approx(2.0**power, rel=3e-5, abs=2 / ONE)


@settings(deadline=None)
@given(st.floats(-1e4, 1e4) | st.floats(-8.0, 8.0))
@example(0.0)
def test_tanh(compiled: ctypes.CDLL, number: float) -> None:
    assert compiled.tanh_of(round(number * ONE)) / ONE == pytest.approx(math.tanh(number), abs=5e-5)


class Seen(ctypes.Structure):
    """``struct seen``."""

    _fields_ = [
        ("mean_rtt_us", ctypes.c_uint64),
        ("least_rtt_us", ctypes.c_uint64),
        ("base_rtt_us", ctypes.c_uint64),
        ("line_ns", ctypes.c_uint64),
        ("packets", ctypes.c_uint32),
        ("delivered", ctypes.c_uint32),
        ("marked_share", ctypes.c_uint32),
        ("alpha", ctypes.c_uint32),
        ("lost", ctypes.c_int32),
        ("correction", ctypes.c_int32),
    ]


@settings(deadline=None)
@given(
    base_us=st.integers(1, 100_000),
    over=st.tuples(st.floats(0.9, 50.0), st.floats(0.9, 50.0)),
    line_ns=st.integers(100, 12_000_000),
    window=st.floats(0.01, 60_000.0),
    delivered=st.integers(0, 10_000_000),
    marked=st.integers(0, 16),
    alpha=st.floats(0.0, 1.0),
    lost=st.booleans(),
    correction=st.floats(-1.0, 1.0),
)
def test_what_it_looks_at_is_what_the_simulators_looks_at(
    compiled: ctypes.CDLL,
    base_us: int,
    over: tuple[float, float],
    line_ns: int,
    window: float,
    delivered: int,
    marked: int,
    alpha: float,
    lost: bool,
    correction: float,
) -> None:
    mean_us, least_us = (max(round(base_us * factor), 1) for factor in over)
    seen = Seen(
        mean_us,
        least_us,
        base_us,
        line_ns,
        round(window * ONE),
        delivered,
        round(marked / 16 * ONE),
        round(alpha * ONE),
        lost,
        round(correction * ONE),
    )
    inputs = np.zeros(neural.N_INPUTS, dtype=np.int32)
    compiled.look(ctypes.byref(seen), inputs.ctypes.data_as(ctypes.c_void_p))
    flow = SimpleNamespace(
        state=np.zeros(neural.SEEN + neural.N_INPUTS),
        base_rtt_ns=base_us * 1000,
        line_rate_bps=1500 * 8e9 / line_ns,
        packet_bytes=1500,
    )
    state = flow.state
    state[rounds.RTT_SUM_NS], state[rounds.RTT_SAMPLES] = 3 * mean_us * 1000, 3
    state[rounds.RTT_LEAST_NS] = least_us * 1000
    state[rounds.MARKED], state[rounds.ACKED] = marked, 16
    state[rounds.ALPHA], state[rounds.WINDOW] = alpha, window
    state[rounds.DELIVERED], state[rounds.LOST] = delivered, lost
    state[neural.CORRECTION] = correction
    with pytest.MonkeyPatch.context() as patch:
        for name in ("line_packets_per_ns", "marked_share"):
            patch.setattr(neural, name, getattr(rounds, name).py_func)
        neural.look.py_func(flow)
    np.testing.assert_allclose(inputs / ONE, state[neural.SEEN :], atol=5e-4)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.5, 2.0]))
def test_the_network_says_what_the_simulators_says(compiled: ctypes.CDLL, seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    parameters = rng.normal(scale=spread, size=neural.N_PARAMETERS)
    inputs = rng.uniform(-2.0, 2.0, size=neural.N_INPUTS)
    decision = np.zeros(3, dtype=np.int32)
    fixed = [np.round(values * ONE).astype(np.int32) for values in (parameters, inputs)]
    compiled.decide(*(values.ctypes.data_as(ctypes.c_void_p) for values in (*fixed, decision)))
    expected = _simulators(parameters, inputs)
    np.testing.assert_allclose(decision / ONE, expected, rtol=2e-3, atol=2e-3)


def _simulators(parameters: Any, inputs: Any) -> list[float]:
    """What the simulator's own source says, uncompiled."""
    flow = SimpleNamespace(state=np.zeros(neural.SEEN + neural.N_INPUTS))
    flow.state[neural.SEEN :] = inputs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neural, "parameter", lambda event, index: float(parameters[index]))
        neural.decide.py_func(flow, None)
    return [float(flow.state[slot]) for slot in (neural.CORRECTION, neural.GROWTH, neural.PACE)]


def test_the_programs_have_room_for_every_world() -> None:
    """Of a service; sizes in C are those in Python."""
    found = {
        name: int(value)
        for path in SOURCES.rglob("*.[ch]")
        for name, value in re.findall(
            r"#define (FLOW_SLOTS|PARAMETER_SETS|PORT_SLOTS) (\d+)", path.read_text()
        )
    }
    assert found == {"FLOW_SLOTS": FLOW_SLOTS, "PARAMETER_SETS": PARAMETER_SETS, "PORT_SLOTS": PORT_SLOTS}
    assert MAX_SESSIONS * SLOTS_A_SESSION <= FLOW_SLOTS
    assert MAX_SESSIONS * PORTS_A_SESSION <= PORT_SLOTS
    assert MAX_SESSIONS <= PARAMETER_SETS
