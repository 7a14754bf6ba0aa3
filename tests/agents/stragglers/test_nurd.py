"""NURD step by step on an example computed by hand, and the limits of its base model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from sysgym.agents import make_agent
from sysgym.agents.stragglers.learner import Checkpoint, checkpoint_of, scaled
from sysgym.agents.stragglers.nurd import (
    EPSILON,
    NurdAgent,
    calibration,
    centroid_ratio,
    predict_latency,
    propensity,
    rescaled,
    weights,
)
from sysgym.emulator.cluster.job import QUANTILE, Job
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios.errors import UnknownName

REGRESSORS = ("histogram", "exact")


@pytest.fixture
def example(view_of: Callable[..., JobView]) -> JobView:
    """Two finished tasks and two running ones; the second counter never changes."""
    return view_of(
        [[10.0, 5.0], [20.0, 5.0], [20.0, 5.0], [40.0, 5.0]],
        latency={0: 4.0, 1: 6.0},
        elapsed={2: 6.0, 3: 6.0},
        threshold=8.0,
    )


def propensity_by_newton(x: Any, running: Any, at: Any) -> Any:
    """What the logistic regression minimises: half the squared slope plus the log loss."""
    x, running = np.asarray(x, float), np.asarray(running, float)

    def loss(p: Any) -> float:
        margin = p[0] * x + p[1]
        return float(0.5 * p[0] ** 2 + np.sum(np.log1p(np.exp(margin)) - running * margin))

    slope, offset = minimize(loss, [0.0, 0.0], tol=1e-12).x
    return 1.0 / (1.0 + np.exp(slope * np.asarray(at) + offset))


@pytest.mark.parametrize("regressor", REGRESSORS)
def test_every_step_of_the_worked_example(
    example: JobView, stage: Any, contended_job: Job, regressor: str
) -> None:
    now, running = checkpoint_of(example)
    assert running.tolist() == [2, 3]
    # Range of finished tasks: 10 to 20; the constant counter is dropped.
    assert now.x_finished.tolist() == [[0.0], [1.0]]
    assert now.x_running.tolist() == [[1.0], [3.0]]
    # Latencies 4 to 6 become 0 to 1, and the threshold 8 becomes 2.
    on_scale = rescaled(now)
    assert on_scale.latency.tolist() == [0.0, 1.0]
    assert on_scale.threshold == 2.0
    # Centroids 1/2 and 2: rho = (1/4) / (9/4) = 1/9, so 1 / (1 + rho) = 0.9.
    assert centroid_ratio(now.x_finished, now.x_running) == pytest.approx(1 / 9)
    assert calibration(1 / 9, 0.75) == pytest.approx(0.15)
    # A hundred trees, each taking a tenth of what is left of the way from the mean 1/2 to the leaf's mean 1.
    predicted = 1.0 - 0.5 * 0.9**100
    # The larger the running task's counter, the less it looks finished.
    z = propensity_by_newton([0.0, 1.0, 1.0, 3.0], [0, 0, 1, 1], [1.0, 3.0])
    assert z == pytest.approx([0.538874, 0.215450], abs=1e-5)

    agent = NurdAgent(alpha=0.75, regressor=regressor)
    agent.begin(stage(contended_job))
    steps = agent.judge(now)
    assert agent.delta == pytest.approx(0.15)
    assert steps.predicted == pytest.approx([predicted] * 2, abs=1e-6)
    assert steps.propensity == pytest.approx(z, abs=1e-4)
    assert steps.weight == pytest.approx([0.688874, 0.365450], abs=1e-4)
    assert steps.adjusted == pytest.approx([predicted / 0.688874, predicted / 0.365450], abs=1e-3)
    assert steps.adjusted == pytest.approx([1.4516, 2.7363], abs=1e-3)
    assert steps.flags.tolist() == [False, True]
    assert agent.predict(example).tolist() == [False, False, False, True]


def test_on_raw_latencies_the_example_is_flagged_twice(
    example: JobView, stage: Any, contended_job: Job
) -> None:
    agent = NurdAgent(alpha=0.75, scale_latency=False)
    agent.begin(stage(contended_job))
    # 6 / 0.689 = 8.71 and 6 / 0.365 = 16.4, both above 8.
    steps = agent.judge(checkpoint_of(example)[0])
    assert steps.adjusted == pytest.approx([8.7099, 16.4181], abs=2e-3)
    assert steps.flags.all()


def test_without_calibration_the_propensity_divides(example: JobView, stage: Any, contended_job: Job) -> None:
    agent: Any = make_agent("nurd_nc")
    agent.begin(stage(contended_job))
    steps = agent.judge(checkpoint_of(example)[0])
    assert np.array_equal(steps.weight, steps.propensity)
    assert steps.adjusted == pytest.approx([1 / 0.538874, 1 / 0.215450], abs=2e-3)


def test_calibration_is_fixed_at_the_first_checkpoint(
    example: JobView, view_of: Any, stage: Any, contended_job: Job
) -> None:
    agent = NurdAgent(alpha=0.0)
    env = stage(contended_job)
    agent.begin(env)
    agent.judge(checkpoint_of(example)[0])
    later = view_of([[10.0], [20.0], [30.0], [40.0]], latency={0: 4, 1: 6, 2: 7}, elapsed={3: 7}, threshold=8)
    agent.judge(checkpoint_of(later)[0])
    assert agent.delta == pytest.approx(0.9)
    agent.begin(env)
    agent.judge(checkpoint_of(later)[0])
    # Centroids 1/2 and 3/2.
    assert agent.delta == pytest.approx(1.0 / (1.0 + 0.25))


def test_centroids_in_one_place_give_no_shift() -> None:
    same = np.array([[0.0], [1.0]])
    assert centroid_ratio(same, same) == np.inf
    assert calibration(np.inf, 0.0) == 0.0


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5), st.floats(-2.0, 2.0))
def test_weights_are_clipped(z: list[float], delta: float) -> None:
    result = weights(np.array(z), delta)
    assert ((result >= EPSILON) & (result <= 1.0)).all()
    inside = (np.array(z) + delta > EPSILON) & (np.array(z) + delta < 1.0)
    assert result[inside] == pytest.approx((np.array(z) + delta)[inside])


@given(st.floats(0.5, 100.0), st.floats(-50.0, 50.0))
def test_features_do_not_depend_on_units(factor: float, offset: float) -> None:
    rng = np.random.default_rng(0)
    finished, running = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    ours = scaled(finished, running)
    theirs = scaled(finished * factor + offset, running * factor + offset)
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other, abs=1e-6)


def test_scaling_reads_finished_tasks_only() -> None:
    finished = np.array([[1.0, 7.0], [3.0, 7.0]])
    x_finished, x_running = scaled(finished, np.array([[2.0, 9.0], [100.0, 7.0]]))
    assert x_finished.tolist() == [[0.0], [1.0]]
    assert x_running.tolist() == [[0.5], [49.5]]


def test_counters_may_come_with_those_of_the_last_window(example: JobView) -> None:
    assert checkpoint_of(example, "mean+last")[0].x_running.tolist() == [[1.0, 1.0], [3.0, 3.0]]


def test_a_task_without_a_whole_window_is_not_judged(view_of: Any) -> None:
    view = view_of([1.0, 2.0, 0.0, 2.0], latency={0: 3, 1: 4}, elapsed={2: 0.6, 3: 1.0}, threshold=9)
    assert checkpoint_of(view)[1].tolist() == [3]


@pytest.mark.parametrize("regressor", REGRESSORS)
def test_regression_alone_finds_no_straggler_before_the_threshold(
    contended_job: Job, play: Any, stage: Any, regressor: str
) -> None:
    agent = make_agent("gbtr", regressor=regressor)
    agent.begin(stage(contended_job))
    threshold_s = contended_job.threshold_s(QUANTILE, 0.9)
    in_time: list[bool] = []

    def act(observation: Any) -> Any:
        action = agent.act(observation)
        new = (action > 0) & (observation["tasks"][:, 5] < 0.5)
        in_time.extend(observation["tasks"][new, 3] * contended_job.window_s < threshold_s)
        return action

    play(contended_job, act)
    assert not any(in_time)


@pytest.mark.parametrize("regressor", REGRESSORS)
def test_regression_passes_what_it_has_seen_only_by_adding_causes(regressor: str) -> None:
    """Trees add up: six causes, each seen alone, predict more together than any task has shown."""
    x = np.tile(np.vstack([np.zeros(6), np.eye(6)]), (10, 1))
    latency = np.tile([1.0, *[3.0] * 6], 10)
    alone = Checkpoint(x[:, :1], latency, np.array([[5.0]]), np.array([1.0]), 9.0)
    assert predict_latency(alone, regressor)[0] <= 3.0
    together = Checkpoint(x, latency, np.ones((1, 6)), np.array([1.0]), 9.0)
    assert predict_latency(together, regressor)[0] > 4.0


def test_both_regressors_grow_nearly_the_same_trees() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(size=(200, 3))
    latency = 5.0 + 3.0 * x[:, 0] + rng.normal(0.0, 0.1, 200)
    now = Checkpoint(x, latency, rng.uniform(size=(100, 3)), np.ones(100), 9.0)
    one, other = (predict_latency(now, regressor) for regressor in REGRESSORS)
    assert np.abs(one - other).mean() < 0.1


def test_propensity_orders_by_likeness() -> None:
    z = propensity(np.array([[0.0], [0.5], [1.0]]), np.array([[0.5], [2.0], [1e6]]))
    assert (np.diff(z) < 0.0).all()
    assert ((z >= 0.0) & (z <= 1.0)).all()


def test_an_unknown_regressor_has_advice() -> None:
    with pytest.raises(UnknownName, match='did you mean "histogram"'):
        make_agent("nurd", regressor="histograms")
