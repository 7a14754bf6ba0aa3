"""Threshold of marks: the shortest queue that was marked, kept for good.

Laws that respond to marks keep the queue near it, and others keep longer ones, so it tells them apart. A mark
that comes with a very short queue, as of another port of the path, tells of no threshold.

The functions use the slot below, beside those of the module ``drains``; a law keeps its own from :data:`OWN`
on.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.searched import drains

LEAST_MARKED_QUEUE = 0.5  # packets; shorter ones tell of no threshold
AT_THRESHOLD = 1.2  # of the shortest marked queue; longer ones are not kept by laws that respond to marks
ABOVE_THRESHOLD = 1.5  # of the shortest marked queue; above it, others do not respond to marks

MARKED_QUEUE = drains.OWN  # the shortest that was marked, packets; 0 if none was
OWN = drains.OWN + 1


@njit(forceinline=True)
def note_marked_queue(flow: Any, queue: float) -> None:
    """Keep a marked queue, in packets, if it is the shortest."""
    state = flow.state
    if queue >= LEAST_MARKED_QUEUE and (state[MARKED_QUEUE] == 0.0 or queue < state[MARKED_QUEUE]):
        state[MARKED_QUEUE] = queue


@njit(forceinline=True)
def is_up_to_threshold(flow: Any, queue: float) -> bool:
    """Return whether laws that respond to marks may keep such a mean queue, in packets."""
    return bool(queue < AT_THRESHOLD * flow.state[MARKED_QUEUE])


@njit(forceinline=True)
def is_far_above_threshold(flow: Any, queue: float) -> bool:
    """Return whether a mean queue, in packets, is so long that others do not respond to marks."""
    return bool(queue > ABOVE_THRESHOLD * flow.state[MARKED_QUEUE])
