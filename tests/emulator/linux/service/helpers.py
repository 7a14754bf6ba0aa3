"""Helpers for tests of services."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from sysgym.emulator.linux.client import LinuxNetwork
from sysgym.emulator.linux.service.connection import Connection
from sysgym.emulator.linux.service.messages import Greeting, Hello
from sysgym.scenarios import CongestionScenario, load_scenario

_KINDS = Path(__file__).parent / "packet_world.py"
KIND, PACKETS, LACKING = (f"{_KINDS}:{name}" for name in ("still", "packets", "lacking"))


def small(name: str = "dumbbell-10g") -> CongestionScenario:
    """A scenario; the test world takes its name for how to behave."""
    scenario = load_scenario("dumbbell-10g", expect=CongestionScenario)
    return scenario.model_copy(update={"name": name})


def wait_until(holds: Callable[[], bool], within_s: float = 10.0) -> None:
    """Waits for something that takes a moment; fails if it does not come."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it has not come"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def n_sessions(endpoint: str) -> int:
    """How many sessions a service has."""
    connection = Connection(endpoint)
    try:
        return connection.ask(Hello(), Greeting, 10.0).sessions
    finally:
        connection.close()


def world_pid(network: LinuxNetwork) -> int:
    """The process of a network's world."""
    assert network._opened is not None
    return network._opened.pid


def children(pid: int) -> list[int]:
    """Processes that a process has started and that live."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def child(act: Callable[[], object]) -> int:
    """Starts a process that does something and ends with what that returns; returns its number."""
    pid = os.fork()
    if not pid:
        status = 70
        with contextlib.suppress(BaseException):
            status = int(act() or 0)  # type: ignore[call-overload]
        os._exit(status)
    return pid


def in_child(act: Callable[[], object]) -> int:
    """Runs something in a forked process; returns its exit status, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child(act), 0)[1])


def forked(act: Callable[[int], object]) -> tuple[int, list[int]]:
    """Starts a process that does something and then waits for its end.

    Returns:
        Its number, and the numbers that it has written into the file that it was given.
    """
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            os.close(read_fd)
            kept = act(write_fd)
            time.sleep(1000)
            del kept
        os._exit(1)
    os.close(write_fd)
    with os.fdopen(read_fd) as pipe:
        words = pipe.readline().split()
    return pid, [int(word) for word in words]
