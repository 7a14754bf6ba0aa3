"""Services on the network: holders of keys come in, nobody else does."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq.auth

from sysgym.emulator.linux.client import LinuxNetwork
from sysgym.emulator.linux.keys import KEYS_VARIABLE
from sysgym.scenarios.errors import BackendUnavailable
from tests.emulator.linux.service.helpers import KIND, small


@pytest.fixture
def network_service(short_path: Path) -> Iterator[tuple[str, Path]]:
    """Where it listens, and its folder of keys."""
    keys = short_path / "keys"
    command = [str(Path(sys.executable).with_name("sysgym")), "emulator", "serve", "--tcp", "127.0.0.1:*"]
    command += ["--keys", str(keys), "--root", str(short_path / "run"), "--kind", KIND]
    served = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert served.stderr is not None
    lines = []
    while "listens at" not in (line := served.stderr.readline()):
        assert line
        lines.append(line)
    assert len([line for line in lines if "a client needs this file" in line]) == 2
    yield next(word for word in line.split() if word.startswith("tcp://")).rstrip(";"), keys
    served.send_signal(signal.SIGINT)
    assert served.wait(timeout=20) == 0
    served.stderr.close()
    assert list((short_path / "run").iterdir()) == []


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
