"""Pieces of a rank's step: what each thread and stream did, one after another.

A thread's outermost operators are its pieces. One that starts something elsewhere, or waits for it, is cut at
the calls that do so: what follows in it cannot have been before.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sysgym.emulator.training.formats.kineto_events import Event, RankEvents, Step
from sysgym.emulator.training.operations import THREAD

GLOO_STREAM = "gloo"
_GLOO_LAUNCH = "c10d::"
_SYNCHRONISE = "Synchronize"
_LONGEST_NAME = 60
_ARGUMENTS = re.compile(r"<.*|\(.*")


class Piece(NamedTuple):
    """Something that one thread or stream did.

    Attributes:
        kind: Name of the operator, call, kernel or collective.
        stream: Name of the thread or stream.
        start_s: Start, since the base of the file.
        end_s: End.
        event: The event, or the one that was cut.
        host: Whether a thread did it.
        communicates: Whether it is a collective, a send or a receive.
        launch: Place among the pieces of what started it; -1 if it is not known.
    """

    kind: str
    stream: str
    start_s: float
    end_s: float
    event: Event
    host: bool = True
    communicates: bool = False
    launch: int = -1

    @property
    def synchronises(self) -> bool:
        """Whether it is a call that waits for a device."""
        return self.event.runtime and _SYNCHRONISE in self.event.name


@dataclass
class StepPieces:
    """Pieces of a step of a rank, stream by stream, each in the order of their starts.

    Attributes:
        step: The step.
        main: Name of the thread that runs the steps.
        pieces: The pieces.
        by_stream: Places of each stream's pieces.
        n_gloo_threads: Threads that ran gloo's collectives.
    """

    step: Step
    main: str
    pieces: list[Piece] = field(default_factory=list)
    by_stream: dict[str, list[int]] = field(default_factory=dict)
    n_gloo_threads: int = 0

    def add(self, piece: Piece) -> int:
        """Add a piece, and return its place."""
        place = len(self.pieces)
        self.pieces.append(piece)
        self.by_stream.setdefault(piece.stream, []).append(place)
        return place

    def streams(self, *, host: bool) -> list[list[int]]:
        """Return the places of each thread's pieces, or of each device stream's."""
        return [
            places
            for stream, places in self.by_stream.items()
            if self.pieces[places[0]].host == host and stream != GLOO_STREAM
        ]

    def signature(self) -> tuple[tuple[str, str, int], ...]:
        """Return what steps with the same operations have in common."""
        return tuple((piece.stream, piece.kind, piece.launch) for piece in self.pieces)


class StepCutter:
    """Cuts a rank's events into steps and pieces.

    Args:
        events: The rank's events.
    """

    def __init__(self, events: RankEvents) -> None:
        """Index the events; the class documentation describes the argument."""
        self.events = events
        self._starts = {lane: [event.start_s for event in found] for lane, found in events.host.items()}
        self._gloo_starts = [event.start_s for event in events.gloo]
        self._device_of = {
            event.correlation: event
            for device in events.device.values()
            for event in device
            if event.correlation is not None
        }

    def cut(self, step: Step) -> StepPieces:
        """Return the pieces of a step. What a device does belongs to the step that started it."""
        lanes = sorted(self.events.host, key=lambda lane: (lane != step.lane, lane))
        found = StepPieces(step, f"{THREAD} 0")
        started: list[tuple[Event, int]] = []
        n_threads = 0
        for lane in lanes:
            events = _within(self.events.host[lane], self._starts[lane], step)
            if not events:
                continue
            name = found.main if lane == step.lane else f"{THREAD} {n_threads + 1}"
            n_threads += lane != step.lane
            for piece in _outermost(events, name, self._special):
                place = found.add(piece)
                number = piece.event.correlation if piece.event.runtime else None
                device = None if number is None else self._device_of.get(number)
                if device is not None:
                    started.append((device, place))
        started.sort(key=lambda one: (one[0].lane, one[0].start_s))
        for event, launch in started:
            communicates = "nccl" in event.name.lower()
            kind = _kernel_name(event, communicates=communicates)
            stream = f"stream {event.lane[1]} of device {event.lane[0]}"
            found.add(Piece(kind, stream, event.start_s, event.end_s, event, False, communicates, launch))
        self._add_gloo(found, step)
        return found

    def _special(self, event: Event) -> bool:
        """Return whether an event starts something elsewhere, or waits for it."""
        if event.runtime:
            return event.correlation in self._device_of or _SYNCHRONISE in event.name
        return bool(self.events.gloo) and event.name.startswith(_GLOO_LAUNCH)

    def _add_gloo(self, found: StepPieces, step: Step) -> None:
        """Add the collectives of gloo, which its threads take in the order in which they are launched."""
        events = _within(self.events.gloo, self._gloo_starts, step)
        launches = [
            place
            for place, piece in enumerate(found.pieces)
            if piece.host and piece.kind.startswith(_GLOO_LAUNCH)
        ]
        launches.sort(key=lambda place: found.pieces[place].start_s)
        known = len(launches) == len(events)
        for number, event in enumerate(events):
            launch = launches[number] if known else -1
            found.add(Piece(event.name, GLOO_STREAM, event.start_s, event.end_s, event, False, True, launch))
        found.n_gloo_threads = len({event.lane for event in self.events.gloo})


def _within(events: Sequence[Event], starts: Sequence[float], step: Step) -> Sequence[Event]:
    """Return the events that start in a step."""
    return events[bisect_left(starts, step.start_s) : bisect_left(starts, step.end_s)]


def _outermost(events: Sequence[Event], stream: str, special: Callable[[Event], bool]) -> list[Piece]:
    """Return a thread's outermost operators, cut at the special calls inside them."""
    found: list[Piece] = []
    outer, done_s = None, -math.inf
    for event in events:
        if outer is not None and event.start_s >= outer.end_s:
            _close(found, outer, done_s, stream)
            outer = None
        if outer is None:
            outer, done_s = event, max(event.start_s, done_s)
            continue
        if not special(event):
            continue
        if event.start_s < done_s:
            # Inside another special call, which ends here for what follows.
            found[-1] = found[-1]._replace(end_s=max(event.start_s, found[-1].start_s))
        else:
            found.append(Piece(outer.name, stream, done_s, event.start_s, outer))
        done_s = max(done_s, event.end_s)
        found.append(Piece(event.name, stream, event.start_s, event.end_s, event))
    if outer is not None:
        _close(found, outer, done_s, stream)
    return found


def _close(found: list[Piece], outer: Event, done_s: float, stream: str) -> None:
    """Add the rest of an outermost operator."""
    start_s = max(done_s, outer.start_s)
    found.append(Piece(outer.name, stream, start_s, max(outer.end_s, start_s), outer))


def _kernel_name(event: Event, *, communicates: bool) -> str:
    """Return a short name of what a device did."""
    collective = event.args.get("Collective name")
    if communicates and isinstance(collective, str) and collective:
        return f"nccl:{collective}"[:_LONGEST_NAME]
    name = event.name.removeprefix("void ")
    return (_ARGUMENTS.sub("", name).strip() or name)[:_LONGEST_NAME]
