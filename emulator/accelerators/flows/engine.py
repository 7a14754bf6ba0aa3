"""Compiled event loop of the simulation: flows enter and leave links, rates follow, events are queued.

An event is that the last byte of a flow was sent, or that it arrived. A change of a rate makes the flow's
queued event stale, and it is dropped when its turn comes. Only flows that share links with a flow that enters
or leaves, directly or through others, get new rates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.flows.heap import drop_first, longer, push
from sysgym.emulator.accelerators.flows.tables import FloatArray, IntArray, Paths
from sysgym.emulator.compiling import cached_kernel

NOBODY = -1

_SAME_TIME = 1e-12
"""Events within this share of the time are one batch, so that rounding does not separate symmetric flows."""
_SAME_RATE = 1e-12
_SENT, _ARRIVED = 0, 1


class Waiting(NamedTuple):
    """Dependencies of each flow, in both directions."""

    n_waits: NDArray[np.int64]
    """Number of flows that each flow waits for, including the one that it follows."""
    freed_first: NDArray[np.int64]
    """Flow f's arrival counts for the flows ``freed[freed_first[f] : freed_first[f + 1]]``."""
    freed: IntArray
    follower: IntArray
    """The flow that waits until the last byte of each flow has been sent; -1 for none."""


class _Network(NamedTuple):
    """Flows on each link, and work arrays for computing their rates."""

    head: IntArray
    """First slot of each link's list, -1 if no flow sends on it."""
    dirty: IntArray
    """Links that a flow has entered or left since the rates were last set."""
    is_dirty: NDArray[np.bool_]
    slot: NDArray[np.int64]
    """Each flow's first slot, -1 if it does not send; it has one slot for each hop of its path."""
    fair: FloatArray
    """Each flow's rate as computed by the last filling."""
    link_seen: NDArray[np.int64]
    flow_seen: NDArray[np.int64]
    touched: IntArray
    sharing: IntArray
    spare: FloatArray
    weight: FloatArray
    growing: IntArray


class _Slots(NamedTuple):
    """Doubly linked lists of the flows on each link."""

    after: IntArray
    before: IntArray
    flow: IntArray


@cached_kernel()
def run_flows(
    size_bytes: FloatArray,
    latency_s: FloatArray,
    path: IntArray,
    paths: Paths,
    waiting: Waiting,
    bandwidth: FloatArray,
    record: bool,
) -> tuple[FloatArray, FloatArray, FloatArray, int, FloatArray, NDArray[np.int64], FloatArray]:
    """Run flows from time 0 until none is left that can start.

    Args:
        size_bytes: float64 [n_flows].
        latency_s: float64 [n_flows].
        path: int32 [n_flows].
        paths: Paths to which the numbers in ``path`` refer.
        waiting: Dependencies of each flow.
        bandwidth: Bandwidth of every link, bytes/s, float64 [n_links].
        record: Record every change of a rate.

    Returns:
        Times at which each flow started, was sent and arrived; the number of flows that did not; times, flows
        and rates of the changes.
    """
    n_flows, n_links = len(size_bytes), len(bandwidth)
    start_s, sent_s, finish_s = np.full(n_flows, np.nan), np.full(n_flows, np.nan), np.full(n_flows, np.nan)
    n_waits = waiting.n_waits.copy()
    left_bytes = size_bytes.copy()
    updated_s = np.zeros(n_flows)
    rate = np.zeros(n_flows)
    due_s = np.full(n_flows, np.inf)  # time of the valid event that a flow has been sent
    network = _Network(
        np.full(n_links, NOBODY, np.int32),
        np.empty(n_links, np.int32),
        np.zeros(n_links, np.bool_),
        np.full(n_flows, NOBODY, np.int64),
        np.zeros(n_flows),
        np.zeros(n_links, np.int64),
        np.zeros(n_flows, np.int64),
        np.empty(n_links, np.int32),
        np.empty(n_flows, np.int32),
        np.zeros(n_links),
        np.zeros(n_links),
        np.zeros(n_links, np.int32),
    )
    # Slots come in rows of a longest path; the table grows with the number of flows that send at once.
    longest = 1
    for p in range(len(paths.first) - 1):
        longest = max(longest, paths.first[p + 1] - paths.first[p])
    n_rows = 64
    free_rows = np.arange(n_rows - 1, -1, -1)
    n_free = n_rows
    slots = _Slots(
        np.empty(n_rows * longest, np.int32),
        np.empty(n_rows * longest, np.int32),
        np.empty(n_rows * longest, np.int32),
    )
    heap_s, heap_code, n_heap = np.empty(1024), np.empty(1024, np.int64), 0
    log_s, log_flow, log_rate, n_log = np.empty(1024), np.empty(1024, np.int64), np.empty(1024), 0
    ready = np.empty(n_flows, np.int32)
    n_ready = 0
    for flow in range(n_flows):
        if n_waits[flow] == 0:
            ready[n_ready] = flow
            n_ready += 1
    now_s, epoch, unfinished = 0.0, 0, n_flows
    while n_ready > 0 or n_heap > 0:
        n_dirty = 0
        if n_ready == 0:
            now_s = heap_s[0]
        until_s = now_s * (1.0 + _SAME_TIME)
        while n_heap > 0 and heap_s[0] <= until_s:
            event_s, code = heap_s[0], heap_code[0]
            drop_first(heap_s, heap_code, n_heap)
            n_heap -= 1
            flow, kind = code >> 1, code & 1
            if kind == _SENT:
                if due_s[flow] != event_s:
                    continue
                due_s[flow] = np.inf
                sent_s[flow] = now_s
                if network.slot[flow] != NOBODY:
                    free_rows[n_free] = network.slot[flow] // longest
                    n_free += 1
                    n_dirty = _leave(flow, path[flow], paths, network, slots, n_dirty)
                    if record:
                        log_s, log_flow, log_rate = _room(log_s, log_flow, log_rate, n_log)
                        log_s[n_log], log_flow[n_log], log_rate[n_log] = now_s, flow, 0.0
                        n_log += 1
                behind = waiting.follower[flow]
                if behind != NOBODY:
                    n_waits[behind] -= 1
                    if n_waits[behind] == 0:
                        ready[n_ready] = behind
                        n_ready += 1
                if latency_s[flow] > 0.0:
                    if n_heap == len(heap_s):
                        heap_s, heap_code = longer(heap_s, heap_code)
                    push(heap_s, heap_code, n_heap, now_s + latency_s[flow], 2 * flow + _ARRIVED)
                    n_heap += 1
                    continue
            finish_s[flow] = now_s
            unfinished -= 1
            for i in range(waiting.freed_first[flow], waiting.freed_first[flow + 1]):
                other = waiting.freed[i]
                n_waits[other] -= 1
                if n_waits[other] == 0:
                    ready[n_ready] = other
                    n_ready += 1

        for i in range(n_ready):
            flow = ready[i]
            start_s[flow] = updated_s[flow] = now_s
            if size_bytes[flow] == 0.0 or paths.first[path[flow]] == paths.first[path[flow] + 1]:
                due_s[flow] = now_s
                if n_heap == len(heap_s):
                    heap_s, heap_code = longer(heap_s, heap_code)
                push(heap_s, heap_code, n_heap, now_s, 2 * flow + _SENT)
                n_heap += 1
                continue
            if n_free == 0:
                free_rows = np.arange(2 * n_rows - 1, -1, -1)
                n_free, n_rows = n_rows, 2 * n_rows
                slots = _Slots(_twice(slots.after), _twice(slots.before), _twice(slots.flow))
            n_free -= 1
            network.slot[flow] = free_rows[n_free] * longest
            n_dirty = _enter(flow, path[flow], paths, network, slots, n_dirty)
        n_ready = 0

        epoch += 1
        for i in range(n_dirty):
            link = network.dirty[i]
            network.is_dirty[link] = False
            if network.link_seen[link] == epoch:
                continue
            n_touched, n_sharing = _reach(link, path, paths, network, slots, epoch)
            _share_out(path, paths, bandwidth, network, slots, n_touched, n_sharing)
            for j in range(n_sharing):
                flow = network.sharing[j]
                old, fair = rate[flow], network.fair[flow]
                if abs(fair - old) <= _SAME_RATE * old:
                    continue
                left_bytes[flow] = max(left_bytes[flow] - old * (now_s - updated_s[flow]), 0.0)
                updated_s[flow] = now_s
                rate[flow] = fair
                due_s[flow] = now_s + left_bytes[flow] / fair
                if n_heap == len(heap_s):
                    heap_s, heap_code = longer(heap_s, heap_code)
                push(heap_s, heap_code, n_heap, due_s[flow], 2 * flow + _SENT)
                n_heap += 1
                if record:
                    log_s, log_flow, log_rate = _room(log_s, log_flow, log_rate, n_log)
                    log_s[n_log], log_flow[n_log], log_rate[n_log] = now_s, flow, fair
                    n_log += 1
    return start_s, sent_s, finish_s, unfinished, log_s[:n_log], log_flow[:n_log], log_rate[:n_log]


@cached_kernel()
def _twice(values: IntArray) -> IntArray:
    return np.concatenate((values, np.empty_like(values)))


@cached_kernel()
def _room(
    times: FloatArray, flows: NDArray[np.int64], rates: FloatArray, size: int
) -> tuple[FloatArray, NDArray[np.int64], FloatArray]:
    """Return the log's arrays with room for one more entry."""
    if size < len(times):
        return times, flows, rates
    times, flows = longer(times, flows)
    return times, flows, np.concatenate((rates, np.empty_like(rates)))


@cached_kernel()
def _enter(flow: int, path: int, paths: Paths, network: _Network, slots: _Slots, n_dirty: int) -> int:
    """Put a flow in the lists of its links; return the number of dirty links."""
    place = network.slot[flow]
    for hop in range(paths.first[path], paths.first[path + 1]):
        link = paths.link[hop]
        slots.flow[place] = flow
        slots.before[place] = NOBODY
        slots.after[place] = network.head[link]
        if network.head[link] != NOBODY:
            slots.before[network.head[link]] = place
        network.head[link] = place
        place += 1
        if not network.is_dirty[link]:
            network.is_dirty[link] = True
            network.dirty[n_dirty] = link
            n_dirty += 1
    return n_dirty


@cached_kernel()
def _leave(flow: int, path: int, paths: Paths, network: _Network, slots: _Slots, n_dirty: int) -> int:
    """Take a flow out of the lists of its links; return the number of dirty links."""
    place = network.slot[flow]
    for hop in range(paths.first[path], paths.first[path + 1]):
        link = paths.link[hop]
        before, after = slots.before[place], slots.after[place]
        if before != NOBODY:
            slots.after[before] = after
        else:
            network.head[link] = after
        if after != NOBODY:
            slots.before[after] = before
        place += 1
        if not network.is_dirty[link]:
            network.is_dirty[link] = True
            network.dirty[n_dirty] = link
            n_dirty += 1
    network.slot[flow] = NOBODY
    return n_dirty


@cached_kernel()
def _reach(
    link: int, path: IntArray, paths: Paths, network: _Network, slots: _Slots, epoch: int
) -> tuple[int, int]:
    """Find all links and flows that a change of a link can reach; return their numbers.

    They are written to ``touched`` and ``sharing``.
    """
    network.touched[0] = link
    network.link_seen[link] = epoch
    n_touched, n_sharing, at = 1, 0, 0
    while at < n_touched:
        place = network.head[network.touched[at]]
        at += 1
        while place != NOBODY:
            flow = slots.flow[place]
            place = slots.after[place]
            if network.flow_seen[flow] == epoch:
                continue
            network.flow_seen[flow] = epoch
            network.sharing[n_sharing] = flow
            n_sharing += 1
            for hop in range(paths.first[path[flow]], paths.first[path[flow] + 1]):
                other = paths.link[hop]
                if network.link_seen[other] != epoch:
                    network.link_seen[other] = epoch
                    network.touched[n_touched] = other
                    n_touched += 1
    return n_touched, n_sharing


@cached_kernel()
def _share_out(
    path: IntArray,
    paths: Paths,
    bandwidth: FloatArray,
    network: _Network,
    slots: _Slots,
    n_touched: int,
    n_sharing: int,
) -> None:
    """Set the max-min fair rates of the flows that share links, by progressive filling."""
    if n_sharing == 1:
        flow = network.sharing[0]
        least = np.inf
        for hop in range(paths.first[path[flow]], paths.first[path[flow] + 1]):
            least = min(least, bandwidth[paths.link[hop]] / paths.share[hop])
        network.fair[flow] = least
        return
    for i in range(n_touched):
        link = network.touched[i]
        network.spare[link] = bandwidth[link]
        network.weight[link] = 0.0
        network.growing[link] = 0
    for i in range(n_sharing):
        flow = network.sharing[i]
        network.fair[flow] = -1.0  # grows with the level
        for hop in range(paths.first[path[flow]], paths.first[path[flow] + 1]):
            network.weight[paths.link[hop]] += paths.share[hop]
            network.growing[paths.link[hop]] += 1
    left, level = n_sharing, 0.0
    while left > 0:
        least, n_left = np.inf, 0
        for i in range(n_touched):
            link = network.touched[i]
            if network.growing[link] > 0:
                network.touched[n_left] = link
                n_left += 1
                least = min(least, network.spare[link] / network.weight[link])
        n_touched = n_left
        # Rounding must not lower the level.
        level = max(level, least)
        full = level * (1.0 + _SAME_RATE)
        for i in range(n_touched):
            link = network.touched[i]
            if network.growing[link] == 0 or network.spare[link] > full * network.weight[link]:
                continue
            place = network.head[link]
            while place != NOBODY:
                flow = slots.flow[place]
                place = slots.after[place]
                if network.fair[flow] >= 0.0:
                    continue
                network.fair[flow] = level
                left -= 1
                for hop in range(paths.first[path[flow]], paths.first[path[flow] + 1]):
                    other = paths.link[hop]
                    network.growing[other] -= 1
                    network.spare[other] -= level * paths.share[hop]
                    network.weight[other] -= paths.share[hop]
