"""Fail-slow runs: closed forms, exact balancing, conservation, effects and costs of actions, drawn faults."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.failslow.faults import Faults, draw_faults
from sysgym.emulator.failslow.run import Action, FailSlowRun, balanced, replica_times
from sysgym.emulator.training.operations import BACKWARD, FORWARD
from sysgym.emulator.training.replay import step_times_s
from sysgym.emulator.training.schedules import schedule_graph, step_operations
from sysgym.scenarios import load_scenario
from sysgym.scenarios.schema.failslow import FailSlowScenario

QUIET = {"faults.worker_per_hour": 0.0, "faults.link_per_hour": 0.0, "control.noise_log_sd": 0.0}


def scenario_of(**overrides: Any) -> FailSlowScenario:
    return load_scenario("failslow-hybrid", expect=FailSlowScenario, overrides=overrides)


def run_with(faults: list[tuple[float, float, int, float]], **overrides: Any) -> FailSlowRun:
    """Return a run without noise and with the given faults: start, end, worker, factor."""
    run = FailSlowRun(scenario_of(**{**QUIET, **overrides}), 0)
    columns = [np.array(column) for column in zip(*faults, strict=True)]
    run.faults = Faults(columns[0], columns[1], columns[2].astype(np.int64), columns[3])
    run.relieved = run.gone = np.zeros(len(faults), np.bool_)
    run._measure()
    return run


def to_the_end(run: FailSlowRun, actions: dict[int, Action] | None = None) -> None:
    while not run.finished and len(run.windows) < run.scenario.control.episode_steps:
        run.step((actions or {}).get(len(run.windows), Action.NONE))


def test_a_healthy_replica_is_a_pipeline_of_equal_stages() -> None:
    """1F1B takes microbatches + stages - 1 times of a stage."""
    assert replica_times(np.ones((2, 4)), np.array([16, 10])).tolist() == [19.0, 13.0]
    slow = np.ones((1, 4))
    slow[0, 2] = 3.0
    assert replica_times(slow, np.array([16])).tolist() == [3.0 + 3.0 + 15 * 3.0]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 5), st.integers(1, 12))
def test_the_time_of_a_replica_is_a_bound_of_the_replayed_pipeline(seed: int, n_stages: int, n: int) -> None:
    """The bound is exact for equal stages, and not far away for others."""
    rng = np.random.default_rng(seed)
    operations = step_operations(n_stages, 1, n)
    graph = schedule_graph(operations, "1f1b")
    for factors in (np.ones(n_stages), 1.0 + rng.exponential(1.0, n_stages)):
        durations = np.zeros(len(operations))
        for kind, share in ((FORWARD, 1.0 / 3.0), (BACKWARD, 2.0 / 3.0)):
            here = operations.kind == kind
            durations[here] = share * factors[operations.stage[here]]
        replayed_s = float(step_times_s(graph, durations[None])[0])
        bound_s = float(replica_times(factors[None], np.array([n]))[0])
        least = 1.0 if np.ptp(factors) == 0.0 else 0.75
        assert least - 1e-9 <= replayed_s / bound_s <= 1.0 + 1e-9


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 4), st.integers(1, 3), st.integers(0, 8))
def test_balancing_is_exact(seed: int, replicas: int, stages: int, more: int) -> None:
    factors = 1.0 + np.random.default_rng(seed).exponential(1.0, (replicas, stages))
    n = replicas + more
    splits = (
        np.array(counts) for counts in itertools.product(range(1, n + 1), repeat=replicas) if sum(counts) == n
    )
    best = min(replica_times(factors, counts).max() for counts in splits)
    found = balanced(factors, n)
    assert found.sum() == n
    assert found.min() >= 1
    assert replica_times(factors, found).max() == pytest.approx(best)


def test_a_job_without_faults_takes_its_time() -> None:
    run = FailSlowRun(scenario_of(**QUIET), 1)
    to_the_end(run)
    assert run.time_s == pytest.approx(run.work_s) == 5 * 3600
    assert len(run.windows) == 300


def test_a_slow_worker_costs_what_its_factor_says() -> None:
    """Replica of 4 stages with 16 microbatches: 19 becomes 4 + 1 + 15 x 2 = 35 at a factor of 2."""
    run = run_with([(90.0, 690.0, 5, 2.0)])
    to_the_end(run)
    slowdown = 0.8 * 35 / 19 + 0.2
    assert run.windows[5].slowdown == pytest.approx(slowdown)
    assert run.time_s - run.work_s == pytest.approx(600.0 * (1.0 - 1.0 / slowdown))
    assert run.windows[1].progress_s == pytest.approx(30.0 + 30.0 / slowdown)


def test_faults_do_not_add_up() -> None:
    """A step waits for the slowest stage of a replica, the slowest replica and the slowest link."""
    run = run_with([(0.0, 600.0, -1, 3.0), (0.0, 600.0, -1, 2.0), (0.0, 600.0, 3, 2.0), (0.0, 600.0, 3, 1.5)])
    assert run.slowdown(run.active(0.0)) == pytest.approx(0.8 * 35 / 19 + 0.2 * 3.0)
    assert run.measured_link == 3.0
    assert run.slowest_worker() == 3


def test_traffic_moved_away_relieves_the_links_that_are_slow_now() -> None:
    run = run_with([(0.0, 3000.0, -1, 3.0), (1000.0, 3000.0, -1, 3.0)])
    window = run.step(Action.REROUTE)
    assert window.paused_s == 60.0
    assert window.progress_s == 0.0
    assert window.slowdown == pytest.approx(0.8 + 0.2 * (1.0 + 2.0 * 0.3))
    to_the_end(run)
    assert run.windows[20].slowdown == pytest.approx(0.8 + 0.2 * 3.0)


def test_a_replaced_worker_is_sound_and_a_later_fault_of_it_is_another_one() -> None:
    run = run_with([(0.0, 9000.0, 7, 2.0), (0.0, 9000.0, 9, 1.5), (3000.0, 3600.0, 7, 4.0)])
    run.step(Action.REPLACE)
    assert run.paused
    assert run.slowest_worker() == 9
    # An action during a pause does nothing.
    assert run.step(Action.RESTART).action is Action.NONE
    for _ in range(3):
        run.step(Action.NONE)
    assert not run.paused
    assert sum(window.paused_s for window in run.windows) == pytest.approx(300.0)
    assert run.progress_s == 0.0
    to_the_end(run)
    assert run.windows[55].slowdown == pytest.approx(0.8 * (3 + 4 * 16) / 19 + 0.2)


def test_moved_microbatches_stay_until_they_are_moved_again() -> None:
    run = run_with([(0.0, 600.0, 0, 2.0)])
    before = run.slowdown(run.active(0.0))
    window = run.step(Action.REBALANCE)
    assert run.microbatches.sum() == 8 * 16
    assert run.microbatches[0] == run.microbatches.min() < 16
    assert 1.0 < window.slowdown < before
    for _ in range(10):
        window = run.step(Action.NONE)
    assert window.slowdown > 1.0  # the fault is over, the microbatches are still elsewhere
    assert run.step(Action.REBALANCE).needed
    assert run.microbatches.tolist() == [16] * 8


def test_a_restart_loses_what_was_not_saved_and_ends_all_faults() -> None:
    run = run_with([(0.0, 1e5, 0, 2.0), (0.0, 1e5, -1, 3.0)], **{"job.checkpoint_s": 500.0})
    for _ in range(30):
        run.step(Action.NONE)
    done_s = run.progress_s
    lost_s = run.since_checkpoint_s
    assert lost_s == pytest.approx(done_s % 500.0)
    run.step(Action.REBALANCE)
    lost_s = run.since_checkpoint_s
    done_s = run.progress_s
    window = run.step(Action.RESTART)
    assert window.progress_s == pytest.approx(-lost_s)
    assert window.slowdown == 1.0
    assert run.microbatches.tolist() == [16] * 8
    to_the_end(run)
    assert run.finished
    assert run.time_s == pytest.approx(31 * 60 + 900 + run.work_s - done_s + lost_s)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31))
def test_time_is_work_and_pauses_and_slowness(seed: int) -> None:
    """No window does more than its time without pauses, nor loses more than what was not saved."""
    run = FailSlowRun(scenario_of(**{"faults.worker_per_hour": 20.0, "faults.link_per_hour": 20.0}), seed)
    rng = np.random.default_rng(seed)
    interval_s = run.scenario.control.interval_s
    while not run.finished and len(run.windows) < 120:
        unsaved_s = run.since_checkpoint_s
        window = run.step(Action(int(rng.integers(5)) if rng.random() < 0.3 else 0))
        assert -unsaved_s - 1e-9 <= window.progress_s <= interval_s - window.paused_s + 1e-9
        assert window.slowdown >= 1.0
    assert sum(window.progress_s for window in run.windows) == pytest.approx(run.progress_s)


def test_faults_have_the_means_of_the_scenario() -> None:
    scenario = scenario_of()
    drawn = [draw_faults(scenario, np.random.default_rng(seed)) for seed in range(2000)]
    hours = scenario.control.episode_steps * scenario.control.interval_s / 3600.0
    for is_link, per_hour, mean_s, factor in ((False, 1.5, 600.0, 1.5), (True, 0.75, 1440.0, 2.5)):
        chosen = [(one.worker < 0) == is_link for one in drawn]
        lasting_s = np.concatenate([(o.end_s - o.start_s)[c] for o, c in zip(drawn, chosen, strict=True)])
        factors = np.concatenate([o.factor[c] for o, c in zip(drawn, chosen, strict=True)])
        assert len(lasting_s) == pytest.approx(2000 * hours * per_hour, rel=0.03)
        assert lasting_s.mean() == pytest.approx(mean_s, rel=0.05)
        assert np.median(factors) == pytest.approx(factor, rel=0.03)
    workers = np.concatenate([one.worker for one in drawn])
    assert set(workers.tolist()) == set(range(-1, 32))
    assert all(np.all(np.diff(one.start_s) >= 0.0) for one in drawn)


def test_measurements_have_the_error_of_the_scenario() -> None:
    run = FailSlowRun(scenario_of(**{"faults.worker_per_hour": 0.0, "faults.link_per_hour": 0.0}), 3)
    seen = []
    for _ in range(200):
        run.step(Action.NONE)
        seen.append(np.log(run.measured).ravel())
    assert np.std(seen) == pytest.approx(0.05, rel=0.05)
    assert run.progress_s == pytest.approx(run.time_s)
