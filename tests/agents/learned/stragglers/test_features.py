"""Features of a task among the job's tasks: bounded, and invariant to order, units and size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sysgym.agents.learned.stragglers.features import (
    COUNTER_FEATURES,
    JOB_FEATURES,
    feature_names,
    task_features,
)
from sysgym.envs.stragglers.view import JobView

MakeView = Callable[..., JobView]

PENDING, RUNNING, FINISHED = range(3)
CHECKPOINT = JOB_FEATURES.index("log checkpoint")
LARGEST = 1e9
"""Of the observation's counters and times."""


def view_of(draw: Any, make: MakeView, *, numbers: Any, least_finished: int = 0) -> JobView:
    """Draw a view of any number of tasks whose counters and times are ``numbers``."""
    n = draw(st.integers(1, 12), label="tasks")
    columns = draw(st.integers(1, 3), label="counters")

    def values(count: int) -> Any:
        return np.array(draw(st.lists(numbers, min_size=count, max_size=count)))

    state = np.array(draw(st.lists(st.integers(PENDING, FINISHED), min_size=n, max_size=n), label="state"))
    state[:least_finished] = FINISHED
    return make(
        running=state == RUNNING,
        finished=state == FINISHED,
        x=values(n * columns),
        last=values(n * columns),
        elapsed=values(n),
        latency=values(n),
        threshold=draw(st.one_of(st.just(float("nan")), st.floats(1e-6, LARGEST)), label="threshold"),
        checkpoint=draw(st.integers(0, 100_000), label="checkpoint"),
    )


ANY = st.one_of(st.just(0.0), st.just(1.0), st.floats(0.0, LARGEST))
ORDINARY = st.one_of(st.just(0.0), st.integers(1, 4).map(float), st.floats(1e-3, 1e3))


@given(st.data())
def test_any_view_has_finite_bounded_features(make_view: MakeView, data: st.DataObject) -> None:
    view = view_of(data.draw, make_view, numbers=ANY)
    features = task_features(view)
    assert features.dtype == np.float32
    assert features.shape == (view.running.sum(), len(JOB_FEATURES) + len(COUNTER_FEATURES) * view.x.shape[1])
    assert np.isfinite(features).all()
    assert np.abs(features).max(initial=0.0) <= 4.0


@given(st.data())
def test_a_reordered_job_has_reordered_features(make_view: MakeView, data: st.DataObject) -> None:
    view = view_of(data.draw, make_view, numbers=ORDINARY)
    order = np.array(data.draw(st.permutations(range(view.n_tasks))))
    arrays = (
        "pending",
        "running",
        "finished",
        "x",
        "last",
        "elapsed",
        "latency",
        "flagged",
        "attempts",
        "can_act",
    )
    moved = replace(view, **{name: getattr(view, name)[order] for name in arrays})
    place = np.cumsum(view.running) - 1
    expected = task_features(view)[place[order[moved.running]]]
    assert np.array_equal(task_features(moved), expected)


# Powers of two, so that no two values round to one.
@given(st.data(), st.integers(-6, 13).map(lambda power: 2.0**power))
def test_units_of_a_counter_do_not_matter(make_view: MakeView, data: st.DataObject, factor: float) -> None:
    view = view_of(data.draw, make_view, numbers=ORDINARY)
    column = data.draw(st.integers(0, view.x.shape[1] - 1))
    factors = np.ones(view.x.shape[1])
    factors[column] = factor
    scaled = replace(view, x=view.x * factors, last=view.last * factors)
    assert task_features(scaled) == pytest.approx(task_features(view), abs=1e-4)


@given(st.data(), st.sampled_from([0.125, 0.5, 2.0, 16.0]))
def test_the_windows_length_does_not_matter(make_view: MakeView, data: st.DataObject, factor: float) -> None:
    """All but the count of checkpoints, once a task has finished: before that a window is the yardstick."""
    view = view_of(data.draw, make_view, numbers=ORDINARY, least_finished=1)
    assume(np.median(view.latency[view.finished]) > 0.0)
    scaled = replace(
        view, elapsed=view.elapsed * factor, latency=view.latency * factor, threshold=view.threshold * factor
    )
    assert task_features(scaled) == pytest.approx(task_features(view), abs=1e-5)
    later = task_features(replace(view, checkpoint=view.checkpoint + 7))
    others = np.arange(later.shape[1]) != CHECKPOINT
    assert np.array_equal(later[:, others], task_features(view)[:, others])


def test_an_example_by_hand(make_view: MakeView) -> None:
    view = make_view(
        running=[0, 0, 0, 1, 1, 0],
        finished=[1, 1, 1, 0, 0, 0],
        # The last task has not started, and counts nowhere.
        x=[2.0, 4.0, 6.0, 4.0, 8.0, 99.0],
        last=[2.0, 4.0, 6.0, 2.0, 8.0, 99.0],
        elapsed=[0, 0, 0, 6.0, 15.0, 0],
        latency=[8.0, 10.0, 20.0, 0, 0, 0],
        threshold=30.0,
        checkpoint=6,
    )
    names = feature_names(["cpu"])
    features = task_features(view)
    assert features.shape == (2, len(names))
    row = [dict(zip(names, map(float, values), strict=True)) for values in features]
    # Log ratios are softened by a thousandth of the base.
    close = 2e-3
    for one, elapsed in zip(row, (6.0, 15.0), strict=True):
        assert one["elapsed / threshold"] == pytest.approx(elapsed / 30.0)
        assert one["elapsed / median latency of finished"] == pytest.approx(elapsed / 10.0)
        assert one["share finished"] == pytest.approx(0.5)
        assert one["log threshold / median latency of finished"] == pytest.approx(np.log(3.0))
        assert one["log p90 / median latency of finished"] == pytest.approx(np.log(1.8))
        assert one["log checkpoint"] == pytest.approx(np.log(7.0) / 2.0)
    # Means 2, 4, 6, 4, 8: below 4 is one and two are equal; below 8 are four and one is equal.
    assert [one["rank of the mean: cpu"] for one in row] == pytest.approx([(1 + 1.0) / 5, (4 + 0.5) / 5])
    assert [one["log mean / median of finished: cpu"] for one in row] == pytest.approx(
        [0.0, np.log(2.0)], abs=close
    )
    now = 5.0  # median of 2 and 8
    assert [one["log last / median of running: cpu"] for one in row] == pytest.approx(
        [np.log(2.0 / now), np.log(8.0 / now)], abs=close
    )
    assert [one["log last / own mean: cpu"] for one in row] == pytest.approx([np.log(0.5), 0.0], abs=close)


def test_an_unknown_threshold_is_half_as_much_again_as_the_median(make_view: MakeView) -> None:
    job = {"running": [0, 1], "finished": [1, 0], "x": [1.0, 1.0], "elapsed": [0, 6.0], "latency": [8.0, 0]}
    assert np.array_equal(task_features(make_view(**job)), task_features(make_view(**job, threshold=12.0)))


def test_before_anyone_finished_siblings_that_run_are_the_yardstick(make_view: MakeView) -> None:
    view = make_view(running=[1, 1, 1], finished=[0, 0, 0], x=[1.0, 2.0, 4.0], elapsed=[2.0, 4.0, 8.0])
    features = task_features(view)
    assert features[:, 1] == pytest.approx([0.25, 0.5, 1.0])
    assert features[:, len(JOB_FEATURES) + 1] == pytest.approx(np.log([0.5, 1.0, 2.0]), abs=2e-3)


def test_columns_are_named_once() -> None:
    names = feature_names(["cpu", "memory"])
    assert len(set(names)) == len(names) == len(JOB_FEATURES) + 2 * len(COUNTER_FEATURES)
    # All counters of a feature stand together, as the columns do.
    assert names[len(JOB_FEATURES) :][:3] == [
        "rank of the mean: cpu",
        "rank of the mean: memory",
        "log mean / median of finished: cpu",
    ]
