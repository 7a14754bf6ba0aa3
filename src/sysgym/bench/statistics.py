"""Statistics for few, expensive runs: interquartile means with bootstrap intervals, paired comparisons.

The methods follow Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice,
NeurIPS 2021. A sample is an array of shape (n_runs, n_seeds). Runs are trainings (one run for agents that are
not learned), and seeds are the episodes of each run. The bootstrap resamples runs and seeds, each with
replacement, so that the interval covers both sources of variation. Each scenario is a stratum and is
resampled separately. Intervals are percentile intervals. The bootstrap is seeded, so that the same rows give
the same report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Statistic = Callable[[FloatArray], FloatArray]
"""Map from values of shape (n_resamples, n) to statistics of shape (n_resamples,)."""

RESAMPLES = 2000
CONFIDENCE = 0.95
SEED = 0


class Interval(NamedTuple):
    """Estimate with its confidence interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside the interval, so that the difference is significant."""
        return self.low > 0.0 or self.high < 0.0


def iqm(values: FloatArray) -> FloatArray:
    """Return the interquartile mean along the last axis: the mean without the lowest and the highest quarter.

    With fewer than four values, no value is left out.

    Args:
        values: Shape (..., n).
    """
    n = values.shape[-1]
    n_left_out = n // 4
    # SciPy's trim_mean gives the same numbers, and takes four times as long for samples of this size.
    parted = np.partition(values, (n_left_out, n - n_left_out - 1), axis=-1)
    average = mean(parted[..., n_left_out : n - n_left_out])
    return np.where(np.isnan(values).any(axis=-1), np.nan, average)


def mean(values: FloatArray) -> FloatArray:
    """Return the mean along the last axis."""
    average: FloatArray = np.asarray(np.mean(values, axis=-1))
    return average


AVERAGES: dict[str, Statistic] = {"iqm": iqm, "mean": mean}
"""Statistics that can summarise many episodes, by name."""

AVERAGE_WORDS = {"iqm": "interquartile mean", "mean": "mean"}
"""Names of these statistics in the texts of a report."""


def estimate(sample: FloatArray, *, statistic: Statistic = iqm, seed: int = SEED) -> Interval:
    """Return a statistic of one sample with its bootstrap interval.

    Args:
        sample: Shape (n_runs, n_seeds).
        statistic: Statistic to estimate.
        seed: Seed of the bootstrap.
    """
    return stratified_estimate([sample], statistic=statistic, seed=seed)


def stratified_estimate(
    strata: Sequence[FloatArray], *, statistic: Statistic = iqm, seed: int = SEED
) -> Interval:
    """Return a statistic of the pooled values of several samples, with its bootstrap interval.

    Each stratum is resampled separately, at its own size.

    Args:
        strata: Samples of shape (n_runs, n_seeds), one for each scenario, comparable with each other.
        statistic: Statistic of the pooled values.
        seed: Seed of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    pooled = np.concatenate([np.ravel(sample) for sample in strata])
    drawn = [_resampled(sample, *_draw(rng, sample.shape)) for sample in strata]
    return percentile_interval(statistic(pooled[None])[0], statistic(np.concatenate(drawn, axis=1)))


def mean_of_means(strata: Sequence[FloatArray], *, common_runs: bool = False, seed: int = SEED) -> Interval:
    """Return the mean of the means of strata, with equal weights for strata of different sizes.

    Args:
        strata: Samples of shape (n_runs, n_seeds), comparable with each other.
        common_runs: Whether a run is the same training in all strata; the runs are then resampled together.
        seed: Seed of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    indices = [_draw(rng, sample.shape) for sample in strata]
    drawn = [
        _resampled(sample, indices[0][0] if common_runs else runs, seeds).mean(axis=1)
        for sample, (runs, seeds) in zip(strata, indices, strict=True)
    ]
    return percentile_interval(np.mean([sample.mean() for sample in strata]), np.mean(drawn, axis=0))


def rank_ranges(intervals: Sequence[Interval], *, higher_is_better: bool) -> list[tuple[int, int]]:
    """Return the best and the worst possible rank of each interval.

    One interval ranks before another only if the two do not overlap.
    """
    ranges = []
    for one in intervals:
        above = sum(other.low > one.high for other in intervals)
        below = sum(other.high < one.low for other in intervals)
        better, worse = (above, below) if higher_is_better else (below, above)
        ranges.append((1 + better, len(intervals) - worse))
    return ranges


def paired_difference(
    ours: FloatArray, theirs: FloatArray, *, statistic: Statistic = iqm, seed: int = SEED
) -> Interval:
    """Return the difference of a statistic, ours minus theirs, on common seeds.

    Both samples are resampled with the same seeds, so that common effects, such as those of hard episodes,
    cancel.

    Args:
        ours: Shape (n_runs, n_seeds).
        theirs: Shape (n_other_runs, n_seeds), with the same seeds in the same order.
        statistic: Statistic to compare.
        seed: Seed of the bootstrap.

    Raises:
        ValueError: If the numbers of seeds differ.
    """
    if ours.shape[1] != theirs.shape[1]:
        raise ValueError(
            f"got {ours.shape[1]} and {theirs.shape[1]} seeds; a paired comparison needs common seeds"
        )
    rng = np.random.default_rng(seed)
    runs, seeds = _draw(rng, ours.shape)
    other_runs, _ = _draw(rng, theirs.shape)
    resamples = statistic(_resampled(ours, runs, seeds)) - statistic(_resampled(theirs, other_runs, seeds))
    return percentile_interval(
        statistic(ours.reshape(1, -1))[0] - statistic(theirs.reshape(1, -1))[0], resamples
    )


def probability_of_improvement(
    pairs: Sequence[tuple[FloatArray, FloatArray]], *, higher_is_better: bool = True, seed: int = SEED
) -> Interval:
    """Return the probability that ours is better than theirs on a random scenario and seed; ties count half.

    Args:
        pairs: (ours, theirs) for each scenario, shapes as in :func:`paired_difference`; scenarios have equal
            weights.
        higher_is_better: Direction of the metric.
        seed: Seed of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    values, resamples = [], []
    for ours, theirs in pairs:
        sign = np.sign(ours[:, None, :] - theirs[None, :, :]) * (1.0 if higher_is_better else -1.0)
        wins = 0.5 + 0.5 * sign.mean(axis=1)
        values.append(wins.mean())
        resamples.append(_resampled(wins, *_draw(rng, wins.shape)).mean(axis=1))
    return percentile_interval(np.mean(values), np.mean(resamples, axis=0))


def optimality_gap(strata: Sequence[FloatArray], target: float = 1.0, *, seed: int = SEED) -> Interval:
    """Return the mean shortfall of scores below a target; scores above the target count as reaching it.

    Args:
        strata: Scores, higher is better, of shape (n_runs, n_seeds), one for each scenario.
        target: Score to reach.
        seed: Seed of the bootstrap.
    """
    gaps = [np.maximum(target - sample, 0.0) for sample in strata]
    return stratified_estimate(gaps, statistic=mean, seed=seed)


def normalised(
    ours: FloatArray, floor: FloatArray, bound: FloatArray, *, seed: int = SEED
) -> Interval | None:
    """Return the mean of a sample on the scale from the floor's mean (0) to the bound's mean (1).

    The three samples are resampled with the same seeds, each with its own runs. Resamples in which the bound
    equals the floor have no position and are left out. They are fewer than one in forty; otherwise, the
    scale is undefined.

    Args:
        ours: Shape (n_runs, n_seeds).
        floor: Sample that defines 0, with the same seeds.
        bound: Sample that defines 1, with the same seeds.
        seed: Seed of the bootstrap.

    Returns:
        The position with its interval; None if the bound does not differ significantly from the floor, so
        that the scale is undefined.
    """
    rng = np.random.default_rng(seed)
    seeds = _draw(rng, ours.shape)[1]
    means, drawn = [], []
    for sample in (ours, floor, bound):
        means.append(float(sample.mean()))
        drawn.append(_resampled(sample, _draw(rng, sample.shape)[0], seeds).mean(axis=1))
    span, spans = means[2] - means[1], drawn[2] - drawn[1]
    low, high = np.percentile(spans, [50.0 * (1.0 - CONFIDENCE), 50.0 * (1.0 + CONFIDENCE)])
    if span == 0.0 or low <= 0.0 <= high:
        return None
    scaled = spans != 0.0
    positions = (drawn[0] - drawn[1])[scaled] / spans[scaled]
    return percentile_interval((means[0] - means[1]) / span, positions)


class Profile(NamedTuple):
    """Share of episodes above each threshold, with a confidence band; all arrays have the same shape."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


def performance_profile(strata: Sequence[FloatArray], thresholds: FloatArray, *, seed: int = SEED) -> Profile:
    """Return the share of episodes whose score is above each threshold, with equal weights of scenarios.

    The band is pointwise, from a bootstrap that resamples runs and seeds within each scenario.

    Args:
        strata: Scores, higher is better, of shape (n_runs, n_seeds), one for each scenario.
        thresholds: Scores in ascending order, shape (n,).
        seed: Seed of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    values, resamples = [], []
    for sample in strata:
        above = (sample[..., None] > thresholds).astype(np.float64)
        values.append(above.mean(axis=(0, 1)))
        runs, seeds = _draw(rng, sample.shape)
        # Counting how often each episode was drawn avoids a loop over the thresholds.
        drawn = np.zeros((RESAMPLES, *sample.shape))
        np.add.at(drawn, (np.arange(RESAMPLES)[:, None, None], runs[:, :, None], seeds[:, None, :]), 1.0)
        resamples.append(np.tensordot(drawn, above, axes=2) / sample.size)
    value = np.mean(values, axis=0)
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(np.mean(resamples, axis=0), [tail, 100.0 - tail], axis=0)
    return Profile(value, np.minimum(low, value), np.maximum(high, value))


def _draw(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of runs, (RESAMPLES, n_runs), and of seeds, (RESAMPLES, n_seeds), for resampling."""
    n_runs, n_seeds = shape
    return (
        rng.integers(n_runs, size=(RESAMPLES, n_runs)),
        rng.integers(n_seeds, size=(RESAMPLES, n_seeds)),
    )


def _resampled(sample: FloatArray, runs: NDArray[np.int64], seeds: NDArray[np.int64]) -> FloatArray:
    """Return the values of every resample, shape (RESAMPLES, n_runs * n_seeds)."""
    drawn: FloatArray = sample[runs[:, :, None], seeds[:, None, :]]
    return drawn.reshape(RESAMPLES, -1)


def percentile_interval(value: float | np.floating, resamples: FloatArray) -> Interval:
    """Return an estimate with its percentile interval.

    Args:
        value: The estimate.
        resamples: Estimates of the resamples, shape (n_resamples,).
    """
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(resamples, [tail, 100.0 - tail])
    # With few skewed values, the percentile interval can exclude the estimate by a rounding error.
    return Interval(float(value), min(float(low), float(value)), max(float(high), float(value)))
