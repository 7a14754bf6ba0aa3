"""Times of a job's steps: each replica's pipeline is replayed, and all wait for the slowest one.

A replica gathers the parameters of its stages, runs its microbatches in the order of 1F1B, and reduces its
gradients with the others, stage by stage. Replicas meet nowhere else, so each is replayed alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sysgym.emulator.compiling import cached_kernel
from sysgym.emulator.failslow.work import WAYS, FloatArray, IntArray, Work
from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import ALL_GATHER, BACKWARD, TRANSFERS
from sysgym.emulator.training.replay import replay
from sysgym.emulator.training.schedules import schedule_graph, step_operations


class Plan(NamedTuple):
    """Who computes what.

    Attributes:
        ends: Number of the layer after each stage's last one.
        pace: Time that each replica is thought to take for a microbatch of length 1, relative to the others.
            Microbatches are dealt by it in every step, the longest first.
    """

    ends: tuple[int, ...]
    pace: tuple[float, ...]


class _Replica(NamedTuple):
    """Operations of a replica with some microbatches."""

    graph: Graph
    n: int
    passes: list[tuple[IntArray, IntArray, IntArray]]
    transfers: IntArray
    sent: IntArray
    gathers: IntArray
    gathering: IntArray
    last: IntArray


@lru_cache(maxsize=512)
def _replica(n_stages: int, n_microbatches: int) -> _Replica:
    operations = step_operations(n_stages, 1, n_microbatches)
    passes = []
    for kind in WAYS:
        here = np.flatnonzero(operations.kind == kind)
        passes.append((here, operations.stage[here], operations.index[here]))
    transfers = np.flatnonzero(np.isin(operations.kind, TRANSFERS))
    gathers = np.flatnonzero(operations.kind == ALL_GATHER)
    is_last = (operations.kind == BACKWARD) & (operations.index == n_microbatches - 1)
    last = np.flatnonzero(is_last)[np.argsort(operations.stage[is_last])]
    return _Replica(
        schedule_graph(operations, "1f1b"),
        len(operations),
        passes,
        transfers,
        operations.index[transfers],
        gathers,
        operations.stage[gathers],
        last,
    )


class StepTimes:
    """Times of the steps of a job, under any plan and with any slow parts.

    Args:
        work: The job's work.

    Attributes:
        work: The same.
        healthy: Factors of workers that are not slow.
        first: Layers and microbatches divided for them.
        healthy_s: Mean time of a step with that plan if nothing is slow.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self._sorted = np.argsort(-work.lengths, axis=1, kind="stable")
        self._of_layers_s = work.layers_s.sum(axis=0)
        self._dealt: dict[Plan, IntArray] = {}
        self._ends: dict[tuple[object, ...], FloatArray] = {}
        self._steps: dict[tuple[object, ...], float] = {}
        self.healthy = np.ones((work.n_replicas, work.n_stages))
        self._undisturbed: tuple[int, ...] = ()
        self._undisturbed = self.divided(self.healthy)
        self.first = Plan(self._undisturbed, (1.0,) * work.n_replicas)
        self.healthy_s = self.step_s(self.healthy, 1.0, self.first)

    def step_s(self, factors: FloatArray, link: float, plan: Plan) -> float:
        """Return the mean time of a step by replay.

        Args:
            factors: Factors of the workers' computing, shape (n_replicas, n_stages).
            link: Factor of the exchange.
            plan: The plan.
        """
        key = (factors.tobytes(), link, plan)
        if key not in self._steps:
            n_steps = len(self.work.lengths)
            self._steps[key] = float(
                np.mean([self._one_step_s(step, factors, link, plan) for step in range(n_steps)])
            )
        return self._steps[key]

    def expected_s(self, factors: FloatArray, link: float, plan: Plan) -> float:
        """Return about the mean time of a step, by a closed form that is fast.

        A replica's computing takes the sum of its stages' times for one microbatch of mean length, and for
        the other ones the slowest stage's. This is exact for equal stages and microbatches if transfers
        between stages take no time: the closed form leaves them out.
        """
        work = self.work
        times_s = factors * np.add.reduceat(self._of_layers_s, (0, *plan.ends[:-1]))
        loads, counts = self.loads(plan)
        mean = loads / counts
        computing_s = mean * times_s.sum(axis=1) + (loads - mean) * times_s.max(axis=1)
        return float(computing_s.max(axis=1).mean()) + link * self._exchange_s(plan) + work.tail_s

    def exchange_share(self, plan: Plan) -> float:
        """Return the share of a healthy step in which parameters and gradients are exchanged."""
        return self._exchange_s(plan) / self.healthy_s

    def divided(self, factors: FloatArray) -> tuple[int, ...]:
        """Return the ends of stages whose slowest worker is fastest; each stage has a layer.

        Exact up to 1e-9 of the time: a bound is feasible if stages that take as many layers as it allows
        have them all (bisection over the bound).
        """
        slow = factors.max(axis=0)
        if self._undisturbed and (slow == 1.0).all():
            return self._undisturbed
        ends = np.arange(1, len(slow) + 1)
        _divide(np.concatenate([[0.0], np.cumsum(self._of_layers_s)]), slow, ends)
        return tuple(ends.tolist())

    def paced(self, factors: FloatArray, ends: tuple[int, ...]) -> tuple[float, ...]:
        """Return the time of a microbatch on each replica, over that of the fastest one."""
        times_s = factors * np.add.reduceat(self._of_layers_s, (0, *ends[:-1]))
        slowest_s = times_s.max(axis=1)
        return tuple((slowest_s / slowest_s.min()).tolist())

    def loads(self, plan: Plan) -> tuple[FloatArray, FloatArray]:
        """Return lengths and numbers of each replica's microbatches, shape (n_steps, n_replicas) each."""
        replica_of = self._deal(plan)
        n_steps = len(replica_of)
        n_replicas = self.work.n_replicas
        slot = (replica_of + n_replicas * np.arange(n_steps)[:, None]).ravel()
        size = n_steps * n_replicas
        shape = (n_steps, n_replicas)
        lengths = np.bincount(slot, self.work.lengths.ravel(), size).astype(np.float64).reshape(shape)
        counts = np.bincount(slot, minlength=size).astype(np.float64).reshape(shape)
        return lengths, counts

    def _exchange_s(self, plan: Plan) -> float:
        starts = (0, *plan.ends[:-1])
        both_s = np.add.reduceat(self.work.gather_s + self.work.scatter_s, starts)
        return float(both_s.max()) + 2.0 * self.work.latency_s

    def _deal(self, plan: Plan) -> IntArray:
        """Return the replica of each microbatch in each step, int64 [n_steps, n_microbatches]."""
        if plan not in self._dealt:
            if len(self._dealt) > 256:
                self._dealt.clear()
            found = np.empty(self._sorted.shape, np.int64)
            _deal(self._sorted, self.work.lengths, np.array(plan.pace), found)
            self._dealt[plan] = found
        return self._dealt[plan]

    def _one_step_s(self, step: int, factors: FloatArray, link: float, plan: Plan) -> float:
        replica_of = self._deal(plan)[step]
        starts = (0, *plan.ends[:-1])
        order = self._sorted[step]
        ends_s = [
            self._replica_ends_s(step, order[replica_of[order] == replica], factors[replica], link, plan.ends)
            for replica in range(self.work.n_replicas)
        ]
        scatter_s = link * (np.add.reduceat(self.work.scatter_s, starts) + self.work.latency_s)
        return float((np.max(ends_s, axis=0) + scatter_s).max()) + self.work.tail_s

    def _replica_ends_s(
        self, step: int, mine: IntArray, factors: FloatArray, link: float, ends: tuple[int, ...]
    ) -> FloatArray:
        """Return when each stage of a replica has done its last backward pass, shape (n_stages,)."""
        key = (step, mine.tobytes(), factors.tobytes(), link, ends)
        if key not in self._ends:
            work, one = self.work, _replica(self.work.n_stages, len(mine))
            starts = (0, *ends[:-1])
            duration_s = np.zeros(one.n)
            for way, (here, stage, index) in enumerate(one.passes):
                factor = work.microbatches[step, way][:, mine]
                by_layer = work.layers_s[way][:, None] * factor[work.origin]
                by_stage = np.add.reduceat(by_layer, starts, axis=0) * factors[:, None]
                duration_s[here] = by_stage[stage, index]
            duration_s[one.transfers] = work.transfer_s * work.lengths[step, mine[one.sent]]
            gather_s = link * (np.add.reduceat(work.gather_s, starts) + work.latency_s)
            duration_s[one.gathers] = gather_s[one.gathering]
            self._ends[key] = replay(one.graph, duration_s).end_s[one.last]
        return self._ends[key]


@cached_kernel("sysgym.emulator.failslow")
def _deal(order: Any, lengths: Any, pace: Any, replica_of: Any) -> Any:
    """Deal microbatches, the longest first, each to the replica that then ends first; none stays empty."""
    n_replicas = len(pace)
    for step in range(len(order)):
        load = np.zeros(n_replicas)
        count = np.zeros(n_replicas, np.int64)
        empty = n_replicas
        left = order.shape[1]
        for place in range(order.shape[1]):
            microbatch = order[step, place]
            best, best_end = -1, np.inf
            for replica in range(n_replicas):
                if left <= empty and count[replica] > 0:
                    continue
                end = (load[replica] + lengths[step, microbatch]) * pace[replica]
                if end < best_end:
                    best, best_end = replica, end
            if count[best] == 0:
                empty -= 1
            load[best] += lengths[step, microbatch]
            count[best] += 1
            replica_of[step, microbatch] = best
            left -= 1


@cached_kernel("sysgym.emulator.failslow")
def _divide(sums_s: Any, slow: Any, ends: Any) -> Any:
    """Set the ends of stages; `sums_s` has the time of the layers before each one, and of all."""
    n_stages, n_layers = len(slow), len(sums_s) - 1
    ends[n_stages - 1] = n_layers
    found = np.empty(n_stages, np.int64)
    low_s, high_s = 0.0, slow.max() * sums_s[-1] * (1.0 + 1e-9)
    while high_s - low_s > 1e-9 * sums_s[-1]:
        bound_s = 0.5 * (low_s + high_s)
        end = 0
        for stage in range(n_stages):
            limit_s = sums_s[end] + bound_s / slow[stage]
            most = n_layers - (n_stages - stage - 1)
            start = end
            while end < most and sums_s[end + 1] <= limit_s:
                end += 1
            if end == start:
                end = -1
                break
            found[stage] = end
        if end == n_layers:
            high_s = bound_s
            ends[:] = found
        else:
            low_s = bound_s
