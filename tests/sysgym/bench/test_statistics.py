"""Statistics, compared with closed forms, and coverage of intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sysgym.bench.statistics import (
    FloatArray,
    Interval,
    Statistic,
    estimate,
    iqm,
    mean,
    optimality_gap,
    paired_difference,
    probability_of_improvement,
    stratified_estimate,
)

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


def _normal(seed: int, *shape: int) -> FloatArray:
    return np.random.default_rng(seed).normal(size=shape)


@given(values)
def test_the_interquartile_mean_is_the_mean_without_the_outer_quarters(numbers: list[float]) -> None:
    cut = len(numbers) // 4
    inner = sorted(numbers)[cut : len(numbers) - cut]
    np.testing.assert_allclose(iqm(np.array(numbers)), np.mean(inner), rtol=1e-12, atol=1e-6)
    assert iqm(np.array(numbers)) == stats.trim_mean(numbers, 0.25)


def test_the_interquartile_mean_goes_along_the_last_axis_and_ignores_outliers() -> None:
    table = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 1e9, 7.0, -1e9], [9.0, 9.0, 9.0, 9.0]])
    np.testing.assert_array_equal(iqm(table), [2.5, 6.0, 9.0])
    np.testing.assert_array_equal(mean(table[:1]), [2.5])
    # What is not a number is no outlier.
    np.testing.assert_array_equal(
        iqm(np.array([[1.0, 2.0, 3.0, np.nan], [1.0, 2.0, 2.0, 3.0]])), [np.nan, 2.0]
    )


def test_the_estimate_is_of_the_sample_and_lies_in_its_interval() -> None:
    sample = _normal(0, 3, 17)
    interval = estimate(sample)
    assert interval.value == stats.trim_mean(sample.ravel(), 0.25)
    assert interval.low < interval.value < interval.high


def test_the_interval_is_the_same_each_time_and_the_bootstrap_is_seeded() -> None:
    sample = _normal(1, 1, 12)
    assert estimate(sample) == estimate(sample.copy())
    assert estimate(sample, seed=1)[1:] != estimate(sample, seed=2)[1:]
    assert estimate(sample, seed=1).value == estimate(sample, seed=2).value


@pytest.mark.parametrize(("statistic", "n_seeds"), [(iqm, 30), (mean, 30), (mean, 100)])
def test_intervals_cover_the_truth_about_as_often_as_they_say(statistic: Statistic, n_seeds: int) -> None:
    # 95 % of 300 with a standard error of 1.3 %; percentile intervals of 30 values are a little short.
    trials = 300
    samples = _normal(2, trials, 1, n_seeds)
    intervals = [estimate(sample, statistic=statistic) for sample in samples]
    covered = sum(interval.low <= 0.0 <= interval.high for interval in intervals) / trials
    assert 0.90 <= covered <= 0.98


def test_the_interval_of_a_mean_is_as_wide_as_the_normal_theory_says() -> None:
    sample = _normal(3, 1, 200)
    interval = estimate(sample, statistic=mean)
    half_width = 1.96 * sample.std() / np.sqrt(200.0)
    np.testing.assert_allclose(
        [interval.high - interval.value, interval.value - interval.low], half_width, rtol=0.1
    )


def test_the_interval_covers_what_trainings_differ_by() -> None:
    runs = np.array([[0.0], [1.0], [2.0], [3.0]])
    noise = 0.01 * _normal(4, 4, 25)
    between = estimate(runs + noise, statistic=mean)
    assert between.high - between.low > 1.0, "seeds agree, runs do not"
    as_one = estimate((runs + noise).reshape(1, -1), statistic=mean)
    assert as_one.high - as_one.low < 0.6


def test_a_stratum_is_drawn_by_itself() -> None:
    flat = [np.full((1, 10), 1.0), np.full((1, 5), 100.0)]
    assert stratified_estimate(flat, statistic=mean) == Interval(34.0, 34.0, 34.0)
    pooled = estimate(np.concatenate(flat, axis=1), statistic=mean)
    assert pooled.high - pooled.low > 10.0, "drawn together, the shares of the strata vary"
    alone = _normal(5, 1, 8)
    assert stratified_estimate([alone]) == estimate(alone)


@pytest.mark.parametrize("sample", [np.array([[4.0]]), np.full((1, 9), 4.0), np.full((3, 2), 4.0)])
def test_without_spread_the_interval_is_a_point(sample: FloatArray) -> None:
    assert estimate(sample) == Interval(4.0, 4.0, 4.0)
    assert paired_difference(sample, sample) == Interval(0.0, 0.0, 0.0)
    assert not paired_difference(sample, sample).excludes_zero
    assert paired_difference(sample, sample - 1.0).excludes_zero


def test_two_seeds_give_an_interval_between_them() -> None:
    assert estimate(np.array([[1.0, 3.0]])) == Interval(2.0, 1.0, 3.0)


def test_a_clear_difference_excludes_zero_and_none_does_not() -> None:
    ours = _normal(6, 1, 40)
    theirs = ours[:, ::-1]  # the same values in other episodes
    assert not paired_difference(ours, theirs).excludes_zero
    up, down = paired_difference(ours + 3.0, theirs), paired_difference(ours - 3.0, theirs)
    assert up.excludes_zero
    assert down.excludes_zero
    assert up.low > 0.0 > down.high


def test_a_difference_of_nothing_is_called_one_in_about_one_of_twenty() -> None:
    trials = 300
    ours, theirs = _normal(8, trials, 1, 30), _normal(9, trials, 1, 30)
    found = sum(
        paired_difference(a, b, statistic=mean).excludes_zero for a, b in zip(ours, theirs, strict=True)
    )
    assert 0.01 <= found / trials <= 0.10


def test_pairs_cancel_what_a_hard_episode_does_to_both() -> None:
    episodes = 100.0 * _normal(10, 1, 12)
    ours, theirs = episodes + 1.0 + 0.1 * _normal(11, 1, 12), episodes
    difference = paired_difference(ours, theirs, statistic=mean)
    assert difference.excludes_zero
    assert difference.value == pytest.approx(1.0, abs=0.1)
    own = estimate(ours, statistic=mean)
    assert own.low < estimate(theirs, statistic=mean).high, "though the intervals themselves overlap"
    shuffled = np.random.default_rng(0).permutation(theirs, axis=1)
    assert not paired_difference(ours, shuffled, statistic=mean).excludes_zero


def test_many_runs_are_compared_with_one() -> None:
    theirs = _normal(12, 1, 10)
    ours = np.concatenate([theirs + 1.0, theirs + 2.0, theirs + 3.0])
    difference = paired_difference(ours, theirs, statistic=mean)
    assert difference.value == pytest.approx(2.0)
    assert 1.0 <= difference.low < 1.5
    assert 2.5 < difference.high <= 3.0


def test_pairs_need_common_seeds() -> None:
    with pytest.raises(ValueError, match="3 and 4 seeds"):
        paired_difference(np.zeros((1, 3)), np.zeros((1, 4)))


def test_the_chance_to_win_counts_pairs_and_halves_ties() -> None:
    theirs = np.array([[1.0, 1.0, 1.0, 1.0]])
    ours = np.array([[2.0, 2.0, 1.0, 0.0]])
    assert probability_of_improvement([(ours, theirs)]).value == 0.625
    assert probability_of_improvement([(ours, theirs)], higher_is_better=False).value == 0.375
    assert probability_of_improvement([(theirs, theirs)]) == Interval(0.5, 0.5, 0.5)
    assert probability_of_improvement([(ours + 9.0, theirs)]) == Interval(1.0, 1.0, 1.0)
    # Scenarios weigh the same, however many episodes they have.
    often = (np.zeros((1, 100)), np.ones((1, 100)))
    assert probability_of_improvement([(ours, theirs), often]).value == 0.3125


def test_the_optimality_gap_does_not_set_surplus_against_lack() -> None:
    assert optimality_gap([np.array([[0.5, 1.5]])]).value == 0.25
    assert optimality_gap([np.array([[2.0, 1.0]])]) == Interval(0.0, 0.0, 0.0)
    assert optimality_gap([np.array([[0.5]]), np.array([[0.7]])], target=0.9).value == pytest.approx(0.3)
