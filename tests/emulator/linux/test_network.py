"""Fixed-point curves and the network of the kernel's law `neural`, compiled for user space."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sysgym.emulator.linux.objects import SOURCES
from sysgym.emulator.packets.transports import neural

ONE = 2.0**16

SOURCE = """
#include "network.h"
long long log2_of(unsigned long long n) { return fixed_log2(n); }
long long exp2_of(long long n) { return fixed_exp2(n); }
long long tanh_of(long long n) { return fixed_tanh(n); }
void decide(const struct network *network, const int *inputs, struct decision *decision)
{
	network_decide(network, inputs, decision);
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("clang") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder: Path = tmp_path_factory.mktemp("network")
    source, library = folder / "network.c", folder / "network.so"
    source.write_text(SOURCE)
    flags = ["-O1", "-Wall", "-Wno-unknown-pragmas", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, f"-I{SOURCES}", str(source), "-o", str(library)], check=True)
    found = ctypes.CDLL(str(library))
    found.log2_of.argtypes, found.log2_of.restype = [ctypes.c_uint64], ctypes.c_int64
    for name in ("exp2_of", "tanh_of"):
        function = getattr(found, name)
        function.argtypes, function.restype = [ctypes.c_int64], ctypes.c_int64
    return found


@given(st.one_of(st.integers(1, 2**64 - 1), st.integers(0, 63).map(lambda bit: 2**bit)))
@example(1)
@example(2**64 - 1)
def test_logarithm(compiled: ctypes.CDLL, number: int) -> None:
    assert compiled.log2_of(number) / ONE == pytest.approx(math.log2(number), abs=5e-5)


def test_zero_has_the_logarithm_of_one(compiled: ctypes.CDLL) -> None:
    assert compiled.log2_of(0) == compiled.log2_of(1) == 0


@given(st.floats(-12.0, 30.0))
@example(0.0)
@example(-1.0)
def test_power_of_two(compiled: ctypes.CDLL, power: float) -> None:
    assert compiled.exp2_of(round(power * ONE)) / ONE == pytest.approx(2.0**power, rel=3e-5, abs=2 / ONE)


@given(st.floats(-1e4, 1e4) | st.floats(-8.0, 8.0))
@example(0.0)
def test_tanh(compiled: ctypes.CDLL, number: float) -> None:
    assert compiled.tanh_of(round(number * ONE)) / ONE == pytest.approx(math.tanh(number), abs=5e-5)


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
