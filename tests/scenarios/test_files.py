"""Files in untrusted folders: links are not followed, and pipes and devices do not block."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sysgym.errors import StorageError, SysgymError
from sysgym.scenarios.files import check_replaceable, own_file, read_limited, replacing, write_atomically


def test_a_planted_link_leads_no_writing_outside(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "page.md"
    victim.write_text("mine")
    for name in (f".page.md.{os.getpid()}.tmp", ".page.md.part", "page.md"):
        (tmp_path / name).symlink_to(victim)
    write_atomically(path, b"new")
    assert victim.read_text() == "mine"
    assert path.read_text() == "new"
    assert not path.is_symlink()


def test_a_new_file_has_the_rights_that_the_user_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_what_fails_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")

    def fail_on_the_way() -> None:
        with replacing(tmp_path / "a") as file:
            file.write(b"new")
            raise KeyError

    with pytest.raises(KeyError):
        fail_on_the_way()
    check_replaceable(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"
    with pytest.raises(StorageError, match="cannot be written"):
        check_replaceable(tmp_path / "nowhere" / "a")


def test_no_line_is_added_through_a_link_or_to_a_pipe(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / "link").symlink_to(victim)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r"symbolic link|No such device"):
            own_file(tmp_path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    assert not victim.exists()


def test_only_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "device", "folder"):
        with pytest.raises(SysgymError, match=f"{name}: cannot be read: "):
            read_limited(tmp_path / name, 10)
    (tmp_path / "large").write_bytes(bytes(11))
    with pytest.raises(SysgymError, match="larger than"):
        read_limited(tmp_path / "large", 10)
