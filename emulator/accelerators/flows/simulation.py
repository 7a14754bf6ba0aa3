"""Flows that wait for each other and share links: when each starts, is sent and arrives.

An idealised network: every flow gets its max-min fair rate at once (Bertsekas and Gallager, Data Networks, 2nd
ed., section 6.5.2), and its last byte arrives one latency after it was sent. A flow may cross a link with a
share of its bytes only, which is how one that is spread over parallel links is said. So the results are exact
for the model, and where nothing is shared they are the alpha-beta costs (Hockney 1994).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sysgym.emulator.accelerators.flows.heap import drop_first, longer, push
from sysgym.scenarios.errors import SysgymError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]

NOBODY = -1
"""A flow that follows no other."""

_SAME_TIME = 1e-12
"""Events within this share of the time are one batch, so that rounding does not pull symmetric flows apart."""
_SAME_RATE = 1e-12
_SENT, _ARRIVED = 0, 1


@dataclass(frozen=True, eq=False)
class Paths:
    """Ways through the network: path p has the links ``link[first[p] : first[p + 1]]``.

    Attributes:
        first: int64 [n_paths + 1], ascending from 0.
        link: int32 [n_hops].
        share: Of a flow's bytes, what crosses each link, float64 [n_hops], more than 0; 1 on a single path.
    """

    first: NDArray[np.int64]
    link: IntArray
    share: FloatArray

    @property
    def n_paths(self) -> int:
        """Number of paths."""
        return len(self.first) - 1

    def links_of(self, path: int) -> IntArray:
        """Return the links of a path, int32."""
        return self.link[self.first[path] : self.first[path + 1]]

    def shares_of(self, path: int) -> FloatArray:
        """Return the share of the bytes that crosses each link of a path, float64."""
        return self.share[self.first[path] : self.first[path + 1]]


@dataclass(frozen=True, eq=False)
class Flows:
    """Bytes to be moved, and what each flow waits for.

    Flow f waits until the flows ``wait_on[wait_first[f] : wait_first[f + 1]]`` have arrived, and until the
    last byte of ``follows[f]`` has left its sender: the one before it on the same connection.

    Attributes:
        size_bytes: float64 [n_flows], not negative; a flow of 0 bytes takes its latency.
        latency_s: From the last byte sent to its arrival, float64 [n_flows].
        path: int32 [n_flows].
        paths: What the numbers in ``path`` mean.
        wait_first: int64 [n_flows + 1], ascending from 0.
        wait_on: int32 [n_waits].
        follows: int32 [n_flows], -1 for none; no two follow the same flow.
    """

    size_bytes: FloatArray
    latency_s: FloatArray
    path: IntArray
    paths: Paths
    wait_first: NDArray[np.int64]
    wait_on: IntArray
    follows: IntArray

    @property
    def n_flows(self) -> int:
        """Number of flows."""
        return len(self.size_bytes)


class RateHistory(NamedTuple):
    """Every change of a rate, in order of time: at ``time_s[i]`` flow ``flow[i]`` begins to send at a rate."""

    time_s: FloatArray
    flow: IntArray
    rate_bytes_per_s: FloatArray


class Timeline(NamedTuple):
    """When flows start, are sent and arrive, in seconds, arrays [n_flows]."""

    start_s: FloatArray
    sent_s: FloatArray
    finish_s: FloatArray
    rates: RateHistory | None = None

    @property
    def time_s(self) -> float:
        """When the last flow has arrived; 0 without flows."""
        return float(self.finish_s.max(initial=0.0))


def simulate(flows: Flows, bandwidth_bytes_per_s: FloatArray, *, record_rates: bool = False) -> Timeline:
    """Run flows over links with max-min fair sharing, from time 0.

    Work is proportional to the events: the start or end of a flow changes only the rates of those that share
    links with it, directly or through others.

    Args:
        flows: What is moved.
        bandwidth_bytes_per_s: Of every link, float64 [n_links], more than 0.
        record_rates: Keep every change of a rate.

    Raises:
        SysgymError: An array has a wrong shape or value, or flows wait for each other in a circle.
    """
    bandwidth = np.ascontiguousarray(bandwidth_bytes_per_s, np.float64)
    _check(flows, bandwidth)
    follower = np.full(flows.n_flows, NOBODY, np.int32)
    behind = np.flatnonzero(flows.follows != NOBODY).astype(np.int32)
    follower[flows.follows[behind]] = behind
    waits = np.diff(flows.wait_first)
    # Who waits for each flow: the dependencies the other way round.
    freed = np.repeat(np.arange(flows.n_flows, dtype=np.int32), waits)
    order = np.argsort(flows.wait_on, kind="stable")
    freed = freed[order]
    freed_first = np.searchsorted(flows.wait_on[order], np.arange(flows.n_flows + 1)).astype(np.int64)
    start_s, sent_s, finish_s, unfinished, time_s, flow, rate = _run(
        flows.size_bytes,
        flows.latency_s,
        flows.path,
        flows.paths.first,
        flows.paths.link,
        flows.paths.share,
        waits + (flows.follows != NOBODY),
        freed_first,
        freed,
        follower,
        bandwidth,
        record_rates,
    )
    if unfinished:
        raise SysgymError(f"{unfinished} of {flows.n_flows} flows never start: they wait for each other")
    return Timeline(start_s, sent_s, finish_s, RateHistory(time_s, flow, rate) if record_rates else None)


def _check(flows: Flows, bandwidth: FloatArray) -> None:
    n_flows, paths = flows.n_flows, flows.paths
    for name in ("latency_s", "path", "follows"):
        if getattr(flows, name).shape != (n_flows,):
            raise SysgymError(f"{n_flows} flows, but {name} has the shape {getattr(flows, name).shape}")
    for name, first, entries in (
        ("wait_first", flows.wait_first, flows.wait_on),
        ("paths.first", paths.first, paths.link),
    ):
        if first[0] != 0 or first[-1] != len(entries) or np.any(np.diff(first) < 0):
            raise SysgymError(f"{name} does not ascend from 0 to {len(entries)}")
    if len(flows.wait_first) != n_flows + 1 or len(paths.share) != len(paths.link):
        raise SysgymError("the tables of flows or paths differ in length")
    for name, index, size in (
        ("path", flows.path, paths.n_paths),
        ("wait_on", flows.wait_on, n_flows),
        ("paths.link", paths.link, len(bandwidth)),
        ("follows", flows.follows[flows.follows != NOBODY], n_flows),
    ):
        if len(index) and not 0 <= int(index.min()) <= int(index.max()) < size:
            raise SysgymError(f"{name} goes from {index.min()} to {index.max()}, there are {size}")
    followed = flows.follows[flows.follows != NOBODY]
    if len(np.unique(followed)) < len(followed):
        raise SysgymError("two flows follow the same one")
    # NaN fails these comparisons too.
    if not (np.all(bandwidth > 0) and np.all(paths.share > 0)):
        raise SysgymError("a link's bandwidth or a share of a path is not positive")
    if not (np.all(flows.size_bytes >= 0) and np.all(flows.latency_s >= 0)):
        raise SysgymError("a flow's size or latency is negative or not a number")
    if not (np.isfinite(flows.size_bytes).all() and np.isfinite(flows.latency_s).all()):
        raise SysgymError("a flow's size or latency is not finite")


@njit(cache=True, nogil=True)
def _fill(
    touched: IntArray,
    n_touched: int,
    sharing: IntArray,
    n_sharing: int,
    path: IntArray,
    path_first: NDArray[np.int64],
    path_link: IntArray,
    path_share: FloatArray,
    bandwidth: FloatArray,
    head: IntArray,
    after: IntArray,
    flow_of_slot: IntArray,
    spare: FloatArray,
    weight: FloatArray,
    growing: IntArray,
    fair: FloatArray,
) -> None:
    """Set ``fair`` of flows that share links to their max-min rates by progressive filling."""
    if n_sharing == 1:
        flow = sharing[0]
        rate = np.inf
        for hop in range(path_first[path[flow]], path_first[path[flow] + 1]):
            rate = min(rate, bandwidth[path_link[hop]] / path_share[hop])
        fair[flow] = rate
        return
    for i in range(n_touched):
        link = touched[i]
        spare[link] = bandwidth[link]
        weight[link] = 0.0
        growing[link] = 0
    for i in range(n_sharing):
        flow = sharing[i]
        fair[flow] = -1.0
        for hop in range(path_first[path[flow]], path_first[path[flow] + 1]):
            weight[path_link[hop]] += path_share[hop]
            growing[path_link[hop]] += 1
    left, level = n_sharing, 0.0
    while left > 0:
        least = np.inf
        n_left = 0
        for i in range(n_touched):
            link = touched[i]
            if growing[link] > 0:
                touched[n_left] = link
                n_left += 1
                least = min(least, spare[link] / weight[link])
        n_touched = n_left
        # Rounding must not let the level fall.
        level = max(level, least)
        full = level * (1.0 + _SAME_RATE)
        for i in range(n_touched):
            link = touched[i]
            if growing[link] == 0 or spare[link] > full * weight[link]:
                continue
            place = head[link]
            while place >= 0:
                flow = flow_of_slot[place]
                place = after[place]
                if fair[flow] >= 0.0:
                    continue
                fair[flow] = level
                left -= 1
                for hop in range(path_first[path[flow]], path_first[path[flow] + 1]):
                    other = path_link[hop]
                    growing[other] -= 1
                    spare[other] -= level * path_share[hop]
                    weight[other] -= path_share[hop]


@njit(cache=True, nogil=True)
def _run(
    size_bytes: FloatArray,
    latency_s: FloatArray,
    path: IntArray,
    path_first: NDArray[np.int64],
    path_link: IntArray,
    path_share: FloatArray,
    n_waits: NDArray[np.int64],
    freed_first: NDArray[np.int64],
    freed: IntArray,
    follower: IntArray,
    bandwidth: FloatArray,
    record: bool,
) -> tuple[FloatArray, FloatArray, FloatArray, int, FloatArray, IntArray, FloatArray]:
    n_flows, n_links = len(size_bytes), len(bandwidth)
    start_s = np.full(n_flows, np.nan)
    sent_s = np.full(n_flows, np.nan)
    finish_s = np.full(n_flows, np.nan)
    waiting = n_waits.copy()
    rate = np.zeros(n_flows)
    fair = np.zeros(n_flows)
    left_bytes = size_bytes.copy()
    updated_s = np.zeros(n_flows)
    due_s = np.full(n_flows, np.inf)  # when the flow's valid event of being sent is

    # The flows on each link are a doubly linked list. A flow that sends has a slot for each hop of its path:
    # a row of a table that grows with the number of flows that send at once.
    longest = 1
    for p in range(len(path_first) - 1):
        longest = max(longest, path_first[p + 1] - path_first[p])
    n_rows = 64
    after = np.empty(n_rows * longest, np.int32)
    before = np.empty(n_rows * longest, np.int32)
    flow_of_slot = np.empty(n_rows * longest, np.int32)
    free_rows = np.arange(n_rows - 1, -1, -1).astype(np.int32)
    n_free = n_rows
    slot = np.full(n_flows, -1, np.int64)
    head = np.full(n_links, -1, np.int32)

    spare = np.zeros(n_links)
    weight = np.zeros(n_links)
    growing = np.zeros(n_links, np.int32)
    link_seen = np.zeros(n_links, np.int64)
    flow_seen = np.zeros(n_flows, np.int64)
    link_dirty = np.zeros(n_links, np.bool_)
    dirty = np.empty(n_links, np.int32)
    touched = np.empty(n_links, np.int32)
    sharing = np.empty(n_flows, np.int32)
    ready = np.empty(n_flows, np.int32)
    n_ready = 0
    epoch = 0

    heap_s, heap_code = np.empty(1024), np.empty(1024, np.int64)
    n_heap = 0
    log_s, log_code, log_rate = np.empty(1024), np.empty(1024, np.int64), np.empty(1024)
    n_log = 0
    for flow in range(n_flows):
        if waiting[flow] == 0:
            ready[n_ready] = flow
            n_ready += 1
    now_s = 0.0
    unfinished = n_flows
    while n_ready > 0 or n_heap > 0:
        n_dirty = 0
        if n_heap > 0 and n_ready == 0:
            now_s = heap_s[0]
            until_s = now_s * (1.0 + _SAME_TIME)
            while n_heap > 0 and heap_s[0] <= until_s:
                event_s, code = heap_s[0], heap_code[0]
                drop_first(heap_s, heap_code, n_heap)
                n_heap -= 1
                flow, kind = code >> 1, code & 1
                if kind == _SENT:
                    if due_s[flow] != event_s:
                        continue  # the rate has changed since
                    due_s[flow] = np.inf
                    sent_s[flow] = now_s
                    if slot[flow] >= 0:
                        if record:
                            if n_log == len(log_s):
                                log_s, log_code = longer(log_s, log_code)
                                log_rate = np.concatenate((log_rate, np.empty(len(log_rate))))
                            log_s[n_log], log_code[n_log], log_rate[n_log] = now_s, flow, 0.0
                            n_log += 1
                        for hop in range(path_first[path[flow]], path_first[path[flow] + 1]):
                            place = slot[flow] + hop - path_first[path[flow]]
                            link = path_link[hop]
                            if before[place] >= 0:
                                after[before[place]] = after[place]
                            else:
                                head[link] = after[place]
                            if after[place] >= 0:
                                before[after[place]] = before[place]
                            if not link_dirty[link]:
                                link_dirty[link] = True
                                dirty[n_dirty] = link
                                n_dirty += 1
                        free_rows[n_free] = slot[flow] // longest
                        n_free += 1
                        slot[flow] = -1
                    behind = follower[flow]
                    if behind >= 0:
                        waiting[behind] -= 1
                        if waiting[behind] == 0:
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
                for i in range(freed_first[flow], freed_first[flow + 1]):
                    waiting[freed[i]] -= 1
                    if waiting[freed[i]] == 0:
                        ready[n_ready] = freed[i]
                        n_ready += 1

        for i in range(n_ready):
            flow = ready[i]
            start_s[flow] = now_s
            updated_s[flow] = now_s
            if size_bytes[flow] == 0.0 or path_first[path[flow]] == path_first[path[flow] + 1]:
                due_s[flow] = now_s
                if n_heap == len(heap_s):
                    heap_s, heap_code = longer(heap_s, heap_code)
                push(heap_s, heap_code, n_heap, now_s, 2 * flow + _SENT)
                n_heap += 1
                continue
            if n_free == 0:
                after = np.concatenate((after, np.empty_like(after)))
                before = np.concatenate((before, np.empty_like(before)))
                flow_of_slot = np.concatenate((flow_of_slot, np.empty_like(flow_of_slot)))
                free_rows = np.arange(2 * n_rows - 1, -1, -1).astype(np.int32)
                n_free, n_rows = n_rows, 2 * n_rows
            n_free -= 1
            slot[flow] = free_rows[n_free] * longest
            for hop in range(path_first[path[flow]], path_first[path[flow] + 1]):
                place = slot[flow] + hop - path_first[path[flow]]
                link = path_link[hop]
                flow_of_slot[place] = flow
                before[place] = -1
                after[place] = head[link]
                if head[link] >= 0:
                    before[head[link]] = place
                head[link] = place
                if not link_dirty[link]:
                    link_dirty[link] = True
                    dirty[n_dirty] = link
                    n_dirty += 1
        n_ready = 0

        epoch += 1
        for i in range(n_dirty):
            link_dirty[dirty[i]] = False
            if link_seen[dirty[i]] == epoch:
                continue
            # All flows and links that this link's change can reach.
            touched[0] = dirty[i]
            link_seen[dirty[i]] = epoch
            n_touched, n_sharing, at = 1, 0, 0
            while at < n_touched:
                place = head[touched[at]]
                at += 1
                while place >= 0:
                    flow = flow_of_slot[place]
                    place = after[place]
                    if flow_seen[flow] == epoch:
                        continue
                    flow_seen[flow] = epoch
                    sharing[n_sharing] = flow
                    n_sharing += 1
                    for hop in range(path_first[path[flow]], path_first[path[flow] + 1]):
                        link = path_link[hop]
                        if link_seen[link] != epoch:
                            link_seen[link] = epoch
                            touched[n_touched] = link
                            n_touched += 1
            if n_sharing == 0:
                continue
            _fill(
                touched,
                n_touched,
                sharing,
                n_sharing,
                path,
                path_first,
                path_link,
                path_share,
                bandwidth,
                head,
                after,
                flow_of_slot,
                spare,
                weight,
                growing,
                fair,
            )
            for j in range(n_sharing):
                flow = sharing[j]
                if abs(fair[flow] - rate[flow]) <= _SAME_RATE * rate[flow]:
                    continue
                left_bytes[flow] = max(left_bytes[flow] - rate[flow] * (now_s - updated_s[flow]), 0.0)
                updated_s[flow] = now_s
                rate[flow] = fair[flow]
                due_s[flow] = now_s + left_bytes[flow] / rate[flow]
                if n_heap == len(heap_s):
                    heap_s, heap_code = longer(heap_s, heap_code)
                push(heap_s, heap_code, n_heap, due_s[flow], 2 * flow + _SENT)
                n_heap += 1
                if record:
                    if n_log == len(log_s):
                        log_s, log_code = longer(log_s, log_code)
                        log_rate = np.concatenate((log_rate, np.empty(len(log_rate))))
                    log_s[n_log], log_code[n_log], log_rate[n_log] = now_s, flow, rate[flow]
                    n_log += 1
    history = log_code[:n_log].astype(np.int32)
    return start_s, sent_s, finish_s, unfinished, log_s[:n_log], history, log_rate[:n_log]
