"""Plans: fixed bucket sizes, local changes, and the exact fusion of gradients on one channel."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from sysgym.emulator.accelerators.cost.ring import ALL_REDUCE, ring_time_s
from sysgym.emulator.tuning.job import FloatArray, Profile
from sysgym.emulator.tuning.timing import Plan

CAP_BYTES = 25e6
"""Default size of a bucket in PyTorch's DistributedDataParallel (Li et al., VLDB 2020)."""

Kind = Literal["merge", "split", "earlier"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Local changes: merge a bucket with the next one, split it in two, send it one place earlier."""


def in_order(ends: tuple[int, ...]) -> Plan:
    """Return the plan whose buckets are sent as they become ready."""
    return Plan(ends, tuple(range(len(ends))))


def capped(profile: Profile, cap_bytes: float) -> Plan:
    """Return buckets that are closed when the next layer would exceed a size, as frameworks do."""
    ends, filled = [], 0.0
    for layer, size in enumerate(profile.gradient_bytes):
        if filled > 0.0 and filled + size > cap_bytes:
            ends.append(layer)
            filled = 0.0
        filled += size
    return in_order((*ends, len(profile.gradient_bytes)))


def by_need(plan: Plan) -> Plan:
    """Return the plan with its buckets in the order in which the next forward pass needs them."""
    return Plan(plan.ends, tuple(range(len(plan.ends) - 1, -1, -1)))


def allowed(plan: Plan, most: int) -> tuple[tuple[bool, bool, bool], ...]:
    """Return which of :data:`KINDS` each bucket allows, if there may be so many buckets."""
    n = len(plan.ends)
    sizes = np.diff((0, *plan.ends))
    return tuple(
        (bucket + 1 < n, bool(sizes[bucket] > 1) and n < most, plan.order[bucket] > 0) for bucket in range(n)
    )


def changed(plan: Plan, profile: Profile, bucket: int, kind: Kind) -> Plan:
    """Return the plan after a local change, which has to be allowed."""
    ends, order = list(plan.ends), list(plan.order)
    if kind == "merge":
        del ends[bucket]
        lower, higher = sorted((order[bucket], order[bucket + 1]))
        order[bucket : bucket + 2] = [lower]
        order = [number - (number > higher) for number in order]
    elif kind == "split":
        start = ends[bucket - 1] if bucket else 0
        sums = np.cumsum(profile.gradient_bytes[start : ends[bucket]])
        middle = int(np.abs(sums[:-1] - sums[-1] / 2.0).argmin())
        ends.insert(bucket, start + middle + 1)
        here = order[bucket]
        order = [number + (number > here) for number in order]
        order.insert(bucket + 1, here + 1)
    else:
        other = order.index(order[bucket] - 1)
        order[bucket], order[other] = order[other], order[bucket]
    return Plan(tuple(ends), tuple(order))


def fused(profile: Profile) -> Plan:
    """Return the buckets whose last one arrives first, sent as they become ready on one channel.

    Exact: with f(j) the earliest arrival of the first j layers, f(j) is the least of
    max(ready(j), f(i)) + T(i to j) over i.
    """
    sums = np.concatenate([[0.0], np.cumsum(profile.gradient_bytes)])
    ready_s = np.concatenate([[0.0], np.cumsum(profile.backward_s)])
    n = len(sums) - 1
    best_s: FloatArray = np.zeros(n + 1)
    came_from = np.zeros(n + 1, np.int64)
    for j in range(1, n + 1):
        sent_s = [bucket_time_s(profile, sums[j] - sums[i]) for i in range(j)]
        arrivals = np.maximum(ready_s[j], best_s[:j]) + sent_s
        came_from[j] = arrivals.argmin()
        best_s[j] = arrivals.min()
    ends = [n]
    while came_from[ends[-1]] > 0:
        ends.append(int(came_from[ends[-1]]))
    return in_order(tuple(reversed(ends)))


def bucket_time_s(profile: Profile, size_bytes: float) -> float:
    """Return the time of a bucket's all-reduce by the profile."""
    bandwidth, latency_s = profile.bandwidth_bytes_per_s, profile.latency_s
    return float(ring_time_s(ALL_REDUCE, profile.n_workers, size_bytes, bandwidth, latency_s))
