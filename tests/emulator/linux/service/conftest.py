"""Services with worlds of the packet simulator, which need no kernel support and no privileges."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sysgym.emulator.linux.service.cleaning import clean
from sysgym.emulator.linux.service.discovery import PrivateService
from tests.emulator.linux.service.helpers import KIND, n_sessions, wait_until
from tests.emulator.linux.service.on_kernel import sid_of, traces


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder with a name short enough for sockets in it."""
    with tempfile.TemporaryDirectory(prefix="sg-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def service() -> Iterator[PrivateService]:
    """One service for the tests that leave it as it was."""
    with tempfile.TemporaryDirectory(prefix="sg-", dir="/tmp") as name:
        started = PrivateService(Path(name), KIND)
        yield started
        wait_until(lambda: n_sessions(started.endpoint) == 0)
        started.stop()
        assert list(Path(name).iterdir()) == []


@pytest.fixture
def own_service(short_path: Path) -> Iterator[PrivateService]:
    """A service that a test may kill."""
    started = PrivateService(short_path, KIND)
    yield started
    with contextlib.suppress(ProcessLookupError):
        os.kill(started.pid, signal.SIGCONT)
    started.stop()


@pytest.fixture
def kernel_service(linux_backend: None, short_path: Path) -> Iterator[PrivateService]:
    """A service of the kernel's worlds that a test may kill; afterwards nothing of it is left."""
    service = PrivateService(short_path)
    sid = sid_of(service)
    yield service
    service.stop()
    clean([short_path])
    wait_until(lambda: traces(sid) == [])
    assert list(short_path.iterdir()) == []
