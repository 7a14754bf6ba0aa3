"""Cleaning removes the remains of dead services and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sysgym.emulator.linux.service.cleaning import Leftover, clean, leftovers, tags
from sysgym.emulator.linux.service.runtime import Claim, read_service, services
from sysgym.scenarios.errors import BackendError
from tests.emulator.linux.service.helpers import alive


@contextmanager
def sleeping(environment: dict[str, str]) -> Iterator[int]:
    """A process with something in its environment."""
    process = subprocess.Popen(["sleep", "1000"], env={**os.environ, **environment}, start_new_session=True)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def dead_folder(root: Path, sid: str = "dead", lock: str | None = '{"pid": 1, "endpoint": "x"}') -> Path:
    folder = root / sid
    folder.mkdir()
    if lock is not None:
        (folder / "lock").write_text(lock)
    return folder


@pytest.mark.parametrize("lock", ['{"pid": 1, "endpoint": "x"}', "", "{", "[1]", '{"pid": "x"}', None])
def test_a_service_without_a_lock_is_dead(tmp_path: Path, lock: str | None) -> None:
    """Also where the number in the file is that of a process that lives."""
    folder = dead_folder(tmp_path, lock=lock)
    (folder / "service.sock").touch()
    os.utime(folder, (1, 1))
    assert not read_service(folder).alive
    assert clean([tmp_path]) == [Leftover("dead", "folder", str(folder))]
    assert list(tmp_path.iterdir()) == []


def test_a_living_service_is_left_alone(tmp_path: Path) -> None:
    claim = Claim(tmp_path)
    assert len(claim.sid) == 4
    claim.write("ipc:///somewhere")
    with sleeping(tags(claim.sid, claim.folder, 1)) as pid:
        assert leftovers([tmp_path]) == []
        assert clean([tmp_path]) == []
        assert alive(pid)
        (found,) = services([tmp_path])
        assert (found.alive, found.pid, found.endpoint) == (True, os.getpid(), "ipc:///somewhere")
    claim.release()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_being_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "abcd").mkdir()
    assert clean([tmp_path]) == []
    assert (tmp_path / "abcd").exists()


def test_processes_of_dead_services_are_killed_and_no_others(tmp_path: Path) -> None:
    folder = dead_folder(tmp_path)
    gone = tmp_path / "beef"  # not even a folder is left
    other = tmp_path / "other-place" / "dead"
    lying = {**tags("dead", folder, 1), "SYSGYM_SID": "f00d"}
    with (
        sleeping(tags("dead", folder, 1)) as mine,
        sleeping(tags("beef", gone, 2)) as also_mine,
        sleeping({}) as nobodys,
        sleeping({"SYSGYM_SID": "dead"}) as half,
        sleeping(lying) as lies,
        sleeping(tags("dead", other, 1)) as elsewhere,
    ):
        found = clean([tmp_path])
        assert {(one.kind, one.name) for one in found} == {
            ("process", str(mine)),
            ("process", str(also_mine)),
            ("folder", str(folder)),
        }
        assert [alive(pid) for pid in (mine, also_mine)] == [False, False]
        assert all(alive(pid) for pid in (nobodys, half, lies, elsewhere))


def test_what_does_not_look_like_a_service_is_left_alone(tmp_path: Path) -> None:
    for name in ("notes", "abc", "abcde", "ABCD", "ab d"):
        dead_folder(tmp_path, name)
    (tmp_path / "1234").write_text("a file")
    (tmp_path / "5678").symlink_to(tmp_path / "notes")
    before = sorted(tmp_path.rglob("*"))
    assert clean([tmp_path]) == []
    assert sorted(tmp_path.rglob("*")) == before


def test_no_link_is_followed_out_of_a_folder(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    folder = dead_folder(tmp_path)
    (folder / "session-1.log").symlink_to(precious / "file")
    (folder / "elsewhere").symlink_to(precious)
    clean([tmp_path])
    assert not folder.exists()
    assert (precious / "file").exists()


def test_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BackendError, match="no folder for a service"):
        Claim(tmp_path / "file")
    with pytest.raises(BackendError, match="too long a name"):
        Claim(tmp_path / ("x" * 100))


@pytest.mark.linux
def test_links_on_their_way_are_removed_by_their_names(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    folder = dead_folder(tmp_path, "0dea")
    subprocess.run(["ip", "link", "add", "sg0dea-1", "type", "veth", "peer", "sg0dea-2"], check=True)
    subprocess.run(["ip", "link", "add", "sg0deb-1", "type", "veth", "peer", "other"], check=True)
    try:
        found = clean([tmp_path])
        assert {one.name for one in found} == {"sg0dea-1", "sg0dea-2", str(folder)}
        names = os.listdir("/sys/class/net")
        assert not {"sg0dea-1", "sg0dea-2"} & set(names)
        assert {"sg0deb-1", "other"} <= set(names)
    finally:
        subprocess.run(["ip", "link", "del", "sg0deb-1"], check=True)


_SERVICE_ELSEWHERE = """
import os, subprocess, sys
from pathlib import Path
from sysgym.emulator.linux.service.cleaning import tags
from sysgym.emulator.linux.service.runtime import Claim
claim = Claim(Path(sys.argv[1]))
world = subprocess.Popen(["sleep", "1000"], env={**os.environ, **tags(claim.sid, claim.folder, 1)})
print(world.pid, flush=True)
world.wait()
"""


@pytest.mark.linux
def test_a_service_in_another_tree_of_folders_is_not_dead(tmp_path: Path) -> None:
    """Its folder cannot be seen from here: a chroot's, a unit's with its own /tmp, ``docker --pid=host``."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    mount = 'mount -t tmpfs none "$0" && exec "$@"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, str(tmp_path)]
    command += [sys.executable, "-c", _SERVICE_ELSEWHERE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as service:
        assert service.stdout is not None
        world = int(service.stdout.readline())
        assert leftovers([tmp_path]) == []
        assert clean([tmp_path]) == []
        assert alive(world)
        os.kill(world, signal.SIGKILL)
