"""Events of one rank in a trace of PyTorch's profiler (Kineto, Chrome's Trace Event Format).

Used are spans (``ph`` = ``X``) of operators and of the runtime's calls on threads, of kernels and copies on
streams, of synchronisations (``cuda_sync``), of gloo's collectives and of steps (``ProfilerStep#N``), and the
arrows (``ac2g``) from a call to what it started. Names of fields are those that Kineto (pytorch/kineto,
libkineto/src/output_json.cpp) and PyTorch (torch/csrc/profiler/util.h) write.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.formats.files import content

REMEDY = (
    "record with torch.profiler.profile, call its step() after every step, and export_chrome_trace to one "
    "file a rank (docs/training-jobs.md)"
)

HOST = frozenset({"cpu_op", "cuda_runtime", "cuda_driver"})
DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_RUNTIME = frozenset({"cuda_runtime", "cuda_driver"})
_ANNOTATION, _SYNC, _RECORD, _ARROW = "user_annotation", "cuda_sync", "cuda_event", "ac2g"
_USED = HOST | DEVICE | {_ANNOTATION, _SYNC, _RECORD}
_STEP = re.compile(r"ProfilerStep#?\s?(\d{1,9})")
_RANK = re.compile(r"rank[_-]?(\d{1,9})", re.IGNORECASE)
_GLOO = "gloo:"
_US = 1e-6
_NO_ARGS: Mapping[str, Any] = {}


class Event(NamedTuple):
    """A span on a thread or a stream; times in seconds since the base of its file."""

    name: str
    start_s: float
    end_s: float
    lane: tuple[str, str]
    runtime: bool
    correlation: int | None
    args: Mapping[str, Any]


class Step(NamedTuple):
    """A step of a rank."""

    number: int
    start_s: float
    end_s: float
    lane: tuple[str, str]


@dataclass
class RankEvents:
    """Events of one rank, each list sorted by start.

    Attributes:
        rank: The rank.
        steps: Its steps.
        host: Operators and runtime calls by thread.
        device: Kernels and copies by stream.
        gloo: Collectives of gloo.
        syncs: Synchronisations that the profiler has recorded by correlation of their runtime call.
        records: Stream and time at which an event that others wait for was recorded, by correlation.
        malformed: Rows with a missing or impossible value.
        base_ns: What the times are relative to, of a clock that hosts share as well as they can.
    """

    rank: int
    base_ns: int = 0
    steps: list[Step] = field(default_factory=list)
    host: dict[tuple[str, str], list[Event]] = field(default_factory=dict)
    device: dict[tuple[str, str], list[Event]] = field(default_factory=dict)
    gloo: list[Event] = field(default_factory=list)
    syncs: dict[int, Event] = field(default_factory=dict)
    records: dict[int, int] = field(default_factory=dict)
    malformed: int = 0


def read_rank(path: Path, default_rank: int) -> RankEvents:
    """Return the events of a file.

    Args:
        path: A ``.json`` or ``.json.gz`` file.
        default_rank: Rank if neither the file nor its name says one.

    Raises:
        TraceError: If the file cannot be read, or is no trace of PyTorch's profiler.
    """
    try:
        trace = json.loads(content(path, REMEDY))
    except (ValueError, RecursionError) as error:
        raise TraceError(path, f"no JSON: {error}", "a trace of PyTorch's profiler", REMEDY) from error
    rows = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(rows, list):
        raise TraceError(path, 'no list "traceEvents"', "a trace of PyTorch's profiler", REMEDY)
    base_ns = trace.get("baseTimeNanoseconds", 0)
    found = RankEvents(_rank_of(trace, path, default_rank), int(base_ns) if _number(base_ns) else 0)
    arrows = _Arrows()
    for row in rows:
        if not _take(found, arrows, row):
            found.malformed += 1
    arrows.give_correlations()
    for events in (*found.host.values(), *found.device.values(), found.gloo):
        events.sort(key=lambda event: (event.start_s, -event.end_s))
    found.steps.sort(key=lambda step: step.start_s)
    if not any(found.host.values()) and not any(found.device.values()):
        raise TraceError(path, "no operator, kernel or copy", "a trace of PyTorch's profiler", REMEDY)
    return found


def _rank_of(trace: Mapping[str, Any], path: Path, default_rank: int) -> int:
    about = trace.get("distributedInfo")
    rank = about.get("rank") if isinstance(about, dict) else None
    if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 2**31:
        return rank
    named = _RANK.search(path.name)
    return int(named.group(1)) if named else default_rank


def _take(found: RankEvents, arrows: _Arrows, row: object) -> bool:
    """Add a row's event, if it is of use; return whether the row is well formed."""
    if not isinstance(row, dict):
        return False
    phase, category = row.get("ph"), row.get("cat")
    if category == _ARROW:
        return arrows.take(row)
    if phase != "X" or not isinstance(category, str) or category not in _USED:
        return isinstance(phase, str)
    name, start_us, length_us = row.get("name"), row.get("ts"), row.get("dur")
    args = row.get("args", _NO_ARGS)
    if not (isinstance(name, str) and _number(start_us) and _number(length_us) and isinstance(args, dict)):
        return False
    if length_us < 0.0 or not isinstance(row.get("tid"), int | str):
        return False
    start_s = start_us * _US
    lane = (str(row.get("pid")), str(row["tid"]))
    event = Event(
        name,
        start_s,
        start_s + length_us * _US,
        lane,
        category in _RUNTIME,
        _whole(args, "correlation"),
        args,
    )
    if category in HOST:
        events = found.host.setdefault(lane, [])
        events.append(event)
        if event.runtime and event.correlation is None:
            arrows.at_tail.append((events, len(events) - 1, (lane[1], start_us)))
    elif category in DEVICE:
        stream = (str(args.get("device", row.get("pid"))), str(args.get("stream", row["tid"])))
        events = found.device.setdefault(stream, [])
        events.append(event._replace(lane=stream))
        if event.correlation is None:
            arrows.at_head.append((events, len(events) - 1, (lane[1], start_us)))
    elif category == _SYNC:
        if event.correlation is not None:
            found.syncs[event.correlation] = event
    elif category == _RECORD:
        stream_number = _whole(args, "stream")
        if event.correlation is not None and stream_number is not None:
            found.records[event.correlation] = stream_number
    elif name.startswith(_GLOO):
        found.gloo.append(event)
    elif step := _STEP.fullmatch(name):
        found.steps.append(Step(int(step.group(1)), event.start_s, event.end_s, lane))
    return True


_Place = tuple[str, float]
_Unnumbered = tuple[list[Event], int, _Place]


class _Arrows:
    """Arrows from runtime calls to what they started; their ends are known by thread or stream and time."""

    def __init__(self) -> None:
        self.tails: dict[object, _Place] = {}
        self.heads: dict[_Place, object] = {}
        self.at_tail: list[_Unnumbered] = []
        self.at_head: list[_Unnumbered] = []

    def take(self, row: Mapping[str, Any]) -> bool:
        """Add one end of an arrow; return whether the row is well formed."""
        identity, time_us = row.get("id"), row.get("ts")
        if not isinstance(identity, int | str) or not _number(time_us) or "tid" not in row:
            return False
        place = (str(row["tid"]), time_us)
        if row.get("ph") == "s":
            self.tails[identity] = place
        else:
            self.heads[place] = identity
        return True

    def give_correlations(self) -> None:
        """Give the events without a correlation one that follows from the arrows."""
        numbers = {identity: -2 - number for number, identity in enumerate(self.tails)}
        at_tail = {place: numbers[identity] for identity, place in self.tails.items()}
        at_head = {place: numbers[one] for place, one in self.heads.items() if one in numbers}
        for unnumbered, number_at in ((self.at_tail, at_tail), (self.at_head, at_head)):
            for events, index, place in unnumbered:
                events[index] = events[index]._replace(correlation=number_at.get(place))


def _number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole(args: Mapping[str, Any], key: str) -> int | None:
    value = args.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
