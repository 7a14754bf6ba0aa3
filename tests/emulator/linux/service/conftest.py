"""Services with worlds that need no kernel support and no privileges."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sysgym.emulator.linux.client import LinuxNetwork
from sysgym.emulator.linux.service.cleaning import clean
from sysgym.emulator.linux.service.discovery import PrivateService
from tests.emulator.linux.service.helpers import KIND, PACKETS, n_sessions, small, wait_until
from tests.emulator.linux.service.on_kernel import sid_of, traces


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder with a name short enough for sockets in it."""
    with tempfile.TemporaryDirectory(prefix="sg-", dir="/tmp") as name:
        yield Path(name)


@contextlib.contextmanager
def serving(kind: str) -> Iterator[PrivateService]:
    """A service that has to end with no session and no file left."""
    with tempfile.TemporaryDirectory(prefix="sg-", dir="/tmp") as name:
        started = PrivateService(Path(name), kind)
        yield started
        wait_until(lambda: n_sessions(started.endpoint) == 0)
        started.stop()
        assert list(Path(name).iterdir()) == []


@pytest.fixture(scope="module")
def service() -> Iterator[PrivateService]:
    """One service for the tests that leave it as it was; nothing moves in its worlds."""
    with serving(KIND) as started:
        yield started


@pytest.fixture(scope="module")
def packet_service() -> Iterator[PrivateService]:
    """The same, with worlds of the packet simulator."""
    with serving(PACKETS) as started:
        yield started


@pytest.fixture(scope="module")
def network() -> Iterator[LinuxNetwork]:
    """A network of a service of its own, for the tests that leave both as they were."""
    with serving(KIND) as started, LinuxNetwork(small(), service=started.endpoint) as opened:
        yield opened


@pytest.fixture
def own_service(short_path: Path) -> Iterator[PrivateService]:
    """A service that a test may kill."""
    started = PrivateService(short_path, KIND)
    yield started
    with contextlib.suppress(ProcessLookupError):
        os.kill(started.pid, signal.SIGCONT)
    started.stop()


@pytest.fixture(scope="module")
def kernel_service(linux_backend: None) -> Iterator[PrivateService]:
    """A service of the kernel's worlds, for the tests that leave it as it was; in the end nothing is left."""
    with tempfile.TemporaryDirectory(prefix="sg-", dir="/tmp") as name:
        service = PrivateService(Path(name))
        sid = sid_of(service)
        yield service
        service.stop()
        clean([Path(name)])
        wait_until(lambda: traces(sid) == [])
        assert list(Path(name).iterdir()) == []
