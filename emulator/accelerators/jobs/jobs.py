"""Training jobs of blocks of devices, and their devices on a system.

A job has blocks of devices inside a node, which a tensor axis joins, and a data axis over its blocks. An
iteration is the part of the compute that nothing overlaps with, the reduction inside blocks, and then the
rest of the compute beside the reduction over blocks.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.scenarios.errors import ScenarioError
from sysgym.scenarios.schema.placement_tables import MOST_JOB_NODES, Jobs

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Job:
    """A job.

    Attributes:
        blocks: Size of the data axis.
        block_devices: Size of the tensor axis, devices of a block.
        compute_s: Compute of an iteration.
        overlap: Share of it beside which the data axis is reduced.
        data_bytes: Vector on each device that is reduced over blocks.
        tensor_bytes: Vector on each device that is reduced inside a block.
    """

    blocks: int
    block_devices: int
    compute_s: float
    overlap: float
    data_bytes: float
    tensor_bytes: float

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.blocks * self.block_devices


def n_nodes(hierarchy: Hierarchy) -> int:
    """Return the number of nodes: instances of the level above the devices."""
    return hierarchy.n_devices // hierarchy.cardinalities[-1]


def check_nodes(hierarchy: Hierarchy) -> None:
    """Check that a system has nodes, and no more than agents can observe.

    Raises:
        ScenarioError: It has a single level, or too many nodes.
    """
    place = f"<{hierarchy.name}>"
    if hierarchy.n_levels < 2:
        raise ScenarioError(place, "system", "a single level", "nodes of devices, at least two levels")
    if n_nodes(hierarchy) > MOST_JOB_NODES:
        raise ScenarioError(place, "system", f"{n_nodes(hierarchy)} nodes", f"at most {MOST_JOB_NODES}")


def draw_jobs(table: Jobs, hierarchy: Hierarchy, episode_seed: int) -> tuple[Job, ...]:
    """Return the jobs of an episode, those with the largest blocks first.

    Blocks are powers of two that divide a node, so in this order every choice of nodes leaves room for the
    rest.

    Args:
        table: What jobs are like.
        hierarchy: The system.
        episode_seed: Seed of the episode.

    Raises:
        ScenarioError: No block fits a node, or the fewest jobs do not fit the system.
    """
    check_nodes(hierarchy)
    inside = hierarchy.cardinalities[-1]
    sizes = sorted(size for size in table.block_devices if inside % size == 0)
    digest = hashlib.sha256(f"placement jobs {episode_seed}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:16], "big"))
    left, smallest = hierarchy.n_devices, min(table.blocks) * min(sizes, default=hierarchy.n_devices + 1)
    wanted = int(rng.integers(table.jobs_min, table.jobs_max + 1))
    n_jobs = min(wanted, hierarchy.n_devices // smallest)
    if n_jobs < table.jobs_min:
        found = f"room for {n_jobs} jobs on {hierarchy.n_devices} devices, {inside} in a node"
        expected = f"room for jobs_min = {table.jobs_min}"
        raise ScenarioError(f"<{hierarchy.name}>", "jobs.block_devices", found, expected)
    jobs: list[Job] = []
    for later in reversed(range(n_jobs)):
        fitting = [
            (blocks, size)
            for size in sizes
            for blocks in sorted(table.blocks)
            if blocks * size <= left - later * smallest
        ]
        blocks, size = fitting[int(rng.integers(len(fitting)))]
        jobs.append(
            Job(
                blocks,
                size,
                _log_uniform(rng, table.compute_min_s, table.compute_max_s),
                float(rng.uniform(table.overlap_min, table.overlap_max)),
                _log_uniform(rng, table.data_min_bytes, table.data_max_bytes),
                _log_uniform(rng, table.tensor_min_bytes, table.tensor_max_bytes),
            )
        )
        left -= blocks * size
    return tuple(sorted(jobs, key=lambda job: -job.block_devices))


def devices_of(hierarchy: Hierarchy, jobs: Sequence[Job], counts: IntArray) -> list[NDArray[np.int32]]:
    """Return the devices of every job, int32 [blocks, block_devices] each.

    A job takes the first free devices of a node, jobs in their order.

    Args:
        hierarchy: The system.
        jobs: The jobs; the last ones may be without blocks.
        counts: Blocks of each job on each node, [n_jobs, n_nodes].
    """
    inside = hierarchy.cardinalities[-1]
    used = np.zeros(counts.shape[1], np.int64)
    found = []
    for job, row in zip(jobs, counts, strict=True):
        blocks = []
        for node in np.flatnonzero(row).tolist():
            for _ in range(int(row[node])):
                first = node * inside + int(used[node])
                blocks.append(np.arange(first, first + job.block_devices))
                used[node] += job.block_devices
        found.append(np.array(blocks, np.int32).reshape(len(blocks), job.block_devices))
    return found


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))
