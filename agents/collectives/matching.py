"""Greedy matching of links and chunks in time, after TACOS, compiled.

Every hop proposes the chunk that it can send first; the proposal with the least key becomes a transfer, and
the hops that it affects propose again. The key is ``start + patience * (arrival - start)``. With patience 0
a link never idles while it could send something useful, as in TACOS's matching on a time-expanded network
(Won et al., arXiv 2304.05301); with 1 the earliest arrival is served first, so that a slow link does not take
a chunk that a fast one delivers sooner. Ties are broken by the number of devices that have the chunk, or by
keys, which a search varies.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.collectives.network import FloatArray
from sysgym.emulator.collectives.schedule import Plan
from sysgym.emulator.collectives.spread import Spread, links_free_s, send_chunk
from sysgym.emulator.collectives.task import SynthesisTask
from sysgym.emulator.compiling import cached_kernel


@dataclass(frozen=True)
class Rule:
    """Rule of a matching.

    Attributes:
        patience: Weight of a transfer's duration in the key of a proposal, from 0 to 1.
        rarity: Weight of the number of devices that have a chunk; orders chunks that can start together.
    """

    patience: float = 0.0
    rarity: float = 0.0


def match(spread: Spread, rule: Rule, keys: FloatArray | None = None) -> Plan:
    """Complete a spread, and return its plan.

    Args:
        spread: State at the beginning; it is changed.
        rule: The rule.
        keys: Key of each chunk for each receiver, added to the weighted rarity, float64 [n_chunks,
            n_devices]; None: 0. If several chunks can start together, the one with the least sum is sent.
    """
    task = spread.task
    if keys is None:
        keys = np.zeros(spread.state.missing.shape)
    room = spread.n_missing * task.n_devices
    chunks, hops, time_s = _match(rule.patience, rule.rarity, keys, room, spread.hops, spread.state)
    spread.n_missing = 0
    spread.time_s = max(spread.time_s, time_s)
    spread.transfers += zip(chunks.tolist(), hops.tolist(), strict=True)
    return spread.plan


@cached_kernel("sysgym.emulator.collectives")
def _match(patience: Any, rarity: Any, keys: Any, room: Any, plan_hops: Any, state: Any) -> Any:
    """Return chunks and hops of the transfers, and the time."""
    sources, targets, durations_s = plan_hops.sources, plan_hops.targets, plan_hops.durations_s
    leaving = np.argsort(sources)
    first_leaving = np.searchsorted(sources[leaving], np.arange(state.ready_s.shape[1] + 1))
    queue = [(0.0, 0.0, 0) for _ in range(0)]
    for hop in range(len(sources)):
        _propose(queue, hop, patience, rarity, keys, plan_hops, state)
    heapq.heapify(queue)
    chunks, hops = np.empty(room, np.int64), np.empty(room, np.int64)
    count, n_missing, time_s = 0, state.missing.sum(), 0.0
    while n_missing > 0:
        key, _, hop = heapq.heappop(queue)
        chunk, start_s = _best_chunk(hop, rarity, keys, plan_hops, state)
        if chunk < 0:
            continue
        current = start_s + patience * durations_s[hop]
        if current > key:
            heapq.heappush(queue, (current, keys[chunk, targets[hop]], hop))
            continue
        arrival_s, satisfied = send_chunk(chunk, hop, plan_hops, state)
        chunks[count], hops[count] = chunk, hop
        count += 1
        n_missing -= satisfied
        time_s = max(time_s, arrival_s)
        _propose(queue, hop, patience, rarity, keys, plan_hops, state)
        device = targets[hop]
        for place in range(first_leaving[device], first_leaving[device + 1]):
            _propose(queue, leaving[place], patience, rarity, keys, plan_hops, state)
    return chunks[:count], hops[:count], time_s


@cached_kernel("sysgym.emulator.collectives")
def _propose(queue: Any, hop: Any, patience: Any, rarity: Any, keys: Any, plan_hops: Any, state: Any) -> Any:
    """Add a hop's proposal to the queue, if it has one."""
    chunk, start_s = _best_chunk(hop, rarity, keys, plan_hops, state)
    if chunk >= 0:
        key = start_s + patience * plan_hops.durations_s[hop]
        heapq.heappush(queue, (key, keys[chunk, plan_hops.targets[hop]], hop))


@cached_kernel("sysgym.emulator.collectives")
def _best_chunk(hop: Any, rarity: Any, keys: Any, plan_hops: Any, state: Any) -> Any:
    """Return the chunk that a hop can send first, and its start time; the chunk is -1 if there is none."""
    free_s = links_free_s(hop, plan_hops, state)
    source, target, n_chunks = plan_hops.sources[hop], plan_hops.targets[hop], state.ready_s.shape[0]
    best, best_s, best_key = -1, np.inf, np.inf
    for step in range(n_chunks):
        chunk = step + target
        if chunk >= n_chunks:
            chunk %= n_chunks
        if not state.useful[chunk, target] or state.ready_s[chunk, source] == np.inf:
            continue
        start_s = max(free_s, state.ready_s[chunk, source])
        key = rarity * state.holders[chunk] + keys[chunk, target]
        if start_s < best_s or (start_s == best_s and key < best_key):
            best, best_s, best_key = chunk, start_s, key
    return best, best_s


def random_keys(task: SynthesisTask, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return keys drawn uniformly from [0, 1), float64 [n_chunks, n_devices]."""
    return rng.random((task.collective.n_chunks, task.n_devices))
