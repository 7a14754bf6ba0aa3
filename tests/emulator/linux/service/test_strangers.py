"""Obstacles to a service made by other users: files in the caller's folder, folders of sockets."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sysgym.emulator.linux.client import LinuxNetwork
from sysgym.emulator.linux.kernel.probe import ask
from sysgym.emulator.linux.service.cleaning import clean, tags
from sysgym.emulator.linux.service.daemon import Service
from sysgym.emulator.linux.service.discovery import PrivateService
from sysgym.emulator.linux.service.runtime import Claim, known_roots, runtime_root, services
from sysgym.scenarios.errors import BackendError
from tests.emulator.linux.service.helpers import KIND, alive, in_child, n_sessions, small, wait_until

PLANTED = ("msgpack", "zmq", "numpy", "json", "encodings", "sitecustomize")
STRANGER = 12345

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, on PYTHONPATH too, has modules of common names, which leave ``was-run``."""
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'was-run')!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_nothing_is_imported_from_the_current_folder(planted: Path, short_path: Path) -> None:
    service = PrivateService(short_path, KIND)
    with LinuxNetwork(small(), service=service.endpoint) as network:
        network.advance(1e-4)
        folders = {os.readlink(f"/proc/{pid}/cwd") for pid in (service.pid, network._opened.pid)}  # type: ignore[union-attr]
    service.stop()
    assert ask()
    assert not (planted / "was-run").exists()
    assert folders == {"/"}


def test_a_relative_root_is_the_callers(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(short_path)
    service = PrivateService(Path("here"), KIND)
    assert service.endpoint.startswith(f"ipc://{short_path}/here/")
    service.stop()


@as_root
def test_where_the_user_has_no_runtime_folder(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is in /tmp, under a name that everybody can guess."""
    monkeypatch.setattr("tempfile.tempdir", str(short_path))
    short_path.chmod(0o1777)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    expected = short_path / f"sysgym-{STRANGER}"

    def own() -> list[Path]:
        """Without those of root, whose services anybody may see and which may run beside this test."""
        return [one.folder for one in services() if one.folder.parent == expected]

    def claims() -> int:
        os.setuid(STRANGER)
        assert runtime_root() == expected
        claim = Claim()
        status = expected.stat()
        assert (status.st_uid, status.st_mode & 0o777) == (STRANGER, 0o700)
        assert own() == [claim.folder]
        claim.release()
        return 17

    def is_refused() -> int:
        os.setuid(STRANGER)
        with pytest.raises(BackendError, match=rf"{expected} (belongs to user 0|is no folder)"):
            Claim()
        assert own() == []
        return 17

    assert in_child(claims) == 17
    expected.rmdir()
    elsewhere = short_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "dead").mkdir()
    os.chown(elsewhere, STRANGER, -1)
    expected.symlink_to(elsewhere)
    assert in_child(is_refused) == 17
    expected.unlink()
    expected.mkdir(mode=0o777)
    os.chown(expected, 54321, -1)

    def is_anothers() -> int:
        os.setuid(STRANGER)
        with pytest.raises(BackendError, match=f"belongs to user 54321, expected {STRANGER}"):
            Claim()
        return 17

    assert in_child(is_anothers) == 17
    assert list(elsewhere.iterdir()) == [elsewhere / "dead"]


def test_a_folder_that_everybody_may_write_to(short_path: Path) -> None:
    root = short_path / "open"
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(BackendError, match="everybody may write to"):
        Claim(root)
    assert list(services([root])) == []
    root.chmod(0o1777)  # as /tmp is: nobody can rename what is another's
    Claim(root).release()


@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_a_runtime_folder_is_an_absolute_path(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", value)
    monkeypatch.setattr("os.geteuid", lambda: STRANGER)
    assert all(root.is_absolute() for root in known_roots())
    assert runtime_root().name == f"sysgym-{STRANGER}"


@as_root
def test_another_users_process_does_not_choose_what_root_removes(tmp_path: Path) -> None:
    """Whoever starts a process writes its environment, also the folder that it says it belongs to."""
    precious = tmp_path / "cafe"
    precious.mkdir()
    (precious / "file").touch()
    os.utime(precious, (1, 1))
    liar = subprocess.Popen(["sleep", "100"], env=tags("cafe", precious, 1), user=STRANGER)
    try:
        assert [one for one in clean() if one.name in (str(precious), str(liar.pid))] == []
        assert (precious / "file").exists()
        assert alive(liar.pid)
    finally:
        liar.kill()
        liar.wait()


def test_one_client_gets_so_many_sessions_and_no_more(short_path: Path) -> None:
    """Others still find a place: a client is a user, whatever processes it starts."""

    def serve() -> int:
        Service(root=short_path, kind=KIND, sessions_per_client=2).run()
        return 0

    pid = os.fork()
    if not pid:
        os._exit(serve())
    wait_until(lambda: any(one.endpoint for one in services([short_path])))
    (found,) = services([short_path])
    try:
        networks = [LinuxNetwork(small(), service=found.endpoint) for _ in range(2)]
        with pytest.raises(BackendError, match=f"user {os.geteuid()} has 2 sessions, the most that"):
            LinuxNetwork(small(), service=found.endpoint)
        networks.pop().close()
        wait_until(lambda: n_sessions(found.endpoint) == 1)
        with LinuxNetwork(small(), service=found.endpoint):
            pass
        networks.pop().close()
    finally:
        os.kill(pid, 15)
        os.waitpid(pid, 0)
