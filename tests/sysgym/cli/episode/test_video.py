"""`sysgym run --video`: playable files, and errors before the episode."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sysgym.cli.episode.video import MOST_FRAMES, Video, _interrupt_later, even, recording
from sysgym.errors import MissingExtra, SysgymError

Call = Callable[..., tuple[int, str, str]]
Picture = NDArray[np.uint8]


def _frames(n: int, height: int = 64, width: int = 96) -> Iterator[Picture]:
    for number in range(n):
        picture = np.full((height, width, 3), 255, np.uint8)
        picture[:, : 5 * number + 1] = (0, 114, 178)
        yield picture


def _film(path: Path, frames: list[Picture], then: type[BaseException] | None = None) -> None:
    with recording(path, 25.0, 100) as video:
        for frame in frames:
            video.add(frame)
        if then is not None:
            raise then


def _decoded(path: Path, height: int, width: int) -> Picture:
    """Every frame of an MP4 of that size, as ffmpeg alone sees it, shape (n_frames, height, width, 3)."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    done = subprocess.run([ffmpeg, "-i", str(path), *raw], capture_output=True, check=True)
    assert "h264" in (said := done.stderr.decode())
    assert f" {width}x{height}" in said
    assert "yuv420p" in said, "which all players know"
    return np.frombuffer(done.stdout, np.uint8).reshape(-1, height, width, 3)


def test_an_episode_becomes_a_video_that_plays(tiny: Path, call: Call, tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    path = tmp_path / "new folder" / "episode.mp4"
    code, out, err = call("run", tiny, "-c", "aimd", "--seed", "200", "--video", path)
    assert code == 0, err
    assert f"video: {path} (12 frames, 0.48 s)" in " ".join(out.split())
    frames = _decoded(path, 720, 1280)
    assert len(frames) == 12
    assert np.abs(frames[0].astype(int) - frames[-1]).max() > 100, "something happens"
    assert [found.name for found in path.parent.iterdir()] == ["episode.mp4"], "and nothing is left beside it"


def test_a_gif_needs_no_extra(
    tiny: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    path = tmp_path / "episode.gif"
    code, _, err = call("run", tiny, "--video", path, "--fps", "20", "--json")
    assert code == 0
    assert "12 frames" in err
    with Image.open(path) as image:
        assert (image.n_frames, image.size) == (12, (960, 540))  # type: ignore[attr-defined]
        assert image.info["duration"] == 50


def test_without_the_library_the_line_that_installs_it_is_said(
    tiny: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    code, out, err = call("run", tiny, "--video", tmp_path / "episode.mp4")
    assert (code, out) == (2, "")
    assert 'pip install "sysgym[video]"' in err
    with pytest.raises(MissingExtra):
        Video(tmp_path / "x.mp4", 25.0, 1)


@pytest.mark.parametrize(
    ("option", "name", "words"),
    [
        ("--video", "episode.avi", "expected a name that ends in .mp4 or .gif, got '.avi'"),
        ("--video", "episode", "got 'none'"),
        ("--video", "/proc/nothing/episode.gif", "cannot be written"),
        ("--video", "folder.gif", "expected a file, got a folder"),
        ("--picture", "episode.xyz", "expected a name that ends in .png"),
        ("--picture", "/proc/nothing/episode.png", "cannot be written"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_is_played(
    option: str, name: str, words: str, tiny: Path, call: Call, tmp_path: Path
) -> None:
    (tmp_path / "folder.gif").mkdir()
    code, out, err = call("run", tiny, option, tmp_path / name)
    assert (code, out) == (2, ""), "no metrics: nothing was played"
    assert words in " ".join(err.split())


def test_a_video_and_a_terminal_are_two_ways(tiny: Path, call: Call) -> None:
    code, _, err = call("run", tiny, "--render", "ansi", "--video", "x.gif")
    assert code == 2
    assert "--video" in err
    assert "choose one" in err


def test_long_episodes_have_a_frame_for_every_so_many_decisions(tmp_path: Path) -> None:
    most = MOST_FRAMES[".gif"]
    for n_steps, every in ((None, 1), (1, 1), (most, 1), (most + 1, 2), (10 * most, 10)):
        video = Video(tmp_path / "x.gif", 25.0, n_steps)
        assert video.every == every
        video.discard()
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_what_there_was(tmp_path: Path) -> None:
    path = tmp_path / "stopped.mp4"
    pytest.importorskip("imageio_ffmpeg")
    with pytest.raises(KeyboardInterrupt):
        _film(path, [*_frames(7)], then=KeyboardInterrupt)
    assert len(_decoded(path, 64, 96)) == 7


def test_ctrl_c_before_the_first_frame_leaves_nothing(tmp_path: Path) -> None:
    for name in ("stopped.gif", "stopped.mp4"):
        if name.endswith("mp4"):
            pytest.importorskip("imageio_ffmpeg")
        with pytest.raises(KeyboardInterrupt):
            _film(tmp_path / name, [], then=KeyboardInterrupt)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_waits_for_the_end_of_a_frame() -> None:
    after = []

    def write() -> None:
        with _interrupt_later():
            signal.raise_signal(signal.SIGINT)
            after.append("written")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert after == ["written"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_leaves_nothing_and_an_old_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "old.gif"
    path.write_bytes(b"old")
    with pytest.raises(SysgymError, match="a frame of"):
        _film(path, [*_frames(2), *_frames(1, height=32)])
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_episode_stopped_by_the_user_says_what_is_left(
    tiny: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sysgym.agents.congestion.max import MaxAgent

    decisions = []
    act = MaxAgent.act

    def stop_at_the_sixth(self: MaxAgent, observation: object) -> object:
        decisions.append(observation)
        if len(decisions) == 6:
            raise KeyboardInterrupt
        return act(self, observation)

    monkeypatch.setattr(MaxAgent, "act", stop_at_the_sixth)
    path = tmp_path / "stopped.gif"
    code, out, _ = call("run", tiny, "-c", "dctcp", "--video", path)
    assert code != 0
    assert "has the first 5 frames" in " ".join(out.split())
    with Image.open(path) as image:
        assert image.n_frames == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(("shape", "wanted"), [((3, 5, 3), (4, 6, 3)), ((4, 6, 3), (4, 6, 3))])
def test_odd_pictures_become_even(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    made = even(np.zeros(shape, np.uint8))
    assert made.shape == wanted
    assert (made[: shape[0], : shape[1]] == 0).all()
    assert (made[shape[0] :] == 255).all()
