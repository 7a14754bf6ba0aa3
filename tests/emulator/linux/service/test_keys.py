"""Services on the network accept clients with a key only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq.auth

from sysgym.emulator.linux.client import LinuxNetwork
from sysgym.emulator.linux.kernel.namespaces import inside
from sysgym.emulator.linux.service.keys import KEYS_VARIABLE
from sysgym.scenarios.errors import BackendUnavailable
from tests.emulator.linux.service.helpers import KIND, in_child, small, wait_until

HERE, THERE = "10.231.77.1", "10.231.77.2"
"""Addresses of the ends of a link between two network namespaces."""


@contextmanager
def serving_at(address: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """A service at an address; where it listens, and its folder of keys."""
    keys = folder / "keys"
    command = [str(Path(sys.executable).with_name("sysgym")), "emulator", "serve", "--tcp", f"{address}:*"]
    command += ["--keys", str(keys), "--root", str(folder / "run"), "--kind", KIND]
    served = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert served.stderr is not None
    lines = []
    while "listens at" not in (line := served.stderr.readline()):
        assert line
        lines.append(line)
    assert len([line for line in lines if "remote clients need this file" in line]) == 2
    yield next(word for word in line.split() if word.startswith("tcp://")).rstrip(";"), keys
    served.send_signal(signal.SIGINT)
    assert served.wait(timeout=20) == 0
    served.stderr.close()
    assert list((folder / "run").iterdir()) == []


@pytest.fixture
def network_service(short_path: Path) -> Iterator[tuple[str, Path]]:
    """Of this machine's own address."""
    with serving_at("127.0.0.1", short_path) as found:
        yield found


@pytest.fixture
def other_host() -> Iterator[int]:
    """A process in a network namespace that a link joins with this machine's."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("needs root on Linux")
    with subprocess.Popen(["unshare", "--net", "sleep", "100"]) as process:
        own = os.stat("/proc/self/ns/net").st_ino
        wait_until(lambda: os.stat(f"/proc/{process.pid}/ns/net").st_ino != own)
        there = ["nsenter", "--target", str(process.pid), "--net", "ip"]
        link = ["ip", "link", "add", "sgtest", "type", "veth", "peer", "sgtest", "netns", str(process.pid)]
        for command in (
            link,
            ["ip", "address", "add", f"{HERE}/30", "dev", "sgtest"],
            ["ip", "link", "set", "sgtest", "up"],
            [*there, "address", "add", f"{THERE}/30", "dev", "sgtest"],
            [*there, "link", "set", "sgtest", "up"],
        ):
            subprocess.run(command, check=True)
        yield process.pid
        subprocess.run(["ip", "link", "delete", "sgtest"], check=True)  # the end there goes with it
        process.kill()


def test_with_the_right_keys(
    network_service: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, keys = network_service
    assert (keys / "server.key_secret").stat().st_mode & 0o077 == 0
    for name in ("server.key", "client.key_secret"):
        shutil.copy(keys / name, tmp_path)
    monkeypatch.setenv(KEYS_VARIABLE, str(tmp_path))
    with LinuxNetwork(small(), service=endpoint) as network:
        network.advance(1e-3)
        assert network._world is not None
        assert network._world.endpoint.startswith("tcp://127.0.0.1:")
        assert network._world.endpoint != endpoint
        assert network.now_s == 1e-3


def test_without_a_key_or_with_a_strangers(network_service: tuple[str, Path], tmp_path: Path) -> None:
    endpoint, keys = network_service
    with pytest.raises(BackendUnavailable, match="wants a key"):
        LinuxNetwork(small(), service=endpoint)
    with pytest.raises(BackendUnavailable, match="no keys in"):
        LinuxNetwork(small(), service=endpoint, keys=tmp_path)
    zmq.auth.create_certificates(tmp_path, "client")
    shutil.copy(keys / "server.key", tmp_path)
    with pytest.raises(BackendUnavailable, match="does not let this client in"):
        LinuxNetwork(small(), service=endpoint, keys=tmp_path)


@pytest.mark.linux
def test_from_another_host(other_host: int, short_path: Path) -> None:
    """A client in a network of its own, over a link, with keys; and one that has none."""
    with serving_at(HERE, short_path) as (endpoint, keys):
        assert endpoint.startswith(f"tcp://{HERE}:")

        def act() -> int:
            with inside(other_host):  # ZeroMQ's threads are born there too
                with pytest.raises(BackendUnavailable, match="wants a key"):
                    LinuxNetwork(small(), service=endpoint)
                with LinuxNetwork(small(), service=endpoint, keys=keys) as network:
                    network.advance(1e-3)
                    assert network._world is not None
                    assert network._world.endpoint.startswith(f"tcp://{HERE}:")
                    return 17 if network.now_s == 1e-3 else 18

        assert in_child(act) == 17
