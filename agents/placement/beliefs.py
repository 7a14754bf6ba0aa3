"""What measurements say about candidates: independent Gaussians, or one Gaussian over all of them.

Costs are natural logs throughout, smaller is better. A candidate's time is a sum of times spent at the levels
of the hierarchy, so an error in a level's bandwidth moves all candidates that spend time there: one
measurement speaks of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_POINTS = np.linspace(-5.0, 5.0, 81)
_DENSITY = np.exp(-0.5 * _POINTS**2)
_WEIGHTS = _DENSITY / _DENSITY.sum()
"""A standard normal on a grid: the trapezoidal rule, exact to rounding for smooth integrands."""

_LINEARISATIONS = 4
"""Rounds of Gauss-Newton; the shares change little after the third."""

_FURTHEST = 4.0
"""Prior standard deviations from the prior mean between which the model is linearised."""

_LEAST_VARIANCE = 1e-12
"""Of noise, so that equations can be solved where there is none."""


@dataclass(frozen=True)
class Belief:
    """A Gaussian belief about the log costs of K candidates.

    Attributes:
        mean: Expected log costs, [K].
        covariance: [K, K].
    """

    mean: FloatArray
    covariance: FloatArray

    @property
    def sd(self) -> FloatArray:
        """Standard deviations, [K]."""
        return np.asarray(np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))

    @property
    def best(self) -> int:
        """The candidate with the least expected log cost."""
        return int(np.argmin(self.mean))

    def expected_gain(self, noise_variance: FloatArray, repeats: int = 1) -> FloatArray:
        """Return by how much each measurement lowers the least expected log cost, on average, [K].

        The knowledge gradient of Frazier, Powell and Dayanik, INFORMS Journal on Computing 21(4), 2009, for
        beliefs that are correlated: measuring i moves all means along ``covariance[:, i]``, and afterwards
        one commits to the candidate that then looks best.

        Args:
            noise_variance: Of one measurement of each candidate, [K].
            repeats: Measurements of the same candidate.
        """
        variance = np.diag(self.covariance) + noise_variance / repeats
        slope = self.covariance / np.sqrt(np.maximum(variance, 1e-300))  # [:, i] is what measuring i moves
        means = self.mean[None, :, None] + slope.T[:, :, None] * _POINTS
        gain = self.mean.min() - means.min(axis=1) @ _WEIGHTS
        return np.asarray(np.maximum(gain, 0.0))


def independent_belief(
    prior_mean: FloatArray,
    prior_sd: FloatArray,
    count: IntArray,
    mean: FloatArray,
    noise_variance: FloatArray,
) -> Belief:
    """Return the belief in which a measurement says nothing about other candidates.

    Args:
        prior_mean: Log costs by the nominal bandwidths, [K].
        prior_sd: How far the true ones are from these, [K].
        count: Measurements so far, [K].
        mean: Their mean log cost where there are any, [K].
        noise_variance: Of one measurement, [K].
    """
    prior = 1.0 / np.maximum(prior_sd, 1e-9) ** 2
    data = count / np.maximum(noise_variance, 1e-18)
    known = np.where(count > 0, mean, 0.0)
    posterior = (prior * prior_mean + data * known) / (prior + data)
    return Belief(np.asarray(posterior), np.diag(1.0 / (prior + data)))


def level_belief(
    nominal: FloatArray,
    shares: FloatArray,
    level_mean: FloatArray,
    level_sd: FloatArray,
    residual_sd: float,
    count: IntArray,
    mean: FloatArray,
    noise_variance: FloatArray,
) -> Belief:
    """Return the belief in which levels are slower than nominal by unknown factors, common to all candidates.

    The log cost of candidate i is ``nominal[i] + log(sum_l shares[i, l] exp(x_l) + rest_i) + r_i``: ``x_l``
    is the log of how much longer level l takes, ``rest_i`` is what of the nominal time no bandwidth moves,
    and ``r_i`` is what the shares do not explain. It is linearised where the posterior mean of x lies, so
    that everything is Gaussian; the expectation of the log is taken to second order.

    Args:
        nominal: Log costs by the nominal bandwidths, [K].
        shares: Share of the nominal time that is spent at each level, [K, L], rows adding up to 1 or less.
        level_mean: Prior mean of x, [L].
        level_sd: Its standard deviation, [L].
        residual_sd: Standard deviation of r.
        count: Measurements so far, [K].
        mean: Their mean log cost where there are any, [K].
        noise_variance: Of one measurement, [K].
    """
    rest = np.maximum(1.0 - shares.sum(axis=1), 0.0)
    prior = np.diag(level_sd**2)
    seen = np.flatnonzero(count > 0)
    noise = noise_variance[seen] / np.maximum(count[seen], 1)
    x, posterior = level_mean, prior
    value, slopes = _log_time(nominal, shares, rest, x)
    for _ in range(_LINEARISATIONS if len(seen) else 0):
        # Kalman's form, because levels are few and noise may be none.
        near = slopes[seen]
        innovation = near @ prior @ near.T + np.diag(np.maximum(noise + residual_sd**2, _LEAST_VARIANCE))
        gain = np.linalg.solve(innovation, near @ prior).T
        step = gain @ (mean[seen] - value[seen] - near @ (level_mean - x))
        # x is only where to linearise: it need not go further than the prior thinks possible.
        x = level_mean + np.clip(step, -_FURTHEST * level_sd, _FURTHEST * level_sd)
        posterior = prior - gain @ near @ prior
        value, slopes = _log_time(nominal, shares, rest, x)
    # Second order: the curvature of the log of a sum of exponentials is diag(s) - s s'.
    bend = 0.5 * (slopes @ np.diag(posterior) - np.einsum("kl,lm,km->k", slopes, posterior, slopes))
    start = value + slopes @ (level_mean - x) + bend
    joint = slopes @ prior @ slopes.T + residual_sd**2 * np.eye(len(nominal))
    innovation = joint[np.ix_(seen, seen)] + np.diag(np.maximum(noise, _LEAST_VARIANCE))
    weights = np.linalg.solve(innovation, joint[seen]).T
    expected = start + weights @ (mean[seen] - start[seen])
    covariance = joint - weights @ joint[seen]
    return Belief(np.asarray(expected), np.asarray(0.5 * (covariance + covariance.T)))


def _log_time(
    nominal: FloatArray, shares: FloatArray, rest: FloatArray, x: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return log times [K] and their derivatives by x [K, L]."""
    parts = shares * np.exp(x)
    total = np.maximum(parts.sum(axis=1) + rest, 1e-300)
    return nominal + np.log(total), parts / total[:, None]
