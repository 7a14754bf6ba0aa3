"""Recordings of runs: lines of JSON in a file, readable while they are written and after Ctrl-C.

The first line describes the run. Every further line is a frame, or a change made before the next frame. A
recording is data: reading it runs no code, and every field is checked. The file may be compressed (``.gz``).
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict

from sysgym import __version__
from sysgym.bench.results.row_format import ContenderFields, Strict, checked
from sysgym.errors import ResultMismatch, SysgymError
from sysgym.live.frames import Frame
from sysgym.scenarios.files import GZIP, make_folder, own_file, parse_json, read_lines, storing
from sysgym.scenarios.schema.suite import Seed

FORMAT = 1
LARGEST_BYTES = 500_000_000
"""Maximum size of a recording, two hours of a fat-tree; compressed recordings have a lower limit."""

LARGEST_LINE_BYTES = 16_000_000
MOST_FRAMES = 200_000


class Recorder:
    """Writer of a recording; without compression, every frame is in the file before the next is simulated.

    Args:
        path: File to write, ``.jsonl`` or ``.jsonl.gz``.
        header: Description of the run.

    Raises:
        StorageError: The file cannot be written.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self._path = path
        self._file: Any = None
        self.n_frames = 0
        self.begin(header)

    def begin(self, header: Mapping[str, Any]) -> None:
        """Begin the recording; an earlier recording in the file is replaced."""
        self.close()
        with storing(self._path):
            make_folder(self._path.parent)
            # A constant mtime, so that equal runs give equal files.
            raw = open(self._path, "wb", opener=own_file)  # noqa: SIM115, closed by close()
            self._file = gzip.GzipFile("", "wb", 9, raw, mtime=0) if self._path.suffix == GZIP else raw
            self._raw = raw
        self.n_frames = 0
        self._write({"sysgym_live": FORMAT, "version": __version__, **header})

    def add(self, frame: Frame) -> None:
        """Write the changes of a frame, and then the frame."""
        for lane, key, value in frame.changes:
            self._write({"change": [lane, key, value]})
        self._write({"frame": {"n": frame.number, "t": frame.time, "lanes": list(frame.lanes)}})
        self.n_frames += 1

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with storing(self._path):
                self._file.close()
                self._raw.close()
            self._file = None

    def _write(self, line: Mapping[str, Any]) -> None:
        with storing(self._path):
            self._file.write(json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n")
            if self._file is self._raw:
                self._file.flush()  # each flush would end a compressed block


class Recorded(NamedTuple):
    """Contents of a recording.

    Attributes:
        header: Description of the run.
        frames: All frames, with their changes.
        incomplete: Whether the last line was cut off and is therefore omitted.
    """

    header: dict[str, Any]
    frames: list[Frame]
    incomplete: bool


def read_recording(path: Path) -> Recorded:
    """Read a recording.

    Raises:
        SysgymError: The file cannot be read, or a line is invalid; the message states the line, what was
            expected and what to do.
    """
    header: dict[str, Any] = {}
    frames: list[Frame] = []
    changes: list[tuple[int | None, str, float | str]] = []
    incomplete, number = False, 0
    for line in read_lines(path, LARGEST_BYTES, LARGEST_LINE_BYTES, may_be_cut=True):
        if not line.endswith(b"\n"):
            incomplete = True
            break
        number += 1
        value = _object(path, number, line)
        if number == 1:
            header = _header(path, value)
        elif value.keys() == {"change"}:
            changes.append(_change(path, number, value["change"], len(header["lanes"])))
        elif value.keys() == {"frame"}:
            frames.append(_frame(path, number, value["frame"], header, tuple(changes)))
            changes = []
        else:
            raise _problem(path, number, f"an object with {sorted(value)}", '"frame" or "change"')
        if len(frames) > MOST_FRAMES:
            raise _problem(path, number, f"more than {MOST_FRAMES} frames", "fewer")
        if len(frames) > 1 and frames[-1].time < frames[-2].time:
            raise _problem(path, number, f"time {frames[-1].time:g}", f"{frames[-2].time:g} or later")
    if not number:
        raise _problem(path, 1, "an empty file", "a recording of sysgym live --record")
    if not frames:
        raise _problem(path, number, "no frame", "at least one")
    return Recorded(header, frames, incomplete)


def compare(recorded: Recorded, make_run: Callable[[], Any]) -> int:
    """Simulate a recorded run again and compare every frame; return their number.

    Args:
        recorded: The recording.
        make_run: Function that returns a :class:`~sysgym.live.run.Run` of the recording's scenario,
            contenders and seed.

    Raises:
        ResultMismatch: A frame differs.
    """
    run = make_run()
    try:
        for frame in recorded.frames:
            for lane, key, value in frame.changes:
                run.change(lane, key, value)
            again = run.next_frame()
            if again is None or json.dumps(again.to_json()) != json.dumps(frame.to_json()):
                raise ResultMismatch(
                    f"frame {frame.number} at {frame.time:g}: the simulation gives other numbers than the"
                    " recording, so versions or checkpoints differ, or the file was edited"
                )
    finally:
        run.close()
    return len(recorded.frames)


_AGAIN = "record the run again with sysgym live SCENARIO --record FILE"


def _problem(path: Path, line: int, found: str, expected: str) -> SysgymError:
    return SysgymError(f"{path}, line {line}: expected {expected}, got {found}; {_AGAIN}")


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = parse_json(line)
    except ValueError as error:
        raise _problem(path, number, f"something else ({error})", "JSON") from None
    if not isinstance(value, dict):
        raise _problem(path, number, type(value).__name__, "a JSON object")
    return value


_HEADER_KINDS: dict[str, type | tuple[type, ...]] = {
    "scenario": str,
    "title": str,
    "family": str,
    "split": str,
    "seed": int,
    "episode_s": (int, float),
    "resolved": dict,
    "contenders": list,
    "lanes": list,
}


class _RunFields(Strict):
    """Fields of the first line that are needed to simulate the run again."""

    model_config = ConfigDict(extra="ignore")

    split: Literal["train", "validation", "test"]
    seed: Seed
    contenders: list[ContenderFields]


_LANE_KINDS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "parts": str,
    "panels": list,
    "charts": list,
    "facts": list,
    "events": dict,
    "places": list,
    "controls": list,
    "time_unit": str,
    "end": (int, float),
    "interval": (int, float),
}
_PANEL_KINDS = {
    "network": ("nodes", "links"),
    "bars": ("states",),
    "levels": ("names",),
    "grid": ("rows", "columns", "states"),
}


def _header(path: Path, header: dict[str, Any]) -> dict[str, Any]:
    if header.get("sysgym_live") != FORMAT:
        found = f'"sysgym_live": {header.get("sysgym_live")!r}'
        raise _problem(path, 1, found, f'"sysgym_live": {FORMAT}, the format of this version')
    _check_kinds(path, header, _HEADER_KINDS, "")
    try:
        checked(_RunFields, header)
    except ValueError as error:
        raise SysgymError(f"{path}, line 1: {error}; {_AGAIN}") from None
    if not header["lanes"] or len(header["lanes"]) != len(header["contenders"]):
        raise _problem(path, 1, f"{len(header['lanes'])} lanes", "one for each contender")
    for number, lane in enumerate(header["lanes"]):
        if not isinstance(lane, dict):
            raise _problem(path, 1, f"lanes[{number}] = {lane!r}", "an object")
        _check_kinds(path, lane, _LANE_KINDS, f"lanes[{number}].")
        for panel in lane["panels"]:
            kind = panel.get("kind") if isinstance(panel, dict) else None
            if (
                not isinstance(kind, str)
                or kind not in _PANEL_KINDS
                or not all(isinstance(panel.get(k), list) for k in _PANEL_KINDS[kind])
            ):
                raise _problem(
                    path, 1, f"a panel of kind {kind!r}", f"one of {sorted(_PANEL_KINDS)}, complete"
                )
        for key in ("charts", "facts", "controls"):
            if not all(isinstance(one, dict) and isinstance(one.get("key"), str) for one in lane[key]):
                raise _problem(path, 1, f"lanes[{number}].{key} with something else", "objects with a key")
    return header


def _check_kinds(
    path: Path, found: Mapping[str, Any], kinds: Mapping[str, type | tuple[type, ...]], where: str
) -> None:
    for key, kind in kinds.items():
        if not isinstance(found.get(key), kind) or isinstance(found[key], bool):
            names = kind.__name__ if isinstance(kind, type) else "a number"
            raise _problem(path, 1, f"{where}{key} = {found.get(key)!r}"[:200], f"{where}{key}, {names}")


def _change(path: Path, number: int, change: Any, n_lanes: int) -> tuple[int | None, str, float | str]:
    good = (
        isinstance(change, list)
        and len(change) == 3
        and (change[0] is None or (type(change[0]) is int and 0 <= change[0] < n_lanes))
        and isinstance(change[1], str)
        and type(change[2]) in (int, float, str)
    )
    if not good:
        raise _problem(path, number, f"{change!r}"[:200], "a change: lane or null, key, value")
    return change[0], change[1], change[2]


def _frame(
    path: Path,
    number: int,
    frame: Any,
    header: Mapping[str, Any],
    changes: tuple[tuple[int | None, str, float | str], ...],
) -> Frame:
    if not isinstance(frame, dict) or frame.keys() != {"n", "t", "lanes"}:
        raise _problem(path, number, f"{frame!r}"[:200], "a frame with n, t and lanes")
    lanes, scenes = frame["lanes"], header["lanes"]
    if type(frame["n"]) is not int or type(frame["t"]) not in (int, float):
        raise _problem(path, number, f"n = {frame['n']!r}, t = {frame['t']!r}"[:200], "numbers")
    if not isinstance(lanes, list) or len(lanes) != len(scenes):
        raise _problem(path, number, "another number of lanes", f"{len(scenes)}, as in line 1")
    for lane, scene in zip(lanes, scenes, strict=True):
        if not isinstance(lane, dict) or lane.keys() != {"values", "events"}:
            raise _problem(path, number, f"{lane!r}"[:200], "a lane with values and events")
        if not isinstance(lane["values"], dict) or not all(map(_is_data, lane["values"].values())):
            raise _problem(path, number, "values of another kind", "numbers, null, or lists of them")
        events = lane["events"]
        if not isinstance(events, list) or not all(_is_event(event, scene) for event in events):
            raise _problem(path, number, f"{events!r}"[:200], "events: kind, place and count")
    return Frame(frame["n"], frame["t"], tuple(lanes), changes)


def _is_data(value: Any) -> bool:
    """Return whether a value is a number, null, or a list of such values or of rows of them."""
    return all(one is None or (type(one) in (int, float) and math.isfinite(one)) for one in _flat(value))


def _flat(value: Any, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, list) and depth < 2:
        for one in value:
            yield from _flat(one, depth + 1)
    else:
        yield value


def _is_event(event: Any, scene: Mapping[str, Any]) -> bool:
    return (
        isinstance(event, list)
        and len(event) == 3
        and isinstance(event[0], str)
        and event[0] in scene["events"]
        and type(event[1]) is int
        and 0 <= event[1] < max(len(scene["places"]), 1)
        and type(event[2]) is int
        and event[2] > 0
    )
