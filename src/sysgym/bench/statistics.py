"""Statistics of few, expensive runs: interquartile means with bootstrap intervals, paired comparisons.

After Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice, NeurIPS 2021. A
sample is an array of shape (n_runs, n_seeds): how often the agent was trained (1 for what is not learned),
and the episodes that each run played. The bootstrap draws runs and seeds anew, each with replacement, so that
the interval covers both; a scenario is a stratum, drawn by itself. Intervals are percentile intervals. They
are seeded: the same rows give the same report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FloatArray = NDArray[np.float64]
Statistic = Callable[[FloatArray], FloatArray]
"""Maps values of shape (n_resamples, n) to numbers of shape (n_resamples,)."""

RESAMPLES = 2000
CONFIDENCE = 0.95
SEED = 0


class Interval(NamedTuple):
    """An estimate and its confidence interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside: a difference that chance alone hardly explains."""
        return self.low > 0.0 or self.high < 0.0


def iqm(values: FloatArray) -> FloatArray:
    """Return the interquartile mean along the last axis: the mean without the lowest and the highest quarter.

    Fewer than four values lose none.

    Args:
        values: Shape (..., n).
    """
    trimmed: FloatArray = np.asarray(stats.trim_mean(values, 0.25, axis=-1))
    return trimmed


def mean(values: FloatArray) -> FloatArray:
    """Return the mean along the last axis."""
    average: FloatArray = np.asarray(np.mean(values, axis=-1))
    return average


AVERAGES: dict[str, Statistic] = {"iqm": iqm, "mean": mean}
"""What may stand for many episodes."""

AVERAGE_WORDS = {"iqm": "interquartile mean", "mean": "mean"}
"""What they are called."""


def estimate(sample: FloatArray, *, statistic: Statistic = iqm, seed: int = SEED) -> Interval:
    """Return a statistic of one sample with its bootstrap interval.

    Args:
        sample: Shape (n_runs, n_seeds).
        statistic: What to estimate.
        seed: Of the bootstrap.
    """
    return stratified_estimate([sample], statistic=statistic, seed=seed)


def stratified_estimate(
    strata: Sequence[FloatArray], *, statistic: Statistic = iqm, seed: int = SEED
) -> Interval:
    """Return a statistic of several samples together; each stratum is drawn by itself and keeps its share.

    Args:
        strata: Samples of shape (n_runs, n_seeds), one for each scenario, comparable with each other.
        statistic: Applied to all values together.
        seed: Of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    pooled = np.concatenate([np.ravel(sample) for sample in strata])
    drawn = [_resampled(sample, *_draw(rng, sample.shape)) for sample in strata]
    return percentile_interval(statistic(pooled[None])[0], statistic(np.concatenate(drawn, axis=1)))


def mean_of_means(strata: Sequence[FloatArray], *, seed: int = SEED) -> Interval:
    """Return the mean of the strata's means, each weighing the same however many values it has.

    Args:
        strata: Samples of shape (n_runs, n_seeds), comparable with each other.
        seed: Of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    drawn = [_resampled(sample, *_draw(rng, sample.shape)).mean(axis=1) for sample in strata]
    return percentile_interval(np.mean([sample.mean() for sample in strata]), np.mean(drawn, axis=0))


def paired_difference(
    ours: FloatArray, theirs: FloatArray, *, statistic: Statistic = iqm, seed: int = SEED
) -> Interval:
    """Return a statistic of ours less that of theirs, on common seeds.

    Both are drawn with the same seeds, so that what a hard episode does to both cancels.

    Args:
        ours: Shape (n_runs, n_seeds).
        theirs: Shape (n_other_runs, n_seeds), the same seeds in the same order.
        statistic: What to compare.
        seed: Of the bootstrap.

    Raises:
        ValueError: If the numbers of seeds differ.
    """
    if ours.shape[1] != theirs.shape[1]:
        raise ValueError(
            f"{ours.shape[1]} and {theirs.shape[1]} seeds: a paired comparison needs common ones"
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
    """Return how likely ours is better than theirs on a scenario and seed taken at random; ties count half.

    Args:
        pairs: (ours, theirs) for each scenario, shapes as in :func:`paired_difference`; scenarios weigh the
            same.
        higher_is_better: Direction of the metric.
        seed: Of the bootstrap.
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
    """Return by how much scores stay below a target on average; surplus does not make up for lack.

    Args:
        strata: Scores, higher is better, of shape (n_runs, n_seeds), one for each scenario.
        target: Score to reach.
        seed: Of the bootstrap.
    """
    gaps = [np.maximum(target - sample, 0.0) for sample in strata]
    return stratified_estimate(gaps, statistic=mean, seed=seed)


def normalised(
    ours: FloatArray, floor: FloatArray, bound: FloatArray, *, seed: int = SEED
) -> Interval | None:
    """Return where a mean lies between two others, 0 at the floor and 1 at the bound, on common seeds.

    All three are drawn with the same seeds, each with its own runs.

    Args:
        ours: Shape (n_runs, n_seeds).
        floor: The same seeds; what counts as 0.
        bound: The same seeds; what counts as 1.
        seed: Of the bootstrap.

    Returns:
        None where the bound cannot be told from the floor: there is nothing to measure with.
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
    return percentile_interval((means[0] - means[1]) / span, (drawn[0] - drawn[1]) / spans)


class Profile(NamedTuple):
    """How often a score is exceeded: values and a band, each of the thresholds' shape."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


def performance_profile(strata: Sequence[FloatArray], thresholds: FloatArray, *, seed: int = SEED) -> Profile:
    """Return the share of episodes whose score is above each threshold, scenarios weighing the same.

    The band is pointwise, from a bootstrap that draws runs and seeds within each scenario.

    Args:
        strata: Scores, higher is better, of shape (n_runs, n_seeds), one for each scenario.
        thresholds: Where to look, rising, shape (n,).
        seed: Of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    values, resamples = [], []
    for sample in strata:
        above = (sample[..., None] > thresholds).astype(np.float64)
        values.append(above.mean(axis=(0, 1)))
        runs, seeds = _draw(rng, sample.shape)
        # How often each episode was drawn stands for the drawn episodes: the thresholds need no loop.
        drawn = np.zeros((RESAMPLES, *sample.shape))
        np.add.at(drawn, (np.arange(RESAMPLES)[:, None, None], runs[:, :, None], seeds[:, None, :]), 1.0)
        resamples.append(np.tensordot(drawn, above, axes=2) / sample.size)
    value = np.mean(values, axis=0)
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(np.mean(resamples, axis=0), [tail, 100.0 - tail], axis=0)
    return Profile(value, np.minimum(low, value), np.maximum(high, value))


def _draw(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of runs and of seeds for every resample."""
    n_runs, n_seeds = shape
    return (
        rng.integers(n_runs, size=(RESAMPLES, n_runs)),
        rng.integers(n_seeds, size=(RESAMPLES, n_seeds)),
    )


def _resampled(sample: FloatArray, runs: NDArray[np.int64], seeds: NDArray[np.int64]) -> FloatArray:
    """Values of every resample, shape (RESAMPLES, n_runs * n_seeds)."""
    drawn: FloatArray = sample[runs[:, :, None], seeds[:, None, :]]
    return drawn.reshape(RESAMPLES, -1)


def percentile_interval(value: float | np.floating, resamples: FloatArray) -> Interval:
    """Return an estimate with the interval that its resamples span.

    Args:
        value: The estimate.
        resamples: The same of samples drawn anew, shape (n_resamples,).
    """
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(resamples, [tail, 100.0 - tail])
    # The percentile interval of a skewed few can miss its own estimate by a rounding error.
    return Interval(float(value), min(float(low), float(value)), max(float(high), float(value)))
