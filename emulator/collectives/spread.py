"""Spreading of chunks, one transfer at a time: the state from which plans are made."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from typing import Any, NamedTuple

import numpy as np

from sysgym.emulator.collectives.collective import BoolArray, Phase
from sysgym.emulator.collectives.network import FloatArray, IntArray
from sysgym.emulator.collectives.schedule import Plan, Schedule
from sysgym.emulator.collectives.task import SynthesisTask
from sysgym.emulator.compiling import cached_kernel


class Transfers(NamedTuple):
    """Possible transfers, the earliest to arrive first; all arrays have one entry for each.

    Attributes:
        hops: Hop, int64.
        chunks: Chunk, int64.
        starts_s: Start, float64.
        arrivals_s: Arrival, float64.
    """

    hops: IntArray
    chunks: IntArray
    starts_s: FloatArray
    arrivals_s: FloatArray


class PlanHops(NamedTuple):
    """Hops as a plan sees them, for kernels.

    Attributes:
        sources: Sender of each hop, int64 [n_hops].
        targets: Receiver of each hop, int64 [n_hops].
        paths: Links of each hop, -1 after the last, int64 [n_hops, n_links_most].
        durations_s: Time from the start of a transfer to its arrival, float64 [n_hops].
        occupancies_s: Time for which each link of the path is busy, float64 [n_hops, n_links_most].
        distances_s: Least time of a chunk from device to device, float64 [n_devices, n_devices].
    """

    sources: IntArray
    targets: IntArray
    paths: IntArray
    durations_s: FloatArray
    occupancies_s: FloatArray
    distances_s: FloatArray


class SpreadState(NamedTuple):
    """State of a spread, for kernels, which change it.

    Attributes:
        ready_s: When a device has or will have a chunk, inf: not yet known, float64 [n_chunks, n_devices].
        free_s: When each link is free, float64 [n_links].
        missing: Devices that want a chunk and to which it is not on its way, bool [n_chunks, n_devices].
        useful: Devices to which it may be sent, bool [n_chunks, n_devices].
        nearest_s: Least time from a device that has the chunk to each device, float64 [n_chunks, n_devices].
        holders: Number of devices that have each chunk or will have it, int64 [n_chunks].
    """

    ready_s: FloatArray
    free_s: FloatArray
    missing: BoolArray
    useful: BoolArray
    nearest_s: FloatArray
    holders: IntArray


class Spread:
    """Chunks on their way from their owners to all who want them.

    A transfer is useful if the receiver wants the chunk, or is closer to a device that still lacks it than
    every device that has it. So there is a useful transfer until nobody lacks anything, and never an endless
    number of them.

    Args:
        task: The collective and its network.
        phase: The phase; a reduction is planned backwards in time.
        ready_s: Times at which the owners have their chunks, float64 [n_chunks]; None: 0.
        free_s: Times at which links are free, float64 [n_links]; None: 0.

    Attributes:
        hops: The hops as the plan sees them.
        state: Chunks and links.
        n_missing: Number of pairs of a chunk and a device that lacks it.
        time_s: Latest arrival so far.
        transfers: Pairs of chunk and hop so far.
    """

    def __init__(
        self,
        task: SynthesisTask,
        phase: Phase,
        ready_s: FloatArray | None = None,
        free_s: FloatArray | None = None,
    ) -> None:
        collective = task.collective
        self.task, self.phase = task, phase
        sources, targets = task.ends(phase)
        distances_s = task.plan_distances_s(phase)
        self.hops = PlanHops(
            sources, targets, task.hops.paths, task.durations_s, task.occupancies_s, distances_s
        )
        ready = np.full((collective.n_chunks, task.n_devices), np.inf)
        ready[np.arange(collective.n_chunks), collective.owners] = 0.0 if ready_s is None else ready_s
        self.state = SpreadState(
            ready_s=ready,
            free_s=np.zeros(task.network.n_links) if free_s is None else free_s.copy(),
            missing=collective.others.copy(),
            useful=np.zeros_like(collective.others),
            nearest_s=distances_s[collective.owners].copy(),
            holders=np.ones(collective.n_chunks, np.int64),
        )
        self.n_missing = int(self.state.missing.sum())
        self.time_s = 0.0
        self.transfers: list[tuple[int, int]] = []
        _update_all(self.hops, self.state)

    @classmethod
    def after(cls, task: SynthesisTask, plans: Sequence[Plan]) -> Spread:
        """Return the beginning of the phase after the planned ones.

        Copies of a reduced chunk may leave its owner when the reduction is complete there, over links that
        the reduction has left.
        """
        phase = task.collective.phases[len(plans)]
        if not plans:
            return cls(task, phase)
        done = Schedule.of_plans(task, plans)
        timing = done.timing
        owners = task.collective.owners
        spread = cls(task, phase, timing.ready_s[np.arange(len(owners)), owners], timing.free_s)
        spread.time_s = done.time_s
        return spread

    def fork(self) -> Spread:
        """Return an independent copy."""
        other = copy(self)
        other.state = deepcopy(self.state)
        other.transfers = self.transfers.copy()
        return other

    @property
    def plan(self) -> Plan:
        """The transfers so far."""
        return Plan.of(self.transfers)

    def may_send(self, chunk: int, hop: int) -> bool:
        """Return whether a transfer is possible and useful."""
        has = np.isfinite(self.state.ready_s[chunk, self.hops.sources[hop]])
        return bool(has and self.state.useful[chunk, self.hops.targets[hop]])

    def start_s(self, chunk: int, hop: int) -> float:
        """Return when a transfer would start."""
        hops, state = self.hops, self.state
        path = hops.paths[hop]
        return float(max(state.ready_s[chunk, hops.sources[hop]], state.free_s[path[path >= 0]].max()))

    def send(self, chunk: int, hop: int) -> float:
        """Add a transfer, and return its arrival."""
        arrival_s, satisfied = send_chunk(chunk, hop, self.hops, self.state)
        self.n_missing -= satisfied
        self.time_s = max(self.time_s, arrival_s)
        self.transfers.append((int(chunk), int(hop)))
        return float(arrival_s)

    def candidates(self, most: int, per_hop: int) -> Transfers:
        """Return useful transfers, the earliest to arrive first.

        Of every hop these are the chunks that can start first, of those the ones that fewest devices have.
        A hop's second chunk comes after the first chunks of all hops that arrive as early.

        Args:
            most: Most transfers.
            per_hop: Most transfers of one hop.
        """
        found = _candidates(per_hop, self.hops, self.state)
        hops, chunks, starts_s, arrivals_s, ranks = found
        order = np.lexsort((self.state.holders[chunks], ranks, arrivals_s))[:most]
        return Transfers(hops[order], chunks[order], starts_s[order], arrivals_s[order])


@cached_kernel()
def _update_useful(chunk: Any, hops: Any, state: Any) -> Any:
    """Set the devices to which a chunk may be sent."""
    ready_s, missing, nearest_s, useful = state.ready_s, state.missing, state.nearest_s, state.useful
    n = ready_s.shape[1]
    for device in range(n):
        useful[chunk, device] = False
        if ready_s[chunk, device] < np.inf:
            continue
        if missing[chunk, device]:
            useful[chunk, device] = True
            continue
        for wanting in range(n):
            if missing[chunk, wanting]:
                closer = hops.distances_s[device, wanting] < nearest_s[chunk, wanting] * (1.0 - 1e-9)
                if closer:
                    useful[chunk, device] = True
                    break


@cached_kernel()
def _update_all(hops: Any, state: Any) -> Any:
    """Set the devices to which chunks may be sent."""
    for chunk in range(state.ready_s.shape[0]):
        _update_useful(chunk, hops, state)


@cached_kernel()
def links_free_s(hop: Any, hops: Any, state: Any) -> Any:
    """Return when all links of a hop are free."""
    free_s = 0.0
    for place in range(hops.paths.shape[1]):
        if hops.paths[hop, place] >= 0:
            free_s = max(free_s, state.free_s[hops.paths[hop, place]])
    return free_s


@cached_kernel()
def send_chunk(chunk: Any, hop: Any, hops: Any, state: Any) -> Any:
    """Add a transfer; return its arrival, and 1 if the receiver wanted the chunk."""
    paths = hops.paths
    start_s = max(state.ready_s[chunk, hops.sources[hop]], links_free_s(hop, hops, state))
    for place in range(paths.shape[1]):
        if paths[hop, place] >= 0:
            state.free_s[paths[hop, place]] = start_s + hops.occupancies_s[hop, place]
    device = hops.targets[hop]
    arrival_s = start_s + hops.durations_s[hop]
    state.ready_s[chunk, device] = arrival_s
    satisfied = 1 if state.missing[chunk, device] else 0
    state.missing[chunk, device] = False
    state.holders[chunk] += 1
    nearest_s = state.nearest_s
    for other in range(nearest_s.shape[1]):
        nearest_s[chunk, other] = min(nearest_s[chunk, other], hops.distances_s[device, other])
    _update_useful(chunk, hops, state)
    return arrival_s, satisfied


@cached_kernel()
def _candidates(per_hop: Any, plan_hops: Any, state: Any) -> Any:
    """Return hops, chunks, starts, arrivals and ranks within the hop of useful transfers, hop by hop."""
    sources, targets, durations_s = plan_hops.sources, plan_hops.targets, plan_hops.durations_s
    ready_s, useful, holders = state.ready_s, state.useful, state.holders
    n_hops, n_chunks = len(sources), ready_s.shape[0]
    room = n_hops * per_hop
    hops, chunks = np.empty(room, np.int64), np.empty(room, np.int64)
    starts_s, arrivals_s = np.empty(room), np.empty(room)
    ranks = np.empty(room, np.int64)
    count = 0
    for hop in range(n_hops):
        free = links_free_s(hop, plan_hops, state)
        first = count
        for step in range(n_chunks):
            # Devices begin with different chunks, so that ties do not send the same one everywhere.
            chunk = (step + targets[hop]) % n_chunks
            if not useful[chunk, targets[hop]] or ready_s[chunk, sources[hop]] == np.inf:
                continue
            start = max(free, ready_s[chunk, sources[hop]])
            place = count
            while place > first and (
                start < starts_s[place - 1]
                or (start == starts_s[place - 1] and holders[chunk] < holders[chunks[place - 1]])
            ):
                place -= 1
            if place - first >= per_hop:
                continue
            last = min(count, first + per_hop - 1)
            for moved in range(last, place, -1):
                chunks[moved], starts_s[moved] = chunks[moved - 1], starts_s[moved - 1]
            chunks[place], starts_s[place] = chunk, start
            count = last + 1
        for place in range(first, count):
            hops[place], ranks[place] = hop, place - first
            arrivals_s[place] = starts_s[place] + durations_s[hop]
    return hops[:count], chunks[:count], starts_s[:count], arrivals_s[:count], ranks[:count]
