"""Marking threshold, estimated by the shortest marked queue of a flow so far.

Laws that respond to marks keep the queue near the threshold, and other laws keep longer queues, so the
threshold distinguishes them. Marks with a very short queue, as of another port of the path, are ignored.

The functions use the slot below, in addition to those of the module ``drains``; a law's own slots begin at
:data:`OWN`.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.transports.searched import drains

LEAST_MARKED_QUEUE = 0.5  # packets; shorter marked queues are ignored
AT_THRESHOLD = 1.2  # over the shortest marked queue; laws that respond to marks keep no longer queues
ABOVE_THRESHOLD = 1.5  # over the shortest marked queue; above it, other laws do not respond to marks

MARKED_QUEUE = drains.OWN  # shortest marked queue, packets; 0 if there was none
OWN = drains.OWN + 1


@njit(forceinline=True)
def note_marked_queue(flow: Any, queue: float) -> None:
    """Store a marked queue, in packets, if it is the shortest."""
    state = flow.state
    if queue >= LEAST_MARKED_QUEUE and (state[MARKED_QUEUE] == 0.0 or queue < state[MARKED_QUEUE]):
        state[MARKED_QUEUE] = queue


@njit(forceinline=True)
def is_up_to_threshold(flow: Any, queue: float) -> bool:
    """Return whether laws that respond to marks may keep this mean queue, in packets."""
    return bool(queue < AT_THRESHOLD * flow.state[MARKED_QUEUE])


@njit(forceinline=True)
def is_far_above_threshold(flow: Any, queue: float) -> bool:
    """Return whether a mean queue, in packets, is too long for laws that respond to marks."""
    return bool(queue > ABOVE_THRESHOLD * flow.state[MARKED_QUEUE])
