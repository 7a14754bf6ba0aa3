"""Tests that measure in real time, on a machine that others use too.

A network of the kernel cannot wait: where the processor is away for a tenth of a second, because other tests
or another virtual machine have it, packets are missing from the goodput of that second. Therefore these tests
go before others, and one that fails is measured again where the processor is known to have been away. It
fails for good after MEASUREMENTS of them; a failure with the processor at hand is never repeated.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from typing import Any, Self

import pytest

MEASUREMENTS = 4
PAUSE_S = 5
"""Before a test is measured again; such times pass."""

MOST_AWAY_S = 0.02
"""Less is no excuse."""

_TICK_S = 0.001
_PATIENCE_S = 0.01
"""A thread that is late by less may have waited for the interpreter's lock or for its turn."""

_AHEAD_OF_OTHERS = -10


class ProcessorWasAway(AssertionError):
    """A test failed, and the processor was needed elsewhere meanwhile."""


class Metronome:
    """Sleeps for a millisecond at a time, and adds up how much later than that it woke."""

    def __init__(self) -> None:
        self.away_s = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metronome", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            due_s = time.monotonic() + _TICK_S
            time.sleep(_TICK_S)
            late_s = time.monotonic() - due_s
            if late_s > _PATIENCE_S:
                self.away_s += late_s


def is_in_real_time(item: pytest.Item) -> bool:
    """Whether a test measures in real time: those with networks of the kernel do."""
    return item.get_closest_marker("linux") is not None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Networks of the kernel take turns: two at once would fight over the processors.

    The group is the largest, and xdist hands out the largest first. It reads the mark before any plugin of
    the tests can change the finished collection: hence here.
    """
    if is_in_real_time(item):
        item.add_marker(pytest.mark.xdist_group("linux"))
        again = {"reruns": MEASUREMENTS - 1, "reruns_delay": PAUSE_S, "only_rerun": ProcessorWasAway.__name__}
        item.add_marker(pytest.mark.flaky(**again))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """The processes that a test starts have its priority."""
    if not is_in_real_time(item) or os.geteuid() != 0:
        return (yield)
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, _AHEAD_OF_OTHERS)
    try:
        return (yield)
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """A failure says so if the processor was away."""
    if not is_in_real_time(item):
        return (yield)
    metronome = Metronome()
    try:
        with metronome:
            return (yield)
    except Exception as failure:
        if metronome.away_s <= MOST_AWAY_S:
            raise
        words = f"the processor was away for {1e3 * metronome.away_s:.0f} ms of this test, which failed"
        raise ProcessorWasAway(words) from failure
