"""Synthesised programs are the best of all programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sysgym.emulator.accelerators.programs import (
    ProgramSpace,
    best_program,
    enumerate_programs,
    explore,
    format_program,
    program_space,
    program_times,
    top_programs,
)
from sysgym.scenarios.errors import SysgymError


def drawn_times(space: ProgramSpace, seed: int, largest: int) -> NDArray[np.float64]:
    """Whole numbers of seconds, so that sums are exact and ties are many."""
    return np.random.default_rng(seed).integers(0, largest, space.n_edges).astype(np.float64)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 3), st.integers(1, 5), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5, 100, 10**9])
)
def test_dynamic_programming_is_the_minimum_over_all_programs(
    n_levels: int, max_steps: int, seed: int, largest: int
) -> None:
    space = program_space(n_levels)
    edge_time_s = drawn_times(space, seed, largest)
    programs = enumerate_programs(space, max_steps)
    times = [float(edge_time_s[space.edges_of(program)].sum()) for program in programs]
    assert times == program_times(space, edge_time_s, max_steps).tolist()
    program, time_s = best_program(space, edge_time_s, max_steps)
    assert time_s == min(times)
    # Programs are listed by length, then order: of equal ones the first.
    assert program == programs[times.index(min(times))]
    ranked = sorted(range(len(programs)), key=lambda index: times[index])
    assert top_programs(space, edge_time_s, 20, max_steps) == [
        (programs[index], times[index]) for index in ranked[:20]
    ]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 3), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-9, 0.05, 0.5]))
def test_within_the_tolerance_the_first_in_order_is_taken(n_levels: int, seed: int, tolerance: float) -> None:
    space = program_space(n_levels)
    edge_time_s = np.random.default_rng(seed).lognormal(0.0, 1.0, space.n_edges)
    times = program_times(space, edge_time_s)
    limit_s = times.min() * (1.0 + tolerance)
    program, time_s = best_program(space, edge_time_s, tolerance=tolerance)
    programs = enumerate_programs(space, 5)
    # Sums in another order of addition differ by rounding.
    assert time_s <= limit_s * (1.0 + 1e-12)
    assert time_s == pytest.approx(edge_time_s[space.edges_of(program)].sum(), rel=1e-12)
    earlier = times[: programs.index(program)]
    assert (earlier > limit_s * (1.0 - 1e-12)).all()


def test_rounding_does_not_break_ties() -> None:
    # 0.1 + 0.2 is more than 0.3: equal costs all the same, and one step is better than two.
    space = program_space(1)
    edge_time_s = np.zeros(space.n_edges)
    by_label = {"all:AR": 0.1 + 0.2, "all:RS": 0.1, "all:AG": 0.2, "all:R": 0.2, "all:B": 0.1}
    for edge in range(space.n_edges):
        edge_time_s[edge] = by_label[format_program([space.edge_instruction(edge)], 1)]
    edge_time_s[space.edges_of(enumerate_programs(space, 1)[0])] *= 1.0 + 1e-12
    program, _ = best_program(space, edge_time_s)
    assert format_program(program, 1) == "all:AR"
    found = [format_program(program, 1) for program, _ in top_programs(space, edge_time_s, 3)]
    assert found == ["all:AR", "all:RS all:AG", "all:R all:B"]


def test_free_steps_and_one_device() -> None:
    space = program_space(3)
    program, time_s = best_program(space, np.zeros(space.n_edges))
    assert (format_program(program, 3), time_s) == ("all:AR", 0.0)
    assert [len(program) for program, _ in top_programs(space, np.zeros(space.n_edges), 8)] == [
        1,
        *[2] * 6,
        3,
    ]
    nothing = program_space(0)
    assert best_program(nothing, np.zeros(0)) == ((), 0.0)
    assert top_programs(nothing, np.zeros(0), 3) == [((), 0.0)]


def test_more_programs_than_there_are() -> None:
    space = program_space(2)
    ranked = top_programs(space, drawn_times(space, 3, 50), 10_000)
    assert len(ranked) == len({program for program, _ in ranked}) == 93
    assert [time_s for _, time_s in ranked] == sorted(time_s for _, time_s in ranked)


def test_longer_programs_of_given_factors() -> None:
    space = explore((2, 2, 2))
    edge_time_s = drawn_times(space, 5, 1000)
    times = program_times(space, edge_time_s, 9)
    assert len(times) == 13_146
    assert best_program(space, edge_time_s, 9)[1] == times.min()


def test_times_that_are_none() -> None:
    space = program_space(2)
    for value in (-1.0, np.nan, np.inf):
        edge_time_s = np.ones(space.n_edges)
        edge_time_s[17] = value
        with pytest.raises(SysgymError, match="negative or not finite"):
            best_program(space, edge_time_s)
        with pytest.raises(SysgymError, match="negative or not finite"):
            top_programs(space, edge_time_s, 1)
    with pytest.raises(SysgymError, match="84 steps"):
        best_program(space, np.ones(83))
    with pytest.raises(SysgymError, match="no program of 2 levels has at most 0 steps"):
        best_program(space, np.ones(84), 0)
    assert top_programs(space, np.ones(84), 3, 0) == []
    with pytest.raises(SysgymError, match="6 are asked for"):
        best_program(space, np.ones(84), 6)
