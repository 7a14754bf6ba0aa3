"""Videos of episodes: ``sysgym run --video``."""

from __future__ import annotations

import math
import os
import signal
import tempfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sysgym.errors import MissingExtra, SysgymError

if TYPE_CHECKING:
    from PIL import Image

Picture = NDArray[np.uint8]

EXTRA = "video"
SUFFIXES = (".mp4", ".gif")
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg")
MOST_FRAMES = {".mp4": 1500, ".gif": 250}
"""Maximum number of frames: a minute at 25 per second; fewer in a GIF, whose frames stay in memory."""
GIF_WIDTH = 960
GIF_COLOURS, GIF_EXACT_COLOURS = 256, 24
NEAR = 10
"""Least visible difference of colours, of 255."""
GIF_PAUSE_MS = 1500
"""Pause after the last frame of a GIF."""
QUALITY = 7
"""Quality of the video, of 10; keeps thin lines and letters sharp."""


class Video:
    """Video in progress, in a temporary file beside its path until it is complete.

    Args:
        path: File to write, .mp4 (H.264) or .gif.
        fps: Frames per second.
        n_steps: Number of decisions of the episode, which sets the number of decisions per frame; None:
            unknown, one frame per decision.

    Raises:
        SysgymError: The suffix is unknown, or the file cannot be written.
        MissingExtra: The library for this suffix is not installed.
    """

    def __init__(self, path: Path, fps: float, n_steps: int | None) -> None:
        self.path, self.fps, self.n_steps = path, fps, n_steps
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES:
            raise SysgymError(
                f"--video {path}: expected a name that ends in {' or '.join(SUFFIXES)},"
                f" got {suffix or 'none'!r}"
            )
        if suffix == ".mp4":
            try:
                import imageio_ffmpeg  # noqa: F401
            except ImportError as error:
                raise MissingExtra(EXTRA, "a video in .mp4 (a .gif needs no extra)") from error
        self.every = max(math.ceil((n_steps or 1) / MOST_FRAMES[suffix]), 1)
        """Number of decisions per frame."""
        self.n_frames = 0
        self._part = writable_beside(path, "--video")
        self._writer = _Mp4(self._part, fps) if suffix == ".mp4" else _Gif(self._part, fps)

    def add(self, picture: Picture) -> None:
        """Add a frame.

        Args:
            picture: Shape (height, width, 3).

        Raises:
            SysgymError: The frame cannot be written.
        """
        try:
            with _interrupt_later():
                self._writer.add(picture)
                self.n_frames += 1
        except OSError as error:
            raise self._unwritten(error) from error

    def keep(self) -> None:
        """Finish the file and move it to its path; without a frame there is no file.

        Raises:
            SysgymError: The file cannot be written.
        """
        try:
            with _interrupt_later():
                self._writer.finish()
                if self.n_frames:
                    if not self._part.stat().st_size:
                        raise OSError("ffmpeg wrote nothing; see its messages above")
                    os.replace(self._part, self.path)
        except OSError as error:
            raise self._unwritten(error) from error
        finally:
            self._part.unlink(missing_ok=True)

    def discard(self) -> None:
        """Delete the unfinished file."""
        try:
            self._writer.finish()
        except OSError:
            pass  # the error has been reported already
        finally:
            self._part.unlink(missing_ok=True)

    def _unwritten(self, error: OSError) -> SysgymError:
        reason = error.strerror or str(error).partition("\n")[0]
        return SysgymError(f"{self.path}: the video cannot be written: {reason}")


@contextmanager
def recording(path: Path, fps: float, n_steps: int | None) -> Iterator[Video]:
    """Record a video while the block runs; Ctrl-C keeps the frames so far, an error discards them.

    Args:
        path: File to write.
        fps: Frames per second.
        n_steps: Number of decisions of the episode, if known.

    Raises:
        SysgymError: As for :class:`Video`, before the block runs.
    """
    video = Video(path, fps, n_steps)
    try:
        yield video
    except KeyboardInterrupt:
        video.keep()
        raise
    except BaseException:
        video.discard()
        raise
    video.keep()


@contextmanager
def _interrupt_later() -> Iterator[None]:
    """Delay Ctrl-C: it would kill ffmpeg in the middle of a frame and make the file unusable."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def check_picture(path: Path) -> None:
    """Check that a picture can be written.

    Args:
        path: File to write.

    Raises:
        SysgymError: The suffix is unknown, or the file cannot be written.
    """
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        raise SysgymError(
            f"--picture {path}: expected a name that ends in {' or '.join(PICTURE_SUFFIXES)},"
            f" got {path.suffix or 'none'!r}"
        )
    writable_beside(path, "--picture").unlink()


def writable_beside(path: Path, option: str) -> Path:
    """Create an empty temporary file in the folder of another file and return its name.

    Args:
        path: Path of the other file; its folder is created if necessary.
        option: Option of the command line, for error messages.

    Raises:
        SysgymError: The file cannot be created, or the path is a folder.
    """
    if path.is_dir():
        raise SysgymError(f"{option} {path}: expected a file, got a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise SysgymError(f"{option} {path}: cannot be written: {error.strerror or error}") from error
    os.close(handle)
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(name, 0o666 & ~umask)  # permissions of ordinary files; mkstemp's are private
    return Path(name)


def even(picture: Picture) -> Picture:
    """Return a picture padded with white to even width and height, as H.264 requires."""
    odd = picture.shape[0] % 2, picture.shape[1] % 2
    if any(odd):
        picture = np.pad(picture, ((0, odd[0]), (0, odd[1]), (0, 0)), constant_values=255)
    return np.ascontiguousarray(picture)


class _Mp4:
    """Writer of H.264 by the library's ffmpeg, in a process group of its own that Ctrl-C does not reach."""

    def __init__(self, path: Path, fps: float) -> None:
        self._path, self._fps = path, fps
        self._sink: Any = None
        self._shape: tuple[int, ...] = ()

    def add(self, picture: Picture) -> None:
        from imageio_ffmpeg import write_frames

        picture = even(picture)
        if self._sink is None:
            self._shape = picture.shape
            self._sink = write_frames(
                str(self._path),
                (picture.shape[1], picture.shape[0]),
                fps=self._fps,
                codec="libx264",
                quality=QUALITY,
                macro_block_size=2,
            )
            self._sink.send(None)
        if picture.shape != self._shape:
            raise SysgymError(f"a frame of shape {picture.shape} after one of {self._shape}")
        self._sink.send(picture)

    def finish(self) -> None:
        if self._sink is not None:
            self._sink.close()


class _Gif:
    """Writer of a GIF with frames at most GIF_WIDTH pixels wide and the palette of the last one."""

    def __init__(self, path: Path, fps: float) -> None:
        self._path, self._fps = path, fps
        self._size = (0, 0)
        self._packed: list[bytes] = []

    def add(self, picture: Picture) -> None:
        from PIL import Image

        image = Image.fromarray(picture)
        if image.width > GIF_WIDTH:
            height = round(image.height * GIF_WIDTH / image.width)
            image = image.resize((GIF_WIDTH, height), Image.Resampling.LANCZOS)
        if self._packed and image.size != self._size:
            raise SysgymError(f"a frame of {image.size} pixels after one of {self._size}")
        self._size = image.size
        self._packed.append(zlib.compress(image.tobytes(), 1))

    def finish(self) -> None:
        if not self._packed:
            return
        from PIL import Image

        def unpacked(packed: bytes) -> Image.Image:
            return Image.frombytes("RGB", self._size, zlib.decompress(packed))

        palette = _palette(np.asarray(unpacked(self._packed[-1])))
        plain = Image.Dither.NONE
        frames = (unpacked(packed).quantize(palette=palette, dither=plain) for packed in self._packed)
        # The format stores durations in hundredths of a second.
        durations_ms = [10 * max(round(100.0 / self._fps), 2)] * len(self._packed)
        durations_ms[-1] += GIF_PAUSE_MS
        next(frames).save(self._path, save_all=True, append_images=frames, duration=durations_ms, loop=0)


def _palette(picture: Picture) -> Image.Image:
    """Return an image with a picture's palette: its most frequent colours unchanged, then its other shades.

    Each shade counts once, so that thin lines keep their colour although most of the picture is white.
    """
    from PIL import Image

    shades, counts = np.unique(picture.reshape(-1, 3), axis=0, return_counts=True)
    exact = shades[np.argsort(-counts, kind="stable")[:GIF_EXACT_COLOURS]]
    n_others = GIF_COLOURS - GIF_EXACT_COLOURS
    found = Image.fromarray(shades[None]).quantize(n_others, method=Image.Quantize.MEDIANCUT).getpalette()
    others = np.array(found, dtype=np.int64).reshape(-1, 3)[:n_others]
    # Pillow's search for the nearest colour is approximate and would often miss an exact one.
    distance = np.abs(others[:, None] - exact[None]).max(axis=2).min(axis=1)
    palette = Image.new("P", (1, 1))
    palette.putpalette([*exact.ravel().tolist(), *others[distance > NEAR].ravel().tolist()])
    return palette
