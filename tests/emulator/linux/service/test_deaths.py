"""Deaths of clients, services and worlds leave nothing behind, also repeatedly.

``SYSGYM_KILL_ROUNDS=20`` kills twenty times in a row; without it, once.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sysgym.emulator.linux.client import LinuxNetwork
from sysgym.emulator.linux.service import daemon
from sysgym.emulator.linux.service import messages as m
from sysgym.emulator.linux.service.cleaning import clean, leftovers
from sysgym.emulator.linux.service.connection import Connection
from sysgym.emulator.linux.service.daemon import Service
from sysgym.emulator.linux.service.discovery import PrivateService
from sysgym.scenarios.errors import BackendError
from tests.emulator.linux.service.helpers import (
    KIND,
    alive,
    child,
    children,
    forked,
    n_sessions,
    small,
    wait_until,
    world_pid,
)

ROUNDS = int(os.environ.get("SYSGYM_KILL_ROUNDS", "1"))


def kill_and_wait(pid: int, number: int) -> None:
    os.kill(pid, number)
    os.waitpid(pid, 0)


def test_a_client_that_is_killed_takes_its_world_along(own_service: PrivateService) -> None:
    def client(fd: int) -> object:
        network = LinuxNetwork(small("unruly-child"), service=own_service.endpoint)
        pid = world_pid(network)
        os.write(fd, f"{pid} {children(pid)[0]}\n".encode())
        os.close(fd)
        return network

    for _ in range(ROUNDS):
        pid, (world, grandchild) = forked(client)
        assert alive(world)
        assert alive(grandchild)
        kill_and_wait(pid, signal.SIGKILL)
        wait_until(lambda world=world: not alive(world))  # type: ignore[misc]
        wait_until(lambda grandchild=grandchild: not alive(grandchild))  # type: ignore[misc]
        wait_until(lambda: n_sessions(own_service.endpoint) == 0)


def test_a_client_of_another_machine_that_is_killed(own_service: PrivateService) -> None:
    """No process of this machine can be watched: the end of the connection says it."""

    def client(fd: int) -> object:
        service = Connection(own_service.endpoint)
        opened = service.ask(m.Open(scenario=small().resolved(), transport="dctcp"), m.Opened, 60.0)
        world = Connection(opened.endpoint)
        world.ask(m.Attach(token=opened.token), m.World, 10.0)
        os.write(fd, f"{opened.pid}\n".encode())
        os.close(fd)
        return service, world

    pid, (world,) = forked(client)
    time.sleep(0.5)
    assert alive(world)
    kill_and_wait(pid, signal.SIGKILL)
    wait_until(lambda: not alive(world))
    wait_until(lambda: n_sessions(own_service.endpoint) == 0)


def test_a_service_that_is_killed_takes_its_worlds_along(short_path: Path) -> None:
    for _ in range(ROUNDS):
        service = PrivateService(short_path, KIND)
        network = LinuxNetwork(small("unruly-child"), service=service.endpoint)
        world = world_pid(network)
        (child,) = children(world)
        os.kill(service.pid, signal.SIGKILL)
        service._process.wait()
        with pytest.raises(BackendError, match="the world has gone"):
            network.advance(1.0)
        wait_until(lambda world=world: not alive(world))  # type: ignore[misc]
        network.close()
        assert alive(child)  # it has a session of its own: nothing but cleaning finds it
        wait_until(lambda: sorted(one.kind for one in leftovers([short_path])) == ["folder", "process"])
        assert sorted(one.kind for one in clean([short_path])) == ["folder", "process"]
        assert not alive(child)
        assert list(short_path.iterdir()) == []
        assert clean([short_path]) == []


def test_the_next_service_removes_what_a_killed_one_left(short_path: Path) -> None:
    service = PrivateService(short_path, KIND)
    network = LinuxNetwork(small("unruly-child"), service=service.endpoint)
    (child,) = children(world_pid(network))
    os.kill(service.pid, signal.SIGKILL)
    service._process.wait()
    wait_until(lambda: not alive(world_pid(network)))
    after = PrivateService(short_path, KIND)
    assert not alive(child)
    assert [str(folder) for folder in short_path.iterdir()] == [str(Path(after.endpoint[6:]).parent)]
    with LinuxNetwork(small(), service=after.endpoint) as other:
        other.advance(1e-3)
    after.stop()
    network.close()


def test_a_world_that_dies_tells_its_client_why(own_service: PrivateService) -> None:
    words = r"(?s)ended by itself \(exit code 3\).*the last words"
    with (
        LinuxNetwork(small("unruly-exit"), service=own_service.endpoint) as network,
        pytest.raises(BackendError, match=words),
    ):
        network.advance(1e-3)
    with LinuxNetwork(small(), service=own_service.endpoint) as network:
        pid = world_pid(network)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(BackendError, match=r"ended by itself \(SIGKILL\)"):
            network.advance(1e-3)
    with LinuxNetwork(small(), service=own_service.endpoint) as network:
        network.advance(1e-3)


def test_a_world_that_dies_while_its_client_waits(own_service: PrivateService) -> None:
    with LinuxNetwork(small("unruly-sleep"), service=own_service.endpoint) as network:
        killer = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {world_pid(network)}"])
        begun = time.monotonic()
        with pytest.raises(BackendError, match="SIGKILL"):
            network.advance(60.0)
        assert time.monotonic() - begun < 10
        killer.wait()


def test_a_client_that_dies_in_the_middle_of_a_step(own_service: PrivateService) -> None:
    def client(fd: int) -> object:
        network = LinuxNetwork(small("unruly-sleep"), service=own_service.endpoint)
        os.write(fd, f"{world_pid(network)}\n".encode())
        os.close(fd)
        return network.advance(500.0)  # type: ignore[func-returns-value]

    pid, (world,) = forked(client)
    time.sleep(0.3)
    kill_and_wait(pid, signal.SIGKILL)
    wait_until(lambda: not alive(world))
    wait_until(lambda: n_sessions(own_service.endpoint) == 0)


@pytest.mark.slow
def test_a_world_that_does_not_close_is_killed(own_service: PrivateService) -> None:
    network = LinuxNetwork(small("unruly-close"), service=own_service.endpoint)
    pid = world_pid(network)
    begun = time.monotonic()
    network.close()
    wait_until(lambda: not alive(pid), within_s=15.0)
    assert time.monotonic() - begun > 5


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_private_service_ends_with_its_process(short_path: Path, number: int) -> None:
    def client(fd: int) -> object:
        service = PrivateService(short_path, KIND)
        network = LinuxNetwork(small("unruly-child"), service=service.endpoint)
        world = world_pid(network)
        os.write(fd, f"{service.pid} {world} {children(world)[0]}\n".encode())
        os.close(fd)
        return service, network

    for _ in range(ROUNDS if number == signal.SIGKILL else 1):
        pid, others = forked(client)
        assert all(alive(other) for other in others)
        kill_and_wait(pid, number)
        wait_until(lambda others=others: not any(alive(other) for other in others))  # type: ignore[misc]
        assert list(short_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_a_service_whole(short_path: Path, number: int) -> None:
    command = [
        str(Path(sys.executable).with_name("sysgym")),
        "emulator",
        "serve",
        "--root",
        str(short_path),
        "--kind",
        KIND,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as served:
        try:
            assert served.stderr is not None
            words = served.stderr.readline()
            assert "press Ctrl-C to stop it" in words
            endpoint = next(word for word in words.split() if word.startswith("ipc://")).rstrip(";")
            network = LinuxNetwork(small("unruly-child"), service=endpoint)
            world = world_pid(network)
            (child,) = children(world)
            os.killpg(served.pid, number)  # as a terminal does
            _, rest = served.communicate(timeout=20)
            assert served.returncode == 0
            assert "everything was removed" in rest
        finally:
            served.kill()
    assert not alive(world)
    assert not alive(child)
    assert list(short_path.iterdir()) == []
    with pytest.raises(BackendError, match="its service does not answer: has it been stopped"):
        network.advance(1e-3)


def test_a_service_ends_with_a_world_process_that_has_just_been_started(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment by which cleaning finds a process cannot be read until a moment after its start."""
    monkeypatch.setattr(daemon, "kill_tagged", lambda wanted: 0)
    pid = child(lambda: Service(root=short_path, kind=KIND).run())
    try:
        wait_until(lambda: children(pid) != [])
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not alive(pid))
    finally:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    assert status == 0
    assert list(short_path.iterdir()) == []


def test_a_client_that_forgets_to_close(own_service: PrivateService) -> None:
    network = LinuxNetwork(small(), service=own_service.endpoint)
    pid = world_pid(network)
    del network
    wait_until(lambda: not alive(pid))


def test_a_client_that_is_forgotten_in_a_circle(own_service: PrivateService) -> None:
    """Then the garbage collector closes it, in any order."""
    network = LinuxNetwork(small(), service=own_service.endpoint)
    pid = world_pid(network)
    network.circle = network  # type: ignore[attr-defined]
    del network
    gc.collect()
    wait_until(lambda: not alive(pid))
