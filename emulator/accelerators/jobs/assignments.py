"""Assignments of jobs to nodes: rules, neighbours, and all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.jobs.jobs import IntArray, Job, n_nodes
from sysgym.scenarios.errors import SysgymError


def packed(hierarchy: Hierarchy, jobs: Sequence[Job]) -> IntArray:
    """Return the blocks of each job on each node, one node filled after another, [n_jobs, n_nodes]."""
    counts, free = _empty(hierarchy, jobs)
    for row, job in enumerate(jobs):
        for _ in range(job.blocks):
            node = int(np.argmax(free >= job.block_devices))
            counts[row, node] += 1
            free[node] -= job.block_devices
    return counts


def spread(hierarchy: Hierarchy, jobs: Sequence[Job]) -> IntArray:
    """Return the same with every block on the node with the most free devices."""
    counts, free = _empty(hierarchy, jobs)
    for row, job in enumerate(jobs):
        for _ in range(job.blocks):
            node = int(np.argmax(free))
            counts[row, node] += 1
            free[node] -= job.block_devices
    return counts


def shapes(hierarchy: Hierarchy, job: Job, free: IntArray) -> Iterator[IntArray]:
    """Yield reasonable ways to place one job, int64 [n_nodes] each, without repetitions.

    For every largest number of blocks on a node, nodes are filled up to it, in the order of the least and of
    the most free devices, those below one switch first.

    Args:
        hierarchy: The system.
        job: The job.
        free: Free devices of each node.
    """
    inside = hierarchy.cardinalities[-1]
    siblings = hierarchy.cardinalities[-2] if hierarchy.n_levels > 2 else len(free)
    group = np.arange(len(free)) // siblings
    known = set()
    for most in range(min(job.blocks, inside // job.block_devices), 0, -1):
        for first in range(len(free) // siblings):
            for order in (free, -free):
                row = _filled(job, free, most, np.lexsort((order, group != first)))
                if row is not None and row.tobytes() not in known:
                    known.add(row.tobytes())
                    yield row


def _filled(job: Job, free: IntArray, most: int, order: np.ndarray) -> IntArray | None:
    """Return a job on the nodes in an order, at most some blocks on each; None if it does not fit."""
    room = np.minimum(free // job.block_devices, most)
    row = np.zeros(len(free), np.int64)
    left = job.blocks
    for node in order.tolist():
        row[node] = min(left, int(room[node]))
        left -= int(row[node])
    return None if left else row


def neighbour(
    hierarchy: Hierarchy, jobs: Sequence[Job], counts: IntArray, rng: np.random.Generator
) -> IntArray:
    """Return a random assignment in which one block has moved, or two jobs' devices are exchanged.

    Args:
        hierarchy: The system.
        jobs: The jobs.
        counts: Blocks of each job on each node; left as it is.
        rng: Generator of the choice.
    """
    sizes = np.array([job.block_devices for job in jobs])
    near = counts.copy()
    row = int(rng.integers(len(jobs)))
    source = int(rng.choice(np.flatnonzero(near[row])))
    target = int((source + rng.integers(1, counts.shape[1])) % counts.shape[1])
    near[row, source] -= 1
    near[row, target] += 1
    lacking = int(sizes @ near[:, target]) - hierarchy.cardinalities[-1]
    if lacking <= 0:
        return near
    # The target is full: blocks of one other job make room.
    others = [
        other
        for other in np.flatnonzero(near[:, target]).tolist()
        if other != row and near[other, target] * sizes[other] >= lacking
    ]
    if not others:
        return counts
    other = int(rng.choice(others))
    moved = -(-lacking // int(sizes[other]))
    near[other, target] -= moved
    near[other, source] += moved
    if sizes @ near[:, source] > hierarchy.cardinalities[-1]:
        return counts
    return near


def all_assignments(hierarchy: Hierarchy, jobs: Sequence[Job], most: int) -> list[IntArray]:
    """Return all assignments that can differ in their times, [n_jobs, n_nodes] each.

    Of assignments that are the same but for the names of siblings on a switch, or for where the numbers of a
    ring begin and which way they run, one is returned.

    Args:
        hierarchy: The system.
        jobs: The jobs.
        most: Largest number of assignments.

    Raises:
        SysgymError: There are more.
    """
    partial, free = _empty(hierarchy, jobs)
    level = [(partial, free)]
    for row, job in enumerate(jobs):
        following: dict[bytes, tuple[IntArray, IntArray]] = {}
        for counts, left in level:
            for placed in _rows(job.blocks, left // job.block_devices):
                more = counts.copy()
                more[row] = placed
                following.setdefault(_key(hierarchy, more), (more, left - job.block_devices * more[row]))
                if len(following) > most:
                    raise SysgymError(
                        f"more than {most} assignments of {len(jobs)} jobs to {n_nodes(hierarchy)} nodes: "
                        "exhaustive search is for systems as small as those of multi-job-small"
                    )
        level = list(following.values())
    return [counts for counts, _ in level]


def _rows(blocks: int, room: IntArray) -> Iterator[list[int]]:
    """Yield all ways to place blocks on nodes with room for some of them."""
    if len(room) == 1:
        if blocks <= room[0]:
            yield [blocks]
        return
    for here in range(min(blocks, int(room[0])) + 1):
        for rest in _rows(blocks - here, room[1:]):
            yield [here, *rest]


def _key(hierarchy: Hierarchy, counts: IntArray) -> bytes:
    """Return a key that is equal only for assignments with equal times: they differ by siblings' names."""
    columns: list[bytes] = [column.tobytes() for column in counts.T]
    for level in reversed(range(hierarchy.n_levels - 1)):
        cardinality = hierarchy.cardinalities[level]
        rename = _renaming(hierarchy, level)
        columns = [
            b"".join(rename(columns[first : first + cardinality]))
            for first in range(0, len(columns), cardinality)
        ]
    return columns[0]


def _renaming(hierarchy: Hierarchy, level: int) -> Callable[[list[bytes]], list[bytes]]:
    """Return what gives siblings of a level their names: equal for groups of siblings with equal times.

    Siblings on a switch can have any names, those in an outermost ring only names that keep its order. A ring
    inside other levels is left as it is: where a job leaves it depends on the names. So are siblings of which
    only some share an uplink of an instance around them.
    """
    inside = hierarchy.devices_inside(level)
    for outer in range(level):
        around = hierarchy.levels[outer]
        # An uplink serves all siblings; or a part of one, on a switch, where the uplink's number is nothing.
        served = hierarchy.devices_inside(outer) // around.uplinks
        shared = served % (inside * hierarchy.cardinalities[level]) == 0
        if not (shared or (inside % served == 0 and around.network == "switch")):
            return list
    if hierarchy.levels[level].network == "switch":
        return sorted
    return _ring_from_least if math.prod(hierarchy.cardinalities[:level]) == 1 else list


def _ring_from_least(siblings: list[bytes]) -> list[bytes]:
    """Return siblings in a ring in the least of the orders that begin with one of them and go either way."""
    twice = siblings + siblings
    n = len(siblings)
    orders = [twice[first : first + n] for first in range(n)]
    return min(orders + [order[::-1] for order in orders])


def _empty(hierarchy: Hierarchy, jobs: Sequence[Job]) -> tuple[IntArray, IntArray]:
    nodes = n_nodes(hierarchy)
    return np.zeros((len(jobs), nodes), np.int64), np.full(nodes, hierarchy.cardinalities[-1], np.int64)
