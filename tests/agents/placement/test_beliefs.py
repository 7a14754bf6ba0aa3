"""Beliefs against conjugate formulas by hand, against the exact posterior on a grid, and against draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sysgym.agents.placement.beliefs import Belief, factor_belief, independent_belief


def test_an_independent_belief_is_the_conjugate_one() -> None:
    # Precisions 4 and 3 * 25: (4 * 0 + 75 * 0.79) / 79 = 0.75, and nothing is learned about the other.
    belief = independent_belief(
        np.zeros(2), np.full(2, 0.5), np.array([3, 0]), np.array([0.79, np.nan]), np.full(2, 0.04)
    )
    assert belief.mean == pytest.approx([0.75, 0.0])
    assert belief.covariance == pytest.approx(np.diag([1.0 / 79.0, 0.25]))
    assert belief.best == 1


def test_the_gain_of_a_measurement_of_one_of_two_is_the_known_formula() -> None:
    # Costs 0 (known) and 0.1 +- 0.3, noise 0.4: the mean of the second moves by 0.09 / 0.5 = 0.18 per unit.
    belief = Belief(np.array([0.0, 0.1]), np.diag([0.0, 0.09]))
    gain = belief.expected_gain(np.full(2, 0.16))
    t = 0.1 / 0.18
    density, tail = math.exp(-0.5 * t * t) / math.sqrt(2 * math.pi), 0.5 * math.erfc(t / math.sqrt(2))
    assert gain[1] == pytest.approx(0.18 * (density - t * tail), rel=0.01)
    assert gain[0] == 0.0
    # Four measurements of the noise's variance are one of a quarter of it.
    assert belief.expected_gain(np.full(2, 0.16), 4) == pytest.approx(belief.expected_gain(np.full(2, 0.04)))


def test_the_gain_of_what_moves_all_candidates_alike_is_nothing() -> None:
    belief = Belief(np.array([0.0, 0.1]), np.full((2, 2), 0.09))
    assert belief.expected_gain(np.full(2, 0.01)) == pytest.approx([0.0, 0.0], abs=1e-12)


def levels(
    shares: list[list[float]],
    count: list[int],
    mean: list[float],
    *,
    residual: float = 0.0,
    noise: float = 0.01,
) -> Belief:
    k, n = np.shape(shares)
    return factor_belief(
        np.zeros(k), [np.asarray(shares)], np.zeros(n), np.full(n, 0.4), residual,
        np.asarray(count), np.asarray(mean), np.full(k, noise),
    )  # fmt: skip


def test_before_any_measurement_mixed_candidates_cost_more_on_average() -> None:
    belief = levels([[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]], [0, 0, 0], [np.nan] * 3)
    # log of a mean of two log-normals: half of (0.5 * 0.16 + 0.5 * 0.16 - 2 * 0.25 * 0.16) to second order.
    assert belief.mean == pytest.approx([0.0, 0.04, 0.0])
    assert np.diag(belief.covariance) == pytest.approx([0.16, 0.08, 0.0])
    assert belief.covariance[0, 1] == pytest.approx(0.08)


def test_a_measurement_of_a_level_speaks_of_all_that_spend_time_there() -> None:
    belief = levels([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [2, 0, 0], [0.3, np.nan, np.nan], noise=0.02)
    # Of candidates in level 0 alone: 0.16 / (0.16 + 0.02 / 2) of what was measured.
    assert belief.mean == pytest.approx([0.3 * 16 / 17, 0.3 * 16 / 17, 0.0])
    assert np.diag(belief.covariance) == pytest.approx([0.16 / 17, 0.16 / 17, 0.16])


def test_a_residual_is_the_candidates_own() -> None:
    belief = levels([[1.0], [1.0]], [1, 0], [0.4, np.nan], residual=0.3, noise=0.01)
    # Variances 0.16 common, 0.09 own, 0.01 noise.
    assert belief.mean == pytest.approx([0.4 * 0.25 / 0.26, 0.4 * 0.16 / 0.26])


def test_exact_measurements_are_believed() -> None:
    shares = [[0.7, 0.3], [0.2, 0.8]]
    x = np.array([0.5, -0.4])
    truth = np.log(np.asarray(shares) @ np.exp(x))
    belief = levels(shares, [1, 1], truth.tolist(), noise=0.0)
    assert belief.mean == pytest.approx(truth, abs=1e-4)
    assert belief.sd == pytest.approx([0.0, 0.0], abs=1e-4)


def test_the_posterior_is_close_to_the_exact_one_on_a_grid() -> None:
    shares = np.array([[0.9, 0.1], [0.5, 0.4], [0.1, 0.9]])
    rest = 1.0 - shares.sum(axis=1)
    grid = np.linspace(-2.0, 2.0, 401)
    x = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    costs = np.log(np.exp(x) @ shares.T + rest)
    log_weight = -0.5 * (x**2).sum(axis=1) / 0.16 - 0.5 * ((0.35 - costs[:, 0]) / 0.1) ** 2
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    belief = levels(shares.tolist(), [1, 0, 0], [0.35, np.nan, np.nan])
    exact = weight @ costs
    assert belief.mean == pytest.approx(exact, abs=0.02)  # standard deviations are 0.1 to 0.4
    assert np.diag(belief.covariance) == pytest.approx(weight @ (costs - exact) ** 2, rel=0.15)


@given(
    arrays(np.float64, (5, 3), elements=st.floats(0.0, 1.0)),
    arrays(np.int64, 5, elements=st.integers(0, 4)),
    arrays(np.float64, 5, elements=st.floats(-2.0, 2.0)),
    st.sampled_from([0.0, 0.05]),
    st.sampled_from([0.0, 0.01]),
)
def test_beliefs_are_finite_and_their_gains_are_not_negative(
    raw: np.ndarray, count: np.ndarray, mean: np.ndarray, residual: float, noise: float
) -> None:
    shares = raw / max(raw.sum(axis=1).max(), 1.0)
    belief = levels(shares.tolist(), count.tolist(), mean.tolist(), residual=residual, noise=noise)
    assert np.isfinite(belief.mean).all()
    assert np.linalg.eigvalsh(belief.covariance).min() > -1e-6
    gain = belief.expected_gain(np.full(5, noise))
    assert np.isfinite(gain).all()
    assert (gain >= 0.0).all()
    assert gain.max() <= 5 * belief.sd.max() + 1e-9


def test_divisions_count_as_independent() -> None:
    # Two levels and two collectives; the first candidate is in level 0 and collective 0 alone.
    by_level, by_collective = np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    belief = factor_belief(
        np.zeros(2),
        [by_level, by_collective],
        np.zeros(4),
        np.array([0.4, 0.4, 0.3, 0.3]),
        0.0,
        np.array([1, 0]),
        np.array([0.5, np.nan]),
        np.full(2, 0.01),
    )
    # Variances 0.16 and 0.09 explain 0.5 with noise of 0.01; of the level's part half is the other's too.
    level_0 = 0.5 * 0.16 / 0.26
    assert belief.mean[0] == pytest.approx(0.5 * 0.25 / 0.26)
    rest = 0.16 - 0.16**2 / 0.26
    exact = math.log(0.5 * math.exp(level_0 + rest / 2) + 0.5 * math.exp(0.16 / 2)) - 0.5 * (
        0.25 * rest + 0.25 * 0.16
    )
    assert belief.mean[1] == pytest.approx(exact, abs=0.02)
    assert belief.covariance[1, 1] == pytest.approx(0.25 * rest + 0.25 * 0.16 + 0.09, rel=0.2)


def test_all_latency_is_moved_by_nothing() -> None:
    belief = levels([[0.0, 0.0], [1.0, 0.0]], [0, 1], [np.nan, 0.7])
    assert belief.mean[0] == 0.0
    assert belief.covariance[0] == pytest.approx([0.0, 0.0])
