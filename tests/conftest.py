"""Fixtures for tests in several folders."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.commands import Commands

# Two workers on two cores, each with a thread for every core, mostly wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# How long an example takes is the machine's business: no test is about it.
settings.register_profile("sysgym", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sysgym")

pytest_plugins = ["tests.distribution", "tests.real_time"]

# Twelve thousand tests are collected, and are there to the end: looking through them for garbage again and
# again takes a third of the collection, and a twentieth of the tests' time.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage among what the tests make from now on, no longer among the tests themselves."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Where other processes collect the tests, collect garbage as usual."""
    if session.config.pluginmanager.has_plugin("dsession"):
        gc.enable()


def pytest_configure() -> None:
    """A run that a shell has put into the background ignores Ctrl-C, which several tests are about."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """Run commands of sysgym in processes of their own."""
    with Commands() as started:
        yield started


@pytest.fixture
def ctrl_c_raises() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def linux_backend() -> None:
    """Skips where the kernel's networks cannot be, and says why; with CI=true and root that is a failure."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("needs root on Linux")
    from sysgym.emulator.linux.requirements import requirements

    if missing := [one.name for one in requirements() if one.essential and not one.present]:
        words = f"the Linux backend lacks here: {', '.join(missing)}"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
