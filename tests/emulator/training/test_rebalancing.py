"""Moves of microbatches: conservation, Graham's rule against all assignments, by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.emulator.training.operations import BACKWARD, FORWARD, FloatArray, Operations
from sysgym.emulator.training.pipeline import graph_of
from sysgym.emulator.training.rebalancing import (
    Microbatches,
    descending,
    longest_first,
    rebalanced,
    sorted_columns,
)
from sysgym.emulator.training.synthetic import synthetic_trace
from sysgym.emulator.training.what_if import WhatIf

ARRANGEMENTS = (longest_first, sorted_columns, descending)


def varied(seed: int = 0) -> WhatIf:
    """Return the analysis of a job whose microbatches differ in length, by as much in both stages."""
    trace = synthetic_trace(seed, n_stages=2, n_data_ranks=4, n_microbatches=6, n_steps=5)
    found = WhatIf.of(trace, graph_of(trace))
    operations = found.operations
    computing = np.isin(operations.kind, (FORWARD, BACKWARD))
    lengths = np.exp(np.random.default_rng(seed).normal(0.0, 0.5, (5, 4, 6)))
    durations = found.durations.copy()
    durations[:, computing] *= lengths[:, operations.data_rank[computing], operations.index[computing]]
    return WhatIf(operations, found.graph, durations, found.ideal, 1.0, 1.0)


@given(st.integers(0, 2**31), st.integers(1, 5), st.integers(1, 6))
def test_every_microbatch_is_computed_once(seed: int, n_ranks: int, n_places: int) -> None:
    lengths_s = np.random.default_rng(seed).exponential(1.0, (n_ranks, n_places))
    for arrange in ARRANGEMENTS:
        source = arrange(lengths_s)
        assert sorted(source.ravel().tolist()) == list(range(n_ranks * n_places))
        moved = lengths_s.ravel()[source]
        assert np.all(np.diff(moved, axis=1) <= 0.0)
    own = descending(lengths_s) // n_places
    assert np.all(own == np.arange(n_ranks)[:, None])
    columns = lengths_s.ravel()[sorted_columns(lengths_s)]
    assert np.all(columns[:, :-1].min(axis=0, initial=np.inf) >= columns[:, 1:].max(axis=0, initial=0.0))


@given(st.integers(0, 2**31))
def test_grahams_rule_is_at_most_a_third_above_the_optimum(seed: int) -> None:
    lengths_s = np.random.default_rng(seed).exponential(1.0, (2, 4))
    found = lengths_s.ravel()[longest_first(lengths_s)].sum(axis=1).max()
    halves = (lengths_s.ravel()[list(chosen)].sum() for chosen in itertools.combinations(range(8), 4))
    best = min(max(half, lengths_s.sum() - half) for half in halves)
    assert best - 1e-12 <= found <= 4.0 / 3.0 * best


def test_grahams_rule_by_hand() -> None:
    lengths_s = np.array([[9.0, 7.0, 1.0], [4.0, 3.0, 2.0]])
    # 9 | 7, 4 to the second (11), 3 to the first (12), 2 to the second (13), whose places are then used: 1.
    assert longest_first(lengths_s).tolist() == [[0, 4, 2], [1, 3, 5]]


def test_durations_move_with_their_microbatch_in_all_stages() -> None:
    what_if = varied()
    microbatches = Microbatches(what_if.operations, what_if.durations)
    assert microbatches.lengths_s.shape == (5, 4, 6)
    same = np.broadcast_to(np.arange(24).reshape(4, 6), (5, 4, 6))
    np.testing.assert_array_equal(microbatches.moved(same), what_if.durations)
    swapped = same.copy()
    swapped[:, 0, 0], swapped[:, 3, 5] = same[:, 3, 5], same[:, 0, 0]
    moved = microbatches.moved(swapped)
    number = what_if.operations.number()
    for stage, kind in itertools.product((0, 1), (FORWARD, BACKWARD)):
        here, there = number[4 * stage, kind, 0], number[4 * stage + 3, kind, 5]
        np.testing.assert_array_equal(moved[:, here], what_if.durations[:, there])
        np.testing.assert_array_equal(moved[:, there], what_if.durations[:, here])
    assert moved.sum() == pytest.approx(what_if.durations.sum())
    again = Microbatches(what_if.operations, moved)
    assert again.lengths_s[:, 0, 0] == pytest.approx(microbatches.lengths_s[:, 3, 5])


def test_balanced_ranks_are_faster_than_random_ones() -> None:
    results = {one.name: one.speedup for one in rebalanced(varied(3))}
    assert list(results)[-1] == "bound: no stragglers"
    assert results["longest first, to the least loaded rank"] > results["random"]


def test_jobs_with_other_microbatches_on_some_ranks_are_refused() -> None:
    what_if = varied()
    number = what_if.operations.number()
    keep = np.ones(len(what_if.operations), np.bool_)
    keep[number[0, FORWARD, 5]] = False
    operations = what_if.operations
    fewer = Operations(
        operations.rank[keep],
        operations.stage[keep],
        operations.data_rank[keep],
        operations.kind[keep],
        operations.index[keep],
    )
    durations: FloatArray = what_if.durations[:, keep]
    with pytest.raises(ValueError, match="different microbatches"):
        Microbatches(fewer, durations)
