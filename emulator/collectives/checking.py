"""Check that a schedule performs its collective: every contribution exactly once on every device."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.collectives.collective import Kind, Phase
from sysgym.emulator.collectives.schedule import Schedule
from sysgym.scenarios.errors import SysgymError


class ScheduleError(SysgymError, ValueError):
    """Raised when a schedule does not perform its collective."""


def check_schedule(schedule: Schedule) -> None:
    """Check a schedule transfer by transfer, on counts of contributions.

    Of every chunk, each device holds a count for every device's contribution. A partial sum moves: its counts
    are added at the receiver and removed at the sender. A copy gives the receiver the sender's counts.

    Raises:
        ScheduleError: If a transfer sends what the sender does not have or the receiver has already, or a
            device ends without the complete chunk that it should have.
    """
    task = schedule.task
    collective, hops = task.collective, task.hops
    reduces = Phase.REDUCE in collective.phases
    if not reduces and schedule.n_reducing:
        raise ScheduleError(
            f"{collective.kind}: expected copies only, got {schedule.n_reducing} partial sums"
        )
    if len(schedule.chunks) != len(schedule.hops):
        raise ScheduleError(
            f"expected a hop for each of {len(schedule.chunks)} chunks, got {len(schedule.hops)}"
        )
    for name, values, count in (
        ("chunk", schedule.chunks, collective.n_chunks),
        ("hop", schedule.hops, hops.n_hops),
    ):
        if len(values) and not 0 <= values.min() <= values.max() < count:
            raise ScheduleError(
                f"expected {name}s from 0 to {count - 1}, got {values.min()} to {values.max()}"
            )
    for chunk in range(collective.n_chunks):
        _check_chunk(schedule, chunk, np.flatnonzero(schedule.chunks == chunk).tolist(), reduces)


def _check_chunk(schedule: Schedule, chunk: int, transfers: list[int], reduces: bool) -> None:
    task = schedule.task
    collective, n = task.collective, task.n_devices
    owner = int(collective.owners[chunk])
    members = list(collective.members)
    held = np.zeros((n, n), np.int64)
    if reduces:
        held[members, members] = 1
    else:
        held[owner, owner] = 1
    complete = np.zeros(n, np.int64)
    complete[members if reduces else [owner]] = 1
    copying = not reduces
    for index in transfers:
        if index >= schedule.n_reducing and not copying:
            copying = True
            _check_owner(held, owner, complete, chunk)
        source, target = (int(ends[schedule.hops[index]]) for ends in (task.hops.sources, task.hops.targets))
        told = f"transfer {index}: chunk {chunk} from device {source} to {target}"
        if not held[source].any():
            raise ScheduleError(f"{told}: the sender has nothing of it")
        if copying:
            if not np.array_equal(held[source], complete):
                raise ScheduleError(f"{told}: the sender does not have the complete chunk")
            if np.array_equal(held[target], complete):
                raise ScheduleError(f"{told}: the receiver has it already")
            held[target] = held[source]
        else:
            held[target] += held[source]
            held[source] = 0
    if reduces:
        _check_owner(held, owner, complete, chunk)
    if collective.kind is Kind.REDUCE_SCATTER:
        return
    for device in np.flatnonzero(collective.others[chunk]).tolist():
        if not np.array_equal(held[device], complete):
            raise ScheduleError(f"chunk {chunk}: device {device} ends without it")


def _check_owner(held: np.ndarray, owner: int, complete: np.ndarray, chunk: int) -> None:
    if not np.array_equal(held[owner], complete):
        wrong = np.flatnonzero(held[owner] != complete)
        counts = ", ".join(f"{held[owner, device]} of device {device}" for device in wrong[:4])
        raise ScheduleError(
            f"chunk {chunk}: its owner, device {owner}, has not every contribution exactly once: {counts}"
        )
