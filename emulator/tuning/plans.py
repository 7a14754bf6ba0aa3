"""Plans: fixed bucket sizes, local changes, and the exact fusion of gradients on one channel."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from sysgym.emulator.accelerators.cost.ring import ALL_REDUCE, ring_time_s
from sysgym.emulator.tuning.job import FloatArray, Profile
from sysgym.emulator.tuning.timing import Plan

MIB = 2.0**20

CAP_BYTES = 25.0 * MIB
"""Default size of a bucket in PyTorch's DistributedDataParallel (Li et al., VLDB 2020)."""

FIRST_CAP_BYTES = MIB
"""Size of its first bucket, if the size of the others is the default."""

Kind = Literal["merge", "split", "earlier"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Local changes: merge a bucket with the next one, split it in two, send it one place earlier."""


def in_order(ends: tuple[int, ...]) -> Plan:
    """Return the plan whose buckets are sent as they become ready."""
    return Plan(ends, tuple(range(len(ends))))


def capped(profile: Profile, cap_bytes: float, first_cap_bytes: float | None = None) -> Plan:
    """Return buckets that are closed once they have a size, as DistributedDataParallel closes them.

    A bucket is larger than its size by up to one layer, whose gradients are ready together.

    Args:
        profile: The job.
        cap_bytes: Size at which a bucket is closed.
        first_cap_bytes: The same for the first bucket; None: as for the others, which is what
            DistributedDataParallel does with every size but its default.
    """
    ends, filled = [], 0.0
    cap = cap_bytes if first_cap_bytes is None else first_cap_bytes
    for end, size in enumerate(profile.gradient_bytes, start=1):
        filled += size
        if filled >= cap:
            ends.append(end)
            filled, cap = 0.0, cap_bytes
    n_layers = len(profile.gradient_bytes)
    return in_order(tuple(ends) if ends and ends[-1] == n_layers else (*ends, n_layers))


def pytorch_default(profile: Profile) -> Plan:
    """Return the buckets of DistributedDataParallel by default: the first of 1 MiB, the others of 25 MiB.

    From the second step on, it fills them in the order in which gradients are ready.
    """
    return capped(profile, CAP_BYTES, FIRST_CAP_BYTES)


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
