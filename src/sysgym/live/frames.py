"""Frames of a run: the values of all lanes at one time, and the events since the previous frame."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

Change = tuple[int | None, str, float | str]
"""Number of the lane or None for all, key, and new value."""


@dataclass(frozen=True)
class Frame:
    """Values of all lanes at one time.

    Attributes:
        number: Number of the frame, from 0.
        time: Time in the scene's unit.
        lanes: For each lane, ``values`` by key and ``events`` since the previous frame.
        changes: Changes of settings since the previous frame.
    """

    number: int
    time: float
    lanes: tuple[Mapping[str, Any], ...]
    changes: tuple[Change, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the frame as data for JSON."""
        return {
            "n": self.number,
            "t": self.time,
            "lanes": list(self.lanes),
            "changes": [list(change) for change in self.changes],
        }


def after(earlier: Frame | None, later: Frame) -> Frame:
    """Return the later frame, including the events and changes of an earlier frame that was not shown.

    Events of the same kind at the same place are merged into one event with the sum of their counts, so that
    the size of the result does not grow with the number of omitted frames.
    """
    if earlier is None:
        return later
    lanes = tuple(
        {"values": newer["values"], "events": _summed((*older["events"], *newer["events"]))}
        for older, newer in zip(earlier.lanes, later.lanes, strict=True)
    )
    return replace(later, lanes=lanes, changes=(*earlier.changes, *later.changes))


def _summed(events: Iterable[list[Any]]) -> list[list[Any]]:
    counts: dict[tuple[str, int], int] = {}
    for kind, place, count in events:
        counts[kind, place] = counts.get((kind, place), 0) + count
    return [[kind, place, count] for (kind, place), count in counts.items()]


def thinned(frames: list[Frame], most: int) -> list[Frame]:
    """Return at most ``most`` + 1 evenly spaced frames, including the last one, with the events of all."""
    if len(frames) <= most:
        return frames
    every = math.ceil(len(frames) / most)
    kept: list[Frame] = []
    waiting: Frame | None = None
    for index, frame in enumerate(frames):
        waiting = after(waiting, frame)
        if index % every == 0 or index == len(frames) - 1:
            kept.append(replace(waiting, number=len(kept)))
            waiting = None
    return kept
