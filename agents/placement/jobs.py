"""Rules and searches that place several jobs on the nodes of one system."""

from __future__ import annotations

import numpy as np

from sysgym.agents.placement.base import Placer
from sysgym.emulator.accelerators.jobs.assignments import neighbour, packed, shapes, spread
from sysgym.emulator.accelerators.jobs.contention import JobSystem
from sysgym.emulator.accelerators.jobs.jobs import IntArray, n_nodes
from sysgym.envs.placement.multijob import MultiJobPlacement

WHOLE_JOBS = 0.3
"""Share of the moves of annealing that move a whole job."""


class PackedAgent(Placer):
    """One node filled after another, jobs in their order: the default."""

    name = "packed"

    def assign(self, world: MultiJobPlacement) -> IntArray:
        """Return the default."""
        return packed(world.system.hierarchy, world.system.jobs)


class SpreadAgent(Placer):
    """Every block on the node with the most free devices."""

    name = "spread"

    def assign(self, world: MultiJobPlacement) -> IntArray:
        """Return the assignment."""
        return spread(world.system.hierarchy, world.system.jobs)


def greedily(system: JobSystem) -> tuple[IntArray, int]:
    """Place one job after another, each in the shape with the least estimated mean slowdown so far.

    Args:
        system: The jobs and the system.

    Returns:
        Blocks of each job on each node, and the number of estimates.
    """
    hierarchy, jobs = system.hierarchy, system.jobs
    counts = np.zeros((len(jobs), n_nodes(hierarchy)), np.int64)
    free = np.full(counts.shape[1], hierarchy.cardinalities[-1])
    evaluations = 0
    for row, job in enumerate(jobs):
        best, least = None, np.inf
        for shape in shapes(hierarchy, job, free):
            counts[row] = shape
            mean = float(np.nanmean(system.estimates(counts)))
            evaluations += 1
            if mean < least * (1.0 - 1e-9):
                best, least = shape, mean
        assert best is not None
        counts[row] = best
        free = free - job.block_devices * best
    return counts, evaluations


def annealed_neighbour(system: JobSystem, state: bytes, rng: np.random.Generator) -> bytes:
    """Return a neighbour of an assignment, both as bytes: one block or one whole job is moved."""
    hierarchy, jobs = system.hierarchy, system.jobs
    counts = assignment_of(system, state)
    if rng.random() > WHOLE_JOBS:
        return neighbour(hierarchy, jobs, counts, rng).tobytes()
    row = int(rng.integers(len(jobs)))
    near = counts.copy()
    near[row] = 0
    sizes = np.array([job.block_devices for job in jobs])
    options = list(shapes(hierarchy, jobs[row], hierarchy.cardinalities[-1] - sizes @ near))
    near[row] = options[int(rng.integers(len(options)))]
    return near.tobytes()


def assignment_of(system: JobSystem, state: bytes) -> IntArray:
    """Return the assignment stored in bytes, [n_jobs, n_nodes]."""
    return np.frombuffer(state, np.int64).reshape(len(system.jobs), -1)
