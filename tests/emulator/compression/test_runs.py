"""Runs: conditions, progress through phases, changes of the method, and the optimum against all sequences."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.compression.conditions import (
    draw_background,
    draw_bandwidth,
    draw_conditions,
    draw_workers,
)
from sysgym.emulator.compression.optimum import fastest_run, run_of
from sysgym.emulator.compression.progress import Training, advance, rebuild, training_of
from sysgym.emulator.compression.run import TrainingRun
from sysgym.emulator.compression.times import N_METHODS, NONE
from sysgym.scenarios import load_scenario
from sysgym.scenarios.schema.compression import Bandwidth, CompressionScenario, WorkerTable

METHODS = st.integers(0, N_METHODS - 1)


def scenario(**changes: Any) -> CompressionScenario:
    """Return the drifting scenario with some keys replaced."""
    return load_scenario("compression-drift", overrides=changes, expect=CompressionScenario)


def training(iterations: float, rebuild_iterations: float, seed: int, n_phases: int = 3) -> Training:
    """Return a training whose phases and losses are random."""
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.uniform(0.0, iterations, n_phases - 1))
    loss = rng.uniform(0.0, 0.6, (n_phases, N_METHODS))
    loss[:, NONE] = 0.0
    return Training(
        iterations, rebuild_iterations, np.append(ends, np.inf), loss, np.zeros(n_phases, np.bool_)
    )


def random_times_s(n_windows: int, seed: int) -> Any:
    """Return random times of an iteration by window and method."""
    return np.random.default_rng([1, seed]).uniform(0.05, 0.5, (n_windows, N_METHODS))


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    iterations=st.sampled_from([15.0, 40.0, 60.0, 500.0]),
    rebuilt=st.sampled_from([0.0, 1.5, 6.0]),
)
def test_the_optimum_is_the_best_of_all_sequences(seed: int, iterations: float, rebuilt: float) -> None:
    """Of three methods in five windows; the others are too slow to matter."""
    job, times_s = training(iterations, rebuilt, seed), random_times_s(5, seed)
    kept = [0, 3, 8]
    times_s[:, [method for method in range(N_METHODS) if method not in kept]] = 1e6
    runs = [
        run_of(job, times_s, 3.0, np.array(methods))
        for methods in itertools.product(kept, repeat=len(times_s))
    ]
    finished = [run.time_s for run in runs if run.progress >= iterations]
    best = fastest_run(job, times_s, 3.0)
    if finished:
        assert best.progress == iterations
        assert best.time_s == pytest.approx(min(finished), rel=1e-12)
    else:
        assert best.progress == pytest.approx(max(run.progress for run in runs), rel=1e-12)
    assert run_of(job, times_s, 3.0, best.methods)[1:] == pytest.approx(best[1:], rel=1e-12)


@given(seed=st.integers(0, 10_000), iterations=st.floats(0.0, 200.0), cut=st.floats(0.0, 1.0), method=METHODS)
def test_progress_in_two_parts_is_progress_in_one(
    seed: int, iterations: float, cut: float, method: int
) -> None:
    job = training(100.0, 3.0, seed)
    whole, ran = advance(job, 0.0, method, iterations)
    first, ran_first = advance(job, 0.0, method, cut * iterations)
    second, ran_second = advance(job, first, method, iterations - cut * iterations)
    assert second == pytest.approx(whole, abs=1e-9)
    assert ran_first + ran_second == pytest.approx(ran, abs=1e-9)
    assert whole <= min(iterations, 100.0) + 1e-9
    assert (whole >= 100.0) == (ran < iterations or math.isclose(whole, 100.0, abs_tol=1e-12))


@given(
    seed=st.integers(0, 10_000),
    behind=st.floats(-10.0, 90.0),
    lead=st.floats(0.0, 10.0),
    methods=st.lists(METHODS, min_size=1, max_size=12),
)
def test_who_is_ahead_stays_ahead_under_the_same_methods(
    seed: int, behind: float, lead: float, methods: list[int]
) -> None:
    """What the dynamic programme rests on."""
    job = training(100.0, 3.0, seed)
    one, other, before = behind, behind + lead, NONE
    for method in methods:
        taken = rebuild(job, before, method)
        one, other = (advance(job, progress - taken, method, 7.0)[0] for progress in (one, other))
        assert other >= one - 1e-9
        before = method


def test_a_change_costs_iterations_only_towards_error_feedback() -> None:
    job = training(100.0, 3.0, 0)
    costs = [[rebuild(job, before, method) for method in range(N_METHODS)] for before in range(N_METHODS)]
    assert [row[:2] for row in costs] == [[0.0, 0.0]] * N_METHODS
    assert all(
        costs[before][method] == (0.0 if before == method else 3.0)
        for before in range(N_METHODS)
        for method in range(2, N_METHODS)
    )


def test_phases_of_a_scenario_are_where_its_keys_say() -> None:
    made = training_of(scenario())
    n = made.iterations
    np.testing.assert_allclose(made.ends, [0.08 * n, 0.5 * n, 0.58 * n, 0.75 * n, 0.83 * n, np.inf])
    assert made.critical.tolist() == [True, False, True, False, True, False]
    np.testing.assert_allclose(made.loss[0], np.minimum(5.0 * made.loss[1], 0.95))
    unbroken = training_of(scenario(**{"loss.critical_starts": []}))
    assert unbroken.ends.tolist() == [np.inf]
    last = training_of(scenario(**{"loss.critical_starts": [0.98]}))
    assert last.ends.tolist() == [0.98 * n, n, np.inf]


def test_bandwidth_is_an_ornstein_uhlenbeck_process_in_its_logarithm() -> None:
    network = Bandwidth(median_bps=5e9, log_sd=0.5, correlation_s=50.0, least_bps=1e6, most_bps=1e13)
    logs = np.log(draw_bandwidth(network, 200_000, 5.0, np.random.default_rng(7)) / 5e9)
    assert logs.mean() == pytest.approx(0.0, abs=0.02)
    assert logs.std() == pytest.approx(0.5, abs=0.02)
    for lag in (1, 5, 10):
        correlation = np.corrcoef(logs[:-lag], logs[lag:])[0, 1]
        assert correlation == pytest.approx(math.exp(-lag * 5.0 / 50.0), abs=0.02)


def test_background_traffic_is_on_for_its_share_of_the_time() -> None:
    network = Bandwidth(median_bps=5e9, background_share=0.5, background_on_s=60.0, background_off_s=180.0)
    busy = draw_background(network, 1_000_000, 1.0, np.random.default_rng(3))
    assert busy.mean() == pytest.approx(0.25, abs=0.02)
    lengths = [len(list(group)) for on, group in itertools.groupby(busy.tolist()) if on]
    assert np.mean(lengths) == pytest.approx(60.0, rel=0.1)


def test_workers_double_and_halve_between_their_ends() -> None:
    table = WorkerTable(count=16, least=8, most=64, change_s=50.0)
    counts = draw_workers(table, 20_000, 5.0, np.random.default_rng(3))
    assert set(counts.tolist()) == {8, 16, 32, 64}
    assert set((counts[1:] / counts[:-1]).tolist()) == {0.5, 1.0, 2.0}
    assert set(draw_workers(WorkerTable(count=16), 50, 5.0, np.random.default_rng(3)).tolist()) == {16}


def test_a_key_of_one_condition_leaves_the_others_as_they_are() -> None:
    one = draw_conditions(scenario(), 5)
    other = draw_conditions(scenario(**{"workers.change_s": 30.0, "measuring.noise_log_sd": 0.5}), 5)
    np.testing.assert_array_equal(one.goodput_bps, other.goodput_bps)
    np.testing.assert_array_equal(one.backward_s, other.backward_s)
    assert not np.array_equal(one.workers, other.workers)
    assert not np.array_equal(one.measured_bps, other.measured_bps)


@given(seed=st.integers(0, 500), method=METHODS)
@settings(max_examples=10)
def test_a_run_window_by_window_is_the_run_as_a_whole(seed: int, method: int) -> None:
    run = TrainingRun(scenario(**{"control.episode_steps": 300, "job.iterations": 2000}), seed)
    while not (run.finished or run.exhausted):
        run.step(method)
    whole = run.always(method)
    assert (run.progress, run.time_s, run.finish_s) == whole[1:]
    assert run.optimum.finish_s <= whole.finish_s * (1.0 + 1e-12)
    assert run.changes == (method != NONE)
