"""Schedules: transfers of chunks over hops, in an order, and the time that they take.

Every link serves its transfers in the order of the schedule. A transfer starts when the sender has the chunk
and all links of the hop are free. It occupies each link for the time that the link needs for the chunk, and
arrives after the latencies of the path and the time that its slowest link needs. A partial sum is ready when
all earlier partial sums of the chunk have arrived at the sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sysgym.emulator.collectives.collective import Phase
from sysgym.emulator.collectives.network import FloatArray, IntArray
from sysgym.emulator.collectives.task import SynthesisTask
from sysgym.emulator.compiling import cached_kernel


@dataclass(frozen=True, eq=False)
class Plan:
    """Transfers of one phase, spreading chunks from their owners.

    Attributes:
        chunks: Chunk of each transfer, int64 [n].
        hops: Hop of each transfer, int64 [n]; a chunk is at its sender by an earlier transfer, or its own.
    """

    chunks: IntArray
    hops: IntArray

    @classmethod
    def of(cls, transfers: Sequence[tuple[int, int]]) -> Plan:
        """Return the plan of pairs of chunk and hop."""
        table = np.array(transfers, np.int64).reshape(len(transfers), 2)
        return cls(table[:, 0].copy(), table[:, 1].copy())

    def without_dead_ends(self, task: SynthesisTask, phase: Phase) -> Plan:
        """Return the plan without transfers after which nobody who wants the chunk gets it."""
        sources, targets = task.ends(phase)
        kept = _alive(
            self.chunks, self.hops, sources, targets, task.collective.others.astype(np.bool_, copy=True)
        )
        return Plan(self.chunks[kept], self.hops[kept])


@dataclass(frozen=True, eq=False)
class Schedule:
    """Transfers of a collective.

    Attributes:
        task: The collective and its network.
        chunks: Chunk of each transfer, int64 [n].
        hops: Hop of each transfer, int64 [n].
        n_reducing: Number of transfers of partial sums; they come before the copies.
    """

    task: SynthesisTask
    chunks: IntArray
    hops: IntArray
    n_reducing: int

    @classmethod
    def of_plans(cls, task: SynthesisTask, plans: Sequence[Plan]) -> Schedule:
        """Return the schedule of a plan for every phase, or for the first ones.

        The plan of a reduction is reversed in time: the last device that a chunk reaches is the first to send
        its contribution.
        """
        chunks, hops, n_reducing = [], [], 0
        for phase, plan in zip(task.collective.phases, plans, strict=False):
            alive = plan.without_dead_ends(task, phase)
            backwards = phase is Phase.REDUCE
            chunks.append(alive.chunks[::-1] if backwards else alive.chunks)
            hops.append(alive.hops[::-1] if backwards else alive.hops)
            n_reducing += len(alive.hops) if backwards else 0
        return cls(task, np.concatenate(chunks), np.concatenate(hops), n_reducing)

    @property
    def n_transfers(self) -> int:
        """Number of transfers."""
        return len(self.hops)

    @cached_property
    def timing(self) -> Timing:
        """Times of the transfers."""
        task = self.task
        starts_s, arrivals_s, ready_s, free_s = _time_transfers(
            self.chunks,
            self.hops,
            self.n_reducing,
            Phase.REDUCE in task.collective.phases,
            self.n_reducing < self.n_transfers,
            task.collective.owners,
            task.n_devices,
            task.network.n_links,
            task.hops.sources,
            task.hops.targets,
            task.hops.paths,
            task.durations_s,
            task.occupancies_s,
        )
        return Timing(starts_s, arrivals_s, ready_s, free_s)

    @property
    def time_s(self) -> float:
        """Time of the collective; 0 without transfers, inf if a chunk is sent that is never there."""
        return float(self.timing.arrivals_s.max(initial=0.0))

    @property
    def serial_time_s(self) -> float:
        """Time of the same transfers one after another, as if no two links could be busy at once."""
        return float(self.task.durations_s[self.hops].sum())

    @property
    def busbw_bytes_per_s(self) -> float:
        """Bus bandwidth as nccl-tests computes it."""
        collective = self.task.collective
        return collective.busbw_factor * collective.size_bytes / self.time_s

    def link_busy_s(self) -> FloatArray:
        """Return for how long each link is occupied, float64 [n_links]."""
        busy_s = np.zeros(self.task.network.n_links + 1)
        np.add.at(busy_s, self.task.hops.paths[self.hops], self.task.occupancies_s[self.hops])
        return busy_s[:-1]


@dataclass(frozen=True, eq=False)
class Timing:
    """Times of a schedule's transfers.

    Attributes:
        starts_s: Start of each transfer, float64 [n].
        arrivals_s: Arrival of each transfer, float64 [n].
        ready_s: Time from which a device has a chunk to send, inf: never, float64 [n_chunks, n_devices].
        free_s: Time from which each link is free, float64 [n_links].
    """

    starts_s: FloatArray
    arrivals_s: FloatArray
    ready_s: FloatArray
    free_s: FloatArray


@cached_kernel()
def _time_transfers(
    chunks: Any,
    hops: Any,
    n_reducing: Any,
    reduces: Any,
    copies: Any,
    owners: Any,
    n_devices: Any,
    n_links: Any,
    sources: Any,
    targets: Any,
    paths: Any,
    durations_s: Any,
    occupancies_s: Any,
) -> Any:
    """Return starts, arrivals, the times when devices have chunks, and when links are free."""
    n_chunks = len(owners)
    ready_s = np.zeros((n_chunks, n_devices))
    free_s = np.zeros(n_links)
    starts_s, arrivals_s = np.empty(len(hops)), np.empty(len(hops))
    for index in range(len(hops) + 1):
        if index == n_reducing and copies:
            # Only the owner has the complete chunk; others have only given contributions away.
            for chunk in range(n_chunks):
                owned_s = ready_s[chunk, owners[chunk]] if reduces else 0.0
                ready_s[chunk, :] = np.inf
                ready_s[chunk, owners[chunk]] = owned_s
        if index == len(hops):
            break
        chunk, hop = chunks[index], hops[index]
        start_s = ready_s[chunk, sources[hop]]
        for place in range(paths.shape[1]):
            if paths[hop, place] >= 0:
                start_s = max(start_s, free_s[paths[hop, place]])
        for place in range(paths.shape[1]):
            if paths[hop, place] >= 0:
                free_s[paths[hop, place]] = start_s + occupancies_s[hop, place]
        arrival_s = start_s + durations_s[hop]
        if index < n_reducing:
            ready_s[chunk, targets[hop]] = max(ready_s[chunk, targets[hop]], arrival_s)
        else:
            ready_s[chunk, targets[hop]] = min(ready_s[chunk, targets[hop]], arrival_s)
        starts_s[index], arrivals_s[index] = start_s, arrival_s
    return starts_s, arrivals_s, ready_s, free_s


@cached_kernel()
def _alive(chunks: Any, hops: Any, sources: Any, targets: Any, wanted: Any) -> Any:
    """Return which transfers lead to a device that wants the chunk; ``wanted`` is overwritten."""
    kept = np.zeros(len(hops), np.bool_)
    for index in range(len(hops) - 1, -1, -1):
        chunk, hop = chunks[index], hops[index]
        if wanted[chunk, targets[hop]]:
            kept[index] = True
            wanted[chunk, sources[hop]] = True
    return kept
