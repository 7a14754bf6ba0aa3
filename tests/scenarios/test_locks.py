"""Locks of folders: one process at a time, and none is left by a process that ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from sysgym.scenarios.errors import StorageError, SysgymError
from sysgym.scenarios.locks import LOCK, alone_in


def test_a_second_one_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with alone_in(folder, "trains in"):
        with pytest.raises(SysgymError, match=r"a/b: another process trains in this folder; wait for it"):
            alone_in(folder, "trains in").__enter__()
        with alone_in(folder, "trains in", name=".other"), alone_in(tmp_path, "trains in"):
            pass
    with alone_in(folder, "trains in"):
        pass


def test_a_lock_ends_with_its_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    holds = "import sys; from pathlib import Path; from sysgym.scenarios.locks import alone_in\n"
    holds += "with alone_in(Path(sys.argv[1]), 'trains in'):\n    print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", holds, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        began_s = time.monotonic()
        with pytest.raises(SysgymError, match="another process trains in"):
            alone_in(tmp_path, "trains in", wait_s=0.2).__enter__()
        assert time.monotonic() - began_s >= 0.2
        assert caplog.messages == [
            f"{tmp_path}: another process trains in this folder; waiting for it to end"
        ]
        process.kill()
        with alone_in(tmp_path, "trains in", wait_s=30.0):
            pass


def test_a_link_in_the_place_of_the_lock_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="a symbolic link"):
        alone_in(tmp_path, "trains in").__enter__()
    assert not (tmp_path / "elsewhere").exists()


def test_without_locks_nothing_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with alone_in(tmp_path / "a", "trains in"), alone_in(tmp_path / "a", "trains in"):
        assert (tmp_path / "a").is_dir()
