"""Offsets of clocks are recovered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.training.clocks import aligned, clock_offsets_s
from sysgym.emulator.training.operations import TrainingTrace
from sysgym.emulator.training.pipeline import graph_of
from sysgym.emulator.training.synthetic import synthetic_trace


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 100), largest_s=st.sampled_from([1e-4, 5e-3, 5e-2]))
def test_injected_offsets_are_recovered_to_a_tenth_of_a_millisecond(seed: int, largest_s: float) -> None:
    trace = synthetic_trace(seed, n_steps=20)
    offsets_s = np.random.default_rng(seed).uniform(-largest_s, largest_s, len(trace.operations.ranks))
    offsets_s[0] = 0.0
    wrong = aligned(trace, -offsets_s)
    found = clock_offsets_s(wrong, graph_of(trace))
    assert np.abs(found - offsets_s).max() < 1e-4
    right = aligned(wrong, found)
    assert np.abs(right.start_s - trace.start_s).max() < 1e-4


def test_ranks_that_meet_nobody_keep_their_clocks(trace: TrainingTrace) -> None:
    from sysgym.emulator.training.graph import Graph

    alone = Graph.of(len(trace.operations), [], [])
    assert (clock_offsets_s(trace, alone) == 0.0).all()
    shifted = aligned(trace, np.full(6, 0.5))
    assert np.allclose(shifted.end_s, replace(trace).end_s - 0.5)
