"""Commands that cannot write report it in one sentence, leave no incomplete file, and can be resumed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sysgym.bench.leaderboard.entries import pack
from sysgym.bench.results.rows import RESULTS, Row, read_rows
from sysgym.errors import StorageError

Call = Callable[..., tuple[int, str, str]]
CommandLine = Callable[..., subprocess.CompletedProcess[str]]
WriteSuite = Callable[..., Path]
Place = tuple[Path, str]

SHIPPED = Path(__file__).parents[3] / "agents" / "checkpoints" / "ppo@iroko-dumbbell-10m.zip"


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root mounts a file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        _mount("-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"nothing can be mounted here: {error.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(params=["full", "read-only", "under a file"])
def place(request: pytest.FixtureRequest, played: Path, tmp_path: Path) -> Place:
    """A folder that nothing can be written to, with results in it where there can be any; and the reason."""
    if request.param == "under a file":
        (tmp_path / "file").write_text("x")
        return tmp_path / "file" / "folder", "Not a directory; a part of the path is a file"
    disk: Path = request.getfixturevalue("small_disk")
    shutil.copytree(played, disk / "results")
    if request.param == "full":
        with pytest.raises(OSError, match="No space"):
            (disk / "filler").write_bytes(bytes(2**20))
        return disk, "No space left on device; free some space, then run the same command again"
    _mount("-o", "remount,ro", str(disk))
    return disk, "Read-only file system; choose a folder that can be written to"


def _files(folder: Path) -> dict[Path, bytes]:
    """Everything in a folder, less empty files, which are no part of anything."""
    if not folder.is_dir():
        return {}
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.stat().st_size}


COMMANDS: dict[str, tuple[str | Path, ...]] = {
    "trace": ("run", "TINY", "--trace", "PLACE/new/trace.json"),
    "pcap": ("run", "TINY", "--pcap", "PLACE/new/link.pcap", "--pcap-link", "west->east"),
    "picture": ("run", "TINY", "--picture", "PLACE/new/episode.png"),
    "video": ("run", "TINY", "--video", "PLACE/new/episode.gif"),
    "export": ("export", SHIPPED, "--out", "PLACE/new/policy.h"),
    "picture of a scenario": ("show", "dumbbell-10g", "--picture", "PLACE/network.png"),
    "bench": ("bench", "SUITE", "--out", "PLACE/new", "--jobs", "1"),
    "train": ("train", "ppo", "TINY", "--out", "PLACE/new", "--steps", "32", "-p", "n_steps=16",
              "-p", "batch_size=16", "-p", "n_epochs=1", "--n-envs", "2"),
    "search": ("train", "neural", "TINY", "--out", "PLACE/new", "--steps", "1000"),
}  # fmt: skip


LONG = ("video", "bench", "train", "search")
"""Commands that take seconds to get to where they write."""


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (command, place)
        for command in COMMANDS
        for place in ("full", "read-only", "under a file")
        if command not in LONG or place == "full"
    ],
    indirect=["place"],
)
def test_what_cannot_be_written_is_said_in_a_sentence(
    place: Place, command: str, tiny: Path, write_suite: WriteSuite, call: Call
) -> None:
    if command == "train":
        pytest.importorskip("stable_baselines3", reason="the extra train is not installed")
    folder, reason = place
    before = _files(folder)
    words = {"TINY": str(tiny), "SUITE": str(write_suite('"dctcp"', 1)), "PLACE": str(folder)}
    arguments = [str(word) for word in COMMANDS[command]]
    for name, meaning in words.items():
        arguments = [word.replace(name, meaning) for word in arguments]
    code, _, err = call(*arguments)
    assert code == 2
    assert reason.partition(";")[0] in err
    assert str(folder) in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) <= 2
    assert _files(folder) == before, "nothing is there in part"


def test_a_report_that_cannot_be_written_leaves_what_was_there(place: Place, call: Call) -> None:
    folder, reason = place
    if not folder.is_dir():
        pytest.skip("there are no results")
    before = _files(folder)
    code, _, err = call("report", folder / "results")
    assert (code, err.count("\n")) == (2, 1)
    assert reason.partition(";")[0] in err
    assert _files(folder) == before
    assert call("validate", folder / "results", "--all", "--jobs", "1")[0] == 0, "who only reads can go on"


def test_an_entry_that_cannot_be_written_leaves_nothing(place: Place, played: Path) -> None:
    folder, reason = place
    before = _files(folder)
    with pytest.raises(StorageError, match=reason.partition(";")[0]):
        pack(played, folder / "quick" / "mine", title="Mine", by="Me", contenders=["dctcp"])
    assert _files(folder) == before
    assert not (folder / "quick" / "mine").exists()


def test_a_disk_that_fills_up_stops_the_run_which_goes_on_later(
    small_disk: Path, write_suite: WriteSuite, call: Call
) -> None:
    suite, out = write_suite('"dctcp", "reno", "cubic"', 40), small_disk / "out"
    code, _, err = call("bench", suite, "--out", out, "--jobs", "1")
    assert code == 2
    assert f"error: {out / RESULTS}: cannot be written: No space left on device; free some space, then" in err
    assert len(err.splitlines()) == 1
    content = (out / RESULTS).read_bytes()
    kept = [Row.from_line(line) for line in content.splitlines()]
    assert content.endswith(b"\n")
    assert 20 < len(kept) < 120
    _mount("-o", "remount,size=4m", str(small_disk))
    code, text, err = call("bench", suite, "--out", out, "--jobs", "1")
    assert code == 0, err
    assert f"120 of 120 episodes, {len(kept)} of them finished earlier" in text
    assert read_rows(out)[: len(kept)] == kept
