"""What the kernel's laws remember of their company, beside the simulator's."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.linux.kernel.bpf_objects import SOURCES
from sysgym.emulator.packets.transports.constants import Constant
from sysgym.emulator.packets.transports.searched import drains, mark_threshold, other_laws, rounds

ONE = 2.0**16
LEVEL_ONE = 2.0**15
MOST_PACKETS = 65_535.0
PACKET_BYTES = 1500


class Company(ctypes.Structure):
    """``struct company``."""

    _fields_ = [
        ("window_below", ctypes.c_uint32),
        ("queue_before_ns", ctypes.c_uint32),
        ("stretch", ctypes.c_uint32, 24),
        ("counted_apart", ctypes.c_uint32, 8),
        ("alpha", ctypes.c_uint16),
        ("marks", ctypes.c_uint16),
        ("level", ctypes.c_uint16),
        ("rests", ctypes.c_uint8),
        ("counted", ctypes.c_uint8),
    ]


class Seen(ctypes.Structure):
    """``struct seen``."""

    _fields_ = [
        ("mean_rtt_ns", ctypes.c_uint64),
        ("least_rtt_ns", ctypes.c_uint64),
        ("base_rtt_ns", ctypes.c_uint64),
        ("line_ns", ctypes.c_uint32),
        ("delivered_packets", ctypes.c_uint32),
        ("marked_share", ctypes.c_uint32),
        ("lost", ctypes.c_int32),
        ("rtt_change_ns", ctypes.c_uint64),
        ("just_drained", ctypes.c_int32),
    ]


def constants_of(header: str) -> list[str]:
    """The members of ``struct constants`` in a header."""
    body = re.search(r"struct constants \{(.*?)\}", (SOURCES / "decisions" / header).read_text(), re.DOTALL)
    assert body is not None
    return re.findall(r"int (\w+);", body[1])


@contextmanager
def in_python(*modules: ModuleType) -> Iterator[pytest.MonkeyPatch]:
    """Compiled functions of the simulator's modules as plain Python."""
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            for name, function in vars(module).copy().items():
                if hasattr(function, "py_func"):
                    patch.setattr(module, name, function.py_func)
        yield patch


@contextmanager
def simulator_in_python(law: ModuleType) -> Iterator[None]:
    """The simulator's own source as plain Python; an event is then the list of constants."""
    with in_python(law, drains, mark_threshold, other_laws, rounds) as patch:
        patch.setattr(law, "parameter", lambda event, index: event[index])
        yield


def draw_constants(constants: Sequence[Constant], rng: np.random.Generator) -> tuple[Any, list[float]]:
    """Constants within their bounds, and the same as the simulator reads them."""
    least, most = np.array([(one.least, one.most) for one in constants]).T
    fixed = np.round(least * (most / least) ** rng.uniform(size=len(constants)) * ONE).astype(np.int32)
    return (ctypes.c_int32 * len(constants))(*fixed.tolist()), (fixed / ONE).tolist()


def draw_packets(rng: np.random.Generator) -> float:
    """A window."""
    return float(2.0 ** rng.uniform(np.log2(0.01), np.log2(MOST_PACKETS)))


def draw_company(packets: float, rng: np.random.Generator) -> Company:
    """What a connection with such a window remembers in the middle of its life."""
    return Company(
        window_below=min(round(packets * 2.0 ** rng.uniform(-1.0, 5.0) * ONE), 2**32 - 1),
        stretch=round(rng.integers(2) * rng.uniform(0.0, other_laws.MOST_STRETCH) * ONE),
        alpha=rng.integers(2**16),
        marks=rng.integers(2**16),
        level=rng.integers(2**15 + 2),
        rests=rng.integers(2) * rng.integers(256),
        counted=rng.integers(100),
    )


def flow_of(memory: Any, line_ns: int, base_ns: int) -> Any:
    """A flow of the simulator with the same memory."""
    flow = SimpleNamespace(
        state=np.zeros(40),
        nxt=0,
        srtt_ns=0.0,
        base_rtt_ns=base_ns,
        line_rate_bps=PACKET_BYTES * 8e9 / line_ns,
        packet_bytes=PACKET_BYTES,
    )
    company = memory.company
    flow.state[rounds.WINDOW] = memory.packets / ONE
    flow.state[rounds.ALPHA] = company.alpha / ONE
    flow.state[other_laws.MARKS] = company.marks / ONE
    flow.state[other_laws.STRETCH] = company.stretch / ONE
    flow.state[other_laws.QUEUE] = company.level / LEVEL_ONE
    flow.state[other_laws.WINDOW_BELOW] = company.window_below / ONE
    flow.state[other_laws.QUEUE_BEFORE] = company.queue_before_ns / line_ns
    flow.state[other_laws.RESTS] = company.rests
    return flow


def see(flow: Any, seen: Seen, rng: np.random.Generator) -> None:
    """Give a flow the round that the kernel sees; draw its marks, losses and packets."""
    state = flow.state
    state[rounds.ACKED], state[rounds.MARKED] = 16, rng.integers(2) * rng.integers(17)
    acks = int(rng.integers(8, 17))
    state[rounds.RTT_SUM_NS], state[rounds.RTT_SAMPLES] = float(acks) * seen.mean_rtt_ns, acks
    state[rounds.RTT_LEAST_NS] = seen.least_rtt_ns
    state[rounds.LOST] = rng.uniform() < 0.3
    state[rounds.DELIVERED] = round(2.0 ** rng.uniform(0.0, 31.0))
    seen.delivered_packets = int(state[rounds.DELIVERED])
    seen.marked_share = round(state[rounds.MARKED] / 16 * ONE)
    seen.lost = int(state[rounds.LOST])


def assert_alike(memory: Any, flow: Any) -> None:
    """Windows within 0.2 %, averages within three of their steps."""
    state, company = flow.state, memory.company
    assert memory.packets / ONE == pytest.approx(state[rounds.WINDOW], rel=2e-3, abs=3 / ONE)
    assert company.window_below / ONE == pytest.approx(state[other_laws.WINDOW_BELOW], rel=2e-3, abs=3 / ONE)
    assert company.stretch / ONE == pytest.approx(state[other_laws.STRETCH], abs=2e-3)
    assert company.alpha / ONE == pytest.approx(state[rounds.ALPHA], abs=3 / ONE)
    assert company.marks / ONE == pytest.approx(state[other_laws.MARKS], abs=3 / ONE)
    level = min(state[other_laws.QUEUE], 1.0)
    assert min(company.level / LEVEL_ONE, 1.0) == pytest.approx(level, rel=2e-3, abs=2 / LEVEL_ONE)
    assert (company.level > LEVEL_ONE) == (state[other_laws.QUEUE] > 1.0)
    assert company.rests == state[other_laws.RESTS]
