"""Slowdown of jobs that contend for links: as flows, and in closed form.

As flows, all jobs run at once, each for as many iterations as make it equally long when it is alone,
beginning at a drawn moment of an iteration. Reductions are rings, a flow for each group
(:mod:`~..flows.pipelines`), with max-min fair shares of the links. In closed form a job's reduction takes as
long as its fullest link, on which every other job takes an equal share for the part of the time in which it
reduces.

A job's slowdown is its duration over that when it is alone on the system, packed in as few nodes as can be.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sysgym.emulator.accelerators.flows.collective import link_graph
from sysgym.emulator.accelerators.flows.pipelines import GroupFlows, group_flows, step_times_s
from sysgym.emulator.accelerators.flows.simulation import Flows, simulate
from sysgym.emulator.accelerators.flows.tables import FloatArray, Paths
from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.jobs.jobs import IntArray, Job, devices_of
from sysgym.emulator.accelerators.programs import Collective

_PHASES = 0x0FF5E7
"""Random stream of the moments at which jobs begin."""


@dataclass(frozen=True, eq=False)
class Placed:
    """A job on its devices.

    Attributes:
        job: The job.
        tensor: Flows of the reductions inside blocks.
        data: Flows of the reductions over blocks.
        tensor_s: Time of the former when nothing else uses the links.
        data_s: Time of the latter.
    """

    job: Job
    tensor: GroupFlows
    data: GroupFlows
    tensor_s: float
    data_s: float

    def iteration_s(self, tensor_s: float, data_s: float) -> float:
        """Return the time of an iteration whose reductions take these times."""
        overlapped_s = self.job.overlap * self.job.compute_s
        return self.job.compute_s - overlapped_s + tensor_s + max(overlapped_s, data_s)

    @property
    def alone_s(self) -> float:
        """Time of an iteration when nothing else uses the links."""
        return self.iteration_s(self.tensor_s, self.data_s)


class JobSystem:
    """Jobs on a system, whose placement decides how much they slow each other down.

    Args:
        hierarchy: The system.
        jobs: The jobs.
        iterations: Iterations of the job with the longest ones.
        episode_seed: Seed of the moments at which jobs begin.
    """

    def __init__(self, hierarchy: Hierarchy, jobs: Sequence[Job], iterations: int, episode_seed: int) -> None:
        self.hierarchy, self.jobs = hierarchy, tuple(jobs)
        self.reference_s = np.array([_packed_s(hierarchy, job) for job in jobs])
        """Time of an iteration of each job alone and packed, [n_jobs]."""
        longest_s = iterations * self.reference_s.max(initial=0.0)
        self._iterations = np.maximum(np.rint(longest_s / self.reference_s), 1).astype(np.int64)
        rng = np.random.default_rng([episode_seed, _PHASES])
        self._begin_s = rng.random(len(self.jobs)) * self.reference_s

    def slowdowns(self, counts: IntArray) -> FloatArray:
        """Return the slowdown of every job, as flows, float64 [n_jobs].

        Args:
            counts: Blocks of each job on each node, [n_jobs, n_nodes].
        """
        graph = link_graph(self.hierarchy)
        placed = self.placed(counts)
        builder = _Timeline()
        ends = [
            builder.add(one, int(n), float(begin_s))
            for one, n, begin_s in zip(placed, self._iterations, self._begin_s, strict=True)
        ]
        finish_s = simulate(builder.flows(), graph.bandwidth_bytes_per_s).finish_s
        duration_s = finish_s[ends] - self._begin_s
        return np.asarray(duration_s / (self._iterations * self.reference_s))

    def estimates(self, counts: IntArray) -> FloatArray:
        """Return the slowdown of every job in closed form, float64 [n_jobs]; nan for jobs without blocks.

        Args:
            counts: Blocks of each job on each node, [n_jobs, n_nodes].
        """
        exists = counts.sum(axis=1) > 0
        found = np.full(len(self.jobs), np.nan)
        if not exists.any():
            return found
        placed = self.placed(counts)
        loads_s = np.array([self._loads_s(one) for one in placed])
        # The part of the time in which a job is on a link, if nobody disturbs it.
        busy = loads_s / np.array([[one.alone_s] for one in placed])
        others = busy.sum(axis=0) - busy
        data_s = (loads_s * (1.0 + others)).max(axis=1, initial=0.0)
        slowed_s = [one.iteration_s(one.tensor_s, time_s) for one, time_s in zip(placed, data_s, strict=True)]
        found[exists] = np.array(slowed_s) / self.reference_s[exists]
        return found

    def placed(self, counts: IntArray) -> list[Placed]:
        """Return every job that has blocks on its devices.

        Args:
            counts: Blocks of each job on each node, [n_jobs, n_nodes].
        """
        devices = devices_of(self.hierarchy, self.jobs, counts)
        return [
            _placed(self.hierarchy, job, tuple(map(tuple, blocks.tolist())))
            for job, blocks in zip(self.jobs, devices, strict=True)
            if len(blocks)
        ]

    def link_shares(self, counts: IntArray) -> FloatArray:
        """Return the part of the time in which links are used by all jobs together, float64 [n_links].

        Args:
            counts: Blocks of each job on each node, [n_jobs, n_nodes].
        """
        shares = np.zeros(link_graph(self.hierarchy).n_links)
        for one in self.placed(counts):
            shares += self._loads_s(one) / one.alone_s
        return shares

    def _loads_s(self, placed: Placed) -> FloatArray:
        """Return the time that the reduction over blocks needs of every link, [n_links]."""
        bandwidth = link_graph(self.hierarchy).bandwidth_bytes_per_s
        paths = placed.data.paths
        size_bytes = np.repeat(placed.data.size_bytes, np.diff(paths.first))
        return np.bincount(paths.link, size_bytes * paths.share, len(bandwidth)) / bandwidth


@functools.lru_cache(maxsize=8192)
def _placed(hierarchy: Hierarchy, job: Job, blocks: tuple[tuple[int, ...], ...]) -> Placed:
    graph = link_graph(hierarchy)
    devices = np.array(blocks, np.int32).reshape(-1, job.block_devices)
    inside, over = devices, np.ascontiguousarray(devices.T)
    flows = [
        # A flow of the timeline has all its latencies after its last byte, so the estimate has, too.
        group_flows(graph, groups, Collective.ALL_REDUCE, np.full(len(groups), size_bytes))._replace(
            hops=None
        )
        for groups, size_bytes in ((inside, job.tensor_bytes), (over, job.data_bytes))
    ]
    times_s = [float(step_times_s(one, graph.bandwidth_bytes_per_s[None])[0]) for one in flows]
    return Placed(job, flows[0], flows[1], times_s[0], times_s[1])


@functools.lru_cache(maxsize=8192)
def _packed_s(hierarchy: Hierarchy, job: Job) -> float:
    per_node = hierarchy.cardinalities[-1] // job.block_devices
    counts = np.zeros((1, hierarchy.n_devices // hierarchy.cardinalities[-1]), np.int64)
    for block in range(job.blocks):
        counts[0, block // per_node] += 1
    (devices,) = devices_of(hierarchy, (job,), counts)
    return _placed(hierarchy, job, tuple(map(tuple, devices.tolist()))).alone_s


class _Timeline:
    """Flows of all iterations of several jobs; compute is a flow without bytes that takes its latency."""

    def __init__(self) -> None:
        self._sizes: list[float] = []
        self._latencies: list[float] = []
        self._path: list[int] = []
        self._waits: list[list[int]] = []
        # Path 0 has no links.
        self._first, self._links, self._shares = [0, 0], [np.zeros(0, np.int32)], [np.zeros(0)]

    def add(self, placed: Placed, n: int, begin_s: float) -> int:
        """Add the iterations of a job; return the flow at whose end the job has finished."""
        job = placed.job
        tensor, data = self._paths(placed.tensor), self._paths(placed.data)
        overlapped_s = job.overlap * job.compute_s
        end = self._flow(0.0, begin_s, 0, [])
        for _ in range(n):
            first = self._flow(0.0, job.compute_s - overlapped_s, 0, [end])
            inside = self._groups(placed.tensor, tensor, first)
            joined = self._flow(0.0, 0.0, 0, inside)
            beside = self._flow(0.0, overlapped_s, 0, [joined])
            end = self._flow(0.0, 0.0, 0, [beside, *self._groups(placed.data, data, joined)])
        return end

    def flows(self) -> Flows:
        """Return all flows."""
        n_flows = len(self._sizes)
        return Flows(
            size_bytes=np.array(self._sizes),
            latency_s=np.array(self._latencies),
            path=np.array(self._path, np.int32),
            paths=Paths(
                np.array(self._first, np.int64), np.concatenate(self._links), np.concatenate(self._shares)
            ),
            wait_first=np.cumsum([0, *map(len, self._waits)]).astype(np.int64),
            wait_on=np.array([other for waits in self._waits for other in waits], np.int32),
            follows=np.full(n_flows, -1, np.int32),
        )

    def _paths(self, flows: GroupFlows) -> range:
        begun = len(self._first) - 1
        self._first += (self._first[-1] + flows.paths.first[1:]).tolist()
        self._links.append(flows.paths.link)
        self._shares.append(flows.paths.share)
        return range(begun, len(self._first) - 1)

    def _groups(self, flows: GroupFlows, paths: range, after: int) -> list[int]:
        columns = zip(flows.size_bytes.tolist(), flows.latency_s.tolist(), paths, strict=True)
        return [self._flow(size, latency_s, path, [after]) for size, latency_s, path in columns]

    def _flow(self, size_bytes: float, latency_s: float, path: int, waits: list[int]) -> int:
        self._sizes.append(size_bytes)
        self._latencies.append(latency_s)
        self._path.append(path)
        self._waits.append(waits)
        return len(self._sizes) - 1
