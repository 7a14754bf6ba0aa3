"""Files in untrusted folders: links are not followed, and pipes and devices do not block."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from sysgym.errors import StorageError, SysgymError
from sysgym.scenarios.files import (
    check_replaceable,
    own_file,
    read_limited,
    read_lines,
    replacing,
    write_atomically,
)


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


@pytest.mark.parametrize("name", ["lines.jsonl", "lines.jsonl.gz"])
def test_lines_come_one_by_one_within_limits(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    content = b"one\n\ntwo\r\n" + b"x" * 9 + b"\n"

    def write(content: bytes) -> None:
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)

    write(content)
    assert list(read_lines(path, 20, 10)) == [b"one\n", b"\n", b"two\r\n", b"x" * 9 + b"\n"]
    with pytest.raises(SysgymError, match=rf"{name}, line 4: longer than 9e-06 MB"):
        list(read_lines(path, 20, 9))
    with pytest.raises(SysgymError, match=rf"{name}: larger than 1\.9e-05 MB"):
        list(read_lines(path, 19, 10))
    write(b"")
    assert list(read_lines(path, 20, 10)) == []
    with pytest.raises(SysgymError, match="cannot be read: No such file"):
        list(read_lines(tmp_path / f"absent-{name}", 20, 10))


def test_compressed_lines_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines.gz"
    content = b"".join(b"%d\n" % number for number in range(10_000))
    path.write_bytes(gzip.compress(content)[:-100])
    found: list[bytes] = []
    with pytest.raises(SysgymError, match=r"lines\.gz: the compressed data end too early"):
        found.extend(read_lines(path, 100_000, 10))
    *found, last = read_lines(path, 100_000, 10, may_be_cut=True)
    assert content.startswith(b"".join(found) + last)
    assert len(found) > 9_000
    assert not last.endswith(b"\n")
    path.write_bytes(gzip.compress(b"one\ntwo"))
    with pytest.raises(SysgymError, match=r"lines\.gz, line 2: ends in the middle of a line"):
        list(read_lines(path, 100, 10))
    assert list(read_lines(path, 100, 10, may_be_cut=True)) == [b"one\n", b"two"]
    for damaged in (b"one\n", gzip.compress(b"one\n")[:10] + b"\xff" * 20):
        path.write_bytes(damaged)
        with pytest.raises(SysgymError, match=r"lines\.gz: not compressed by gzip, or damaged"):
            list(read_lines(path, 100, 10))
    monkeypatch.setattr("sysgym.scenarios.files.LARGEST_UNPACKED_BYTES", 100)
    path.write_bytes(gzip.compress(content))
    with pytest.raises(SysgymError, match=r"larger than 0\.0001 MB when unpacked"):
        list(read_lines(path, 100_000, 10))
