"""Tests that measure in real time, on a machine that others use too.

A network of the kernel cannot wait: where the processor is away for a tenth of a second, because other tests
or another virtual machine have it, packets are missing from the goodput of that second. Therefore a test that
fails beside other tests is measured again while they wait, and one that fails alone is measured again only
where the processor is known to have been away. It fails for good after MEASUREMENTS of them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

if sys.platform != "win32":
    import fcntl

MEASUREMENTS = 8
PAUSE_S = 10
"""Before a test is measured again; such times pass."""

MOST_AWAY_S = 0.02
"""Less is no excuse."""

_TICK_S = 0.001
_PATIENCE_S = 0.01
"""A thread that is late by less may have waited for the interpreter's lock or for its turn."""

_AHEAD_OF_OTHERS = -10

_DOOR, _ROOM = Path(__file__), Path(__file__).with_name("conftest.py")
"""Two files of which locks are taken: nothing is written, and nothing is left behind."""


class Disturbed(AssertionError):
    """A test failed beside others, or while the processor was needed elsewhere."""


def stolen_s() -> float:
    """Return the time that the host of this virtual machine has given to others, over all processors."""
    try:
        ticks = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[8]
    except (OSError, IndexError):
        return 0.0
    return int(ticks) / os.sysconf("SC_CLK_TCK")


class Metronome:
    """Sleeps for a millisecond at a time, and adds up how much later than that it woke.

    It sees one processor; what the host has taken from any of them counts too.
    """

    def __init__(self) -> None:
        self.away_s = 0.0
        self._stolen_before_s = stolen_s()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metronome", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self.away_s = max(self.away_s, stolen_s() - self._stolen_before_s)

    def _run(self) -> None:
        while not self._stopped.is_set():
            due_s = time.monotonic() + _TICK_S
            time.sleep(_TICK_S)
            late_s = time.monotonic() - due_s
            if late_s > _PATIENCE_S:
                self.away_s += late_s


@contextlib.contextmanager
def _locked(file: Path, operation: int) -> Iterator[None]:
    with file.open("rb") as stream:
        fcntl.flock(stream, operation)
        try:
            yield
        finally:  # by name: a process that a test forked may still have the file open
            fcntl.flock(stream, fcntl.LOCK_UN)


@contextlib.contextmanager
def beside_others() -> Iterator[None]:
    """Wait while a test has the machine to itself, then run beside other tests."""
    with contextlib.ExitStack() as room:
        with _locked(_DOOR, fcntl.LOCK_EX):
            room.enter_context(_locked(_ROOM, fcntl.LOCK_SH))
        yield


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until the tests of other workers have ended; they begin no other meanwhile."""
    with _locked(_DOOR, fcntl.LOCK_EX), _locked(_ROOM, fcntl.LOCK_EX):
        yield


def has_company() -> bool:
    """Return whether other workers run tests of this session."""
    return sys.platform != "win32" and int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1


def is_in_real_time(item: pytest.Item) -> bool:
    """Whether a test measures in real time: those with networks of the kernel do."""
    return item.get_closest_marker("linux") is not None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Networks of the kernel take turns: two at once would fight over the processors.

    xdist reads the mark of a group before any plugin of the tests can change the finished collection: hence
    here.
    """
    if is_in_real_time(item):
        item.add_marker(pytest.mark.xdist_group("linux"))
        again = {"reruns": MEASUREMENTS - 1, "reruns_delay": PAUSE_S, "only_rerun": Disturbed.__name__}
        item.add_marker(pytest.mark.flaky(**again))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """The processes that a test in real time starts have its priority; other tests wait for one alone."""
    if not is_in_real_time(item):
        with beside_others() if has_company() else contextlib.nullcontext():
            return (yield)
    if os.geteuid() != 0:
        return (yield)
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, _AHEAD_OF_OTHERS)
    try:
        return (yield)
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """A failure says what disturbed the measurement, if something did."""
    if not is_in_real_time(item):
        return (yield)
    company = has_company() and getattr(item, "execution_count", 1) == 1
    metronome = Metronome()
    try:
        with alone() if has_company() and not company else contextlib.nullcontext(), metronome:
            return (yield)
    except Exception as failure:
        if metronome.away_s > MOST_AWAY_S:
            words = f"the processor was away for {1e3 * metronome.away_s:.0f} ms of this test, which failed"
        elif company:
            words = "this test failed beside others"
        else:
            raise
        raise Disturbed(words) from failure
