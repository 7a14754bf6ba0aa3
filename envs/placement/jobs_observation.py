"""Observations of several jobs on one system: a table of jobs and a table of nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from sysgym.emulator.accelerators.flows.collective import link_graph
from sysgym.emulator.accelerators.jobs.contention import JobSystem
from sysgym.envs.observations import Column, Columns, Observer, flags_space, table_space
from sysgym.envs.placement.observation import LARGEST, BoolArray, IntArray, Observation, megabytes
from sysgym.scenarios import PlacementScenario
from sysgym.scenarios.schema.placement_tables import MOST_JOB_NODES, MOST_JOBS

MOST_LOAD = 100.0
"""Bound to which the use of links is clipped."""


def _share(meaning: str) -> Column:
    return Column(meaning, "share", 0.0, 1.0)


def _log10(meaning: str, unit: str) -> Column:
    return Column(meaning, f"log10 {unit}".strip(), -LARGEST, LARGEST)


JOB_COLUMNS: Columns = {
    "exists": Column("there is a job in this row", "0 or 1", 0.0, 1.0),
    "current": Column("the next block is one of this job", "0 or 1", 0.0, 1.0),
    "blocks": _log10("blocks of the job", ""),
    "devices": _log10("devices of a block", ""),
    "compute": _log10("compute of an iteration", "ms"),
    "overlap": _share("compute that overlaps with the reduction over blocks"),
    "data": _log10("vector that is reduced over blocks", "MB"),
    "tensor": _log10("vector that is reduced inside a block", "MB"),
    "placed": _share("blocks that are placed"),
}
"""Columns of ``jobs``, in the order in which they are placed."""

NODE_COLUMNS: Columns = {
    "exists": Column("the system has this node", "0 or 1", 0.0, 1.0),
    "free": _share("devices of the node that are free"),
    "own": _share("blocks of the current job on the node"),
    "own_near": _share("blocks of the current job below the same switch one level up"),
    "others": _share("other jobs on the node, of all jobs"),
    "use": Column(
        "sum over jobs of the time in which each, alone, uses its fullest uplink", "share", 0.0, MOST_LOAD
    ),
    "use_near": Column("the same one level up; 0 without such a level", "share", 0.0, MOST_LOAD),
    "uplink": _log10("bandwidth of all its uplinks", "GB/s"),
}
"""Columns of ``nodes``."""


class JobsState(NamedTuple):
    """Progress of the placement of several jobs.

    Attributes:
        system: The jobs and the system.
        counts: Blocks of each job on each node, [n_jobs, n_nodes].
        current: Job of the next block; the number of jobs after the last one.
        allowed: Mask of allowed actions.
    """

    system: JobSystem
    counts: IntArray
    current: int
    allowed: BoolArray


class JobsTables:
    """Default observation of ``sysgym/MultiJobPlacement-v0``."""

    def space(self, scenario: PlacementScenario, /) -> gym.Space[Any]:
        """Return the space, a ``Dict``, the same for all scenarios."""
        return gym.spaces.Dict(
            {
                "jobs": table_space(JOB_COLUMNS, MOST_JOBS),
                "nodes": table_space(NODE_COLUMNS, MOST_JOB_NODES),
                "action_mask": flags_space(MOST_JOB_NODES),
            }
        )

    def observe(self, state: JobsState, /) -> Observation:
        """Return the tables."""
        system, counts, current = state.system, state.counts, state.current
        jobs = np.zeros((MOST_JOBS, len(JOB_COLUMNS)), np.float32)
        for row, job in enumerate(system.jobs):
            jobs[row] = (
                1.0,
                row == current,
                math.log10(job.blocks),
                math.log10(job.block_devices),
                math.log10(job.compute_s) + 3.0,
                job.overlap,
                megabytes(job.data_bytes),
                megabytes(job.tensor_bytes),
                counts[row].sum() / job.blocks,
            )
        nodes = np.zeros((MOST_JOB_NODES, len(NODE_COLUMNS)), np.float32)
        n_nodes = counts.shape[1]
        nodes[:n_nodes] = _nodes(system, counts, current)
        return {"jobs": jobs, "nodes": nodes, "action_mask": state.allowed.astype(np.float32)}


def _nodes(system: JobSystem, counts: IntArray, current: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    hierarchy, n_nodes = system.hierarchy, counts.shape[1]
    level = hierarchy.levels[-2]
    sizes = np.array([job.block_devices for job in system.jobs])
    own = counts[current] / system.jobs[current].blocks if current < len(system.jobs) else np.zeros(n_nodes)
    others = (counts > 0).sum(axis=0) - (own > 0)
    siblings = level.cardinality if hierarchy.n_levels > 2 else n_nodes
    near = np.repeat(own.reshape(-1, siblings).sum(axis=1), siblings)
    shares, first = system.link_shares(counts), link_graph(hierarchy).first_link
    of_nodes = shares[first[-3] : first[-2]].reshape(n_nodes, -1).max(axis=1)
    above = np.zeros(n_nodes)
    if hierarchy.n_levels > 2:
        groups = shares[first[-4] : first[-3]].reshape(n_nodes // siblings, -1).max(axis=1)
        above = np.repeat(groups, siblings)
    uplink = math.log10(level.bandwidth_bytes_per_s * level.uplinks) - 9.0
    columns = [
        np.ones(n_nodes),
        1.0 - sizes @ counts / hierarchy.cardinalities[-1],
        own,
        np.minimum(near, 1.0),
        others / len(system.jobs),
        np.minimum(of_nodes, MOST_LOAD),
        np.minimum(above, MOST_LOAD),
        np.full(n_nodes, uplink),
    ]
    return np.stack(columns, axis=1)


JOBS: Mapping[str, Observer[PlacementScenario, JobsState]] = {"default": JobsTables()}
"""Observations of ``sysgym/MultiJobPlacement-v0``."""
