"""Event queue of the packet simulator: a tournament tree, and in dense networks a wheel in front of it."""

from __future__ import annotations

from typing import Any

from numba import njit

from sysgym.emulator.packets.engine.event_queue import tournament, wheel
from sysgym.emulator.packets.engine.events import NO_EVENT, SOURCE_MASK


@njit
def begin(world: Any) -> None:
    """Prepare the queue for the loop."""
    if world.wheel_size > 0:
        wheel.start(world)
    else:
        tournament.shrink(world)


@njit
def end(world: Any) -> None:
    """Move all events to the tournament, which holds them while the loop does not run."""
    if world.wheel_size > 0:
        wheel.stop(world)


@njit
def push(world: Any, key: int) -> None:
    """Add the next event of a source, which must have none."""
    if world.wheel_slots > 0:
        wheel.add(world, key)
    else:
        tournament.add(world, key & SOURCE_MASK, key)


@njit(forceinline=True)
def replace(world: Any, source: int, key: int) -> None:
    """Set the next event of the source that is being handled, before any push; NO_EVENT: none."""
    if world.wheel_slots > 0:
        if key != NO_EVENT:
            wheel.add(world, key)
    else:
        tournament.replace(world, source, key)


@njit(forceinline=True)
def next_key(world: Any) -> int:
    """Return the key of the next event, NO_EVENT if there is none."""
    if world.wheel_slots > 0:
        return wheel.next_due(world)
    return tournament.least(world)


@njit(forceinline=True)
def take(world: Any, source: int) -> None:
    """Take out the next event, which belongs to a source, to handle it."""
    if world.wheel_slots > 0:
        wheel.look_ahead(world)
        world.due_first += 1
    else:
        tournament.take(world, source)
