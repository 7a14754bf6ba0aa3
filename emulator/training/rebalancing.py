"""Moves of microbatches between data-parallel ranks, and what they would change by replay.

Where sequences differ in length, the time of a microbatch follows its data: it goes with it to another rank,
in all stages. How long a microbatch takes is known from the trace here; in a job it has to be predicted from
its length. Memory is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from sysgym.emulator.training.operations import BACKWARD, FORWARD, FloatArray, IntArray, Operations
from sysgym.emulator.training.replay import step_times_s
from sysgym.emulator.training.what_if import WhatIf

_DRAWS = 20


class Rebalanced(NamedTuple):
    """Result of an arrangement of the microbatches.

    Attributes:
        name: The arrangement.
        step_s: Mean time of a step by replay.
        speedup: Mean time of a traced step by replay, over it.
    """

    name: str
    step_s: float
    speedup: float


class Microbatches:
    """Microbatches of a trace, whose computations can change places.

    Args:
        operations: The n operations of a step.
        durations: Their durations, float64 [n_steps, n].

    Attributes:
        lengths_s: Computing of each microbatch, all stages, float64 [n_steps, n_data_ranks, n_microbatches].

    Raises:
        ValueError: If the data-parallel ranks or the stages have not the same microbatches.
    """

    def __init__(self, operations: Operations, durations: FloatArray) -> None:
        self._durations = durations
        data_ranks, data_rank = np.unique(operations.data_rank, return_inverse=True)
        n_microbatches = int(operations.index[operations.kind == FORWARD].max(initial=-1)) + 1
        shape = (len(data_ranks), n_microbatches)
        self._places: list[IntArray] = []
        for stage in np.unique(operations.stage):
            for kind in (FORWARD, BACKWARD):
                here = np.flatnonzero((operations.stage == stage) & (operations.kind == kind))
                slot = data_rank[here] * n_microbatches + operations.index[here]
                if not np.array_equal(np.sort(slot), np.arange(shape[0] * shape[1])):
                    raise ValueError("data-parallel ranks or stages have different microbatches")
                self._places.append(here[np.argsort(slot)])
        lengths_s = np.sum([durations[:, places] for places in self._places], axis=0)
        self.lengths_s: FloatArray = lengths_s.reshape(len(durations), *shape)

    def moved(self, source: IntArray) -> FloatArray:
        """Return the durations after a move.

        Args:
            source: Which microbatch each place gets, as ``data rank * n_microbatches + number``, int64
                [n_steps, n_data_ranks, n_microbatches].
        """
        found = self._durations.copy()
        flat = source.reshape(len(source), -1)
        for places in self._places:
            found[:, places] = np.take_along_axis(self._durations[:, places], flat, axis=1)
        return found


def longest_first(lengths_s: FloatArray) -> IntArray:
    """Return a move: each microbatch, the longest first, to the least loaded rank that has a place.

    Graham's rule (SIAM Journal on Applied Mathematics 17, 1969) with as many microbatches on every rank. A
    rank's longest microbatches come first.

    Args:
        lengths_s: Of one step, float64 [n_data_ranks, n_microbatches].
    """
    n_ranks, n_places = lengths_s.shape
    source = np.zeros(lengths_s.shape, np.int64)
    load_s, used = np.zeros(n_ranks), np.zeros(n_ranks, np.int64)
    for microbatch in np.argsort(-lengths_s.ravel(), kind="stable").tolist():
        rank = int(np.where(used < n_places, load_s, np.inf).argmin())
        source[rank, used[rank]] = microbatch
        load_s[rank] += lengths_s.ravel()[microbatch]
        used[rank] += 1
    return source


def sorted_columns(lengths_s: FloatArray) -> IntArray:
    """Return a move: like lengths are computed at the same time, the longest first; as above."""
    n_ranks, n_places = lengths_s.shape
    order = np.argsort(-lengths_s.ravel(), kind="stable")
    return order.reshape(n_places, n_ranks).T


def descending(lengths_s: FloatArray) -> IntArray:
    """Return a move within the ranks: the longest first; as above."""
    n_places = lengths_s.shape[1]
    order = np.argsort(-lengths_s, axis=1, kind="stable")
    return np.asarray(order + n_places * np.arange(len(lengths_s))[:, None])


def rebalanced(what_if: WhatIf) -> Iterator[Rebalanced]:
    """Yield the results of several arrangements of a trace's microbatches, and the bound without stragglers.

    Raises:
        ValueError: If the data-parallel ranks or the stages have not the same microbatches.
    """
    microbatches = Microbatches(what_if.operations, what_if.durations)
    lengths_s = microbatches.lengths_s

    def result(name: str, source: IntArray) -> Rebalanced:
        step_s = float(step_times_s(what_if.graph, microbatches.moved(source)).mean())
        return Rebalanced(name, step_s, what_if.step_s / step_s)

    arrangements: dict[str, Callable[[FloatArray], IntArray]] = {
        "longest first, to the least loaded rank": longest_first,
        "like lengths at the same time": sorted_columns,
        "longest first within each rank": descending,
    }
    for name, arrange in arrangements.items():
        yield result(name, np.array([arrange(step) for step in lengths_s]))
    rng = np.random.default_rng(0)
    whole = np.arange(lengths_s[0].size).reshape(lengths_s[0].shape)
    random = [
        result("random", np.array([rng.permuted(whole.ravel()).reshape(whole.shape) for _ in lengths_s]))
        for _ in range(_DRAWS)
    ]
    step_s = float(np.mean([one.step_s for one in random]))
    yield Rebalanced("random", step_s, what_if.step_s / step_s)
    yield Rebalanced("bound: no stragglers", what_if.ideal_step_s, what_if.step_s / what_if.ideal_step_s)
