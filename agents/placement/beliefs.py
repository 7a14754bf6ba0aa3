"""Beliefs about candidates from measurements: independent Gaussians, or one joint Gaussian.

Costs are natural logarithms; smaller is better. The time of a candidate is a sum of times on the links of
levels and in collectives. If a level or collective is slower than nominal, so are all candidates that use it,
so a measurement of one candidate is informative about others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_POINTS = np.linspace(-5.0, 5.0, 81)
_DENSITY = np.exp(-0.5 * _POINTS**2)
_WEIGHTS = _DENSITY / _DENSITY.sum()
"""Grid of a standard normal for the trapezoidal rule, exact to rounding for smooth integrands."""

_LINEARISATIONS = 4
"""Rounds of Gauss-Newton; the shares change little after the third."""

_FURTHEST = 4.0
"""Largest distance of the point of linearisation from the prior mean, in prior standard deviations."""

_LEAST_SHARE = 1e-300

_LEAST_VARIANCE = 1e-12
"""Lower bound of the noise, so that equations can be solved without noise."""


@dataclass(frozen=True)
class Belief:
    """Gaussian belief about the log costs of K candidates.

    Attributes:
        mean: Expected log costs, [K].
        covariance: Covariance of the log costs, [K, K].
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
        """Return the expected decrease of the least expected log cost by each measurement, [K].

        The knowledge gradient of Frazier, Powell and Dayanik, INFORMS Journal on Computing 21(4), 2009, for
        correlated beliefs: a measurement of i moves all means along ``covariance[:, i]``, and afterwards the
        best candidate is chosen.

        Args:
            noise_variance: Variance of one measurement of each candidate, [K].
            repeats: Number of measurements of the same candidate.
        """
        variance = np.diag(self.covariance) + noise_variance / repeats
        slope = self.covariance / np.sqrt(np.maximum(variance, 1e-300))  # [:, i]: effect of measuring i
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
    """Return the belief with independent candidates.

    Args:
        prior_mean: Log costs at nominal bandwidths, [K].
        prior_sd: Standard deviation of the true log costs around these, [K].
        count: Number of measurements so far, [K].
        mean: Mean log cost of the measurements, where there are any, [K].
        noise_variance: Variance of one measurement, [K].
    """
    prior = 1.0 / np.maximum(prior_sd, 1e-9) ** 2
    data = count / np.maximum(noise_variance, 1e-18)
    known = np.where(count > 0, mean, 0.0)
    posterior = (prior * prior_mean + data * known) / (prior + data)
    return Belief(np.asarray(posterior), np.diag(1.0 / (prior + data)))


def factor_belief(
    nominal: FloatArray,
    shares: Sequence[FloatArray],
    prior_mean: FloatArray,
    prior_sd: FloatArray,
    residual_sd: float,
    count: IntArray,
    mean: FloatArray,
    noise_variance: FloatArray,
) -> Belief:
    """Return the belief with unknown factors, common to all candidates, that scale parts of their time.

    Time is divided in more than one way, such as by levels and by collectives, and each part f of each
    division has a factor ``exp(x_f)``. The overlap of two divisions is unknown, so they are treated as
    independent: the log cost of candidate i is ``nominal[i] + log(rest_i + b_i prod_d sum_f p_idf exp(x_f)) +
    r_i``, where ``p_idf`` are the parts as shares of ``b_i``, ``rest_i = 1 - b_i`` is the share of the
    nominal time without a factor, and ``r_i`` is the residual. The model is linearised at the posterior mean
    of x, so everything is Gaussian; the expectation of the logarithm is taken to second order.

    Args:
        nominal: Log costs at nominal bandwidths, [K].
        shares: For each division, the share of the nominal time in each part, [K, F_d]; rows add up to b.
        prior_mean: Prior mean of x, all divisions concatenated, [sum of F_d].
        prior_sd: Prior standard deviation of x.
        residual_sd: Standard deviation of r.
        count: Number of measurements so far, [K].
        mean: Mean log cost of the measurements, where there are any, [K].
        noise_variance: Variance of one measurement, [K].
    """
    model = _FactorModel(nominal, shares)
    prior = np.diag(prior_sd**2)
    seen = np.flatnonzero(count > 0)
    noise = noise_variance[seen] / np.maximum(count[seen], 1)
    x, posterior = prior_mean, prior
    value, slopes = model.log_time(x)
    for _ in range(_LINEARISATIONS if len(seen) else 0):
        # Kalman's form, because there are few factors and the noise may be 0.
        near = slopes[seen]
        innovation = near @ prior @ near.T + np.diag(np.maximum(noise + residual_sd**2, _LEAST_VARIANCE))
        gain = np.linalg.solve(innovation, near @ prior).T
        step = gain @ (mean[seen] - value[seen] - near @ (prior_mean - x))
        # x is only the point of linearisation, so it is limited to the range plausible under the prior.
        x = prior_mean + np.clip(step, -_FURTHEST * prior_sd, _FURTHEST * prior_sd)
        posterior = prior - gain @ near @ prior
        value, slopes = model.log_time(x)
    start = value + slopes @ (prior_mean - x) + model.bend(slopes, posterior)
    joint = slopes @ prior @ slopes.T + residual_sd**2 * np.eye(len(nominal))
    innovation = joint[np.ix_(seen, seen)] + np.diag(np.maximum(noise, _LEAST_VARIANCE))
    weights = np.linalg.solve(innovation, joint[seen]).T
    expected = start + weights @ (mean[seen] - start[seen])
    covariance = joint - weights @ joint[seen]
    return Belief(np.asarray(expected), np.asarray(0.5 * (covariance + covariance.T)))


class _FactorModel:
    """Model of log times as a function of the logarithms of the factors."""

    def __init__(self, nominal: FloatArray, shares: Sequence[FloatArray]) -> None:
        self._nominal, self._shares = nominal, shares
        self._bulk = np.clip(np.mean([division.sum(axis=1) for division in shares], axis=0), 0.0, 1.0)
        ends = np.cumsum([division.shape[1] for division in shares])
        self._parts = [
            slice(end - division.shape[1], end) for end, division in zip(ends, shares, strict=True)
        ]

    def log_time(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log times [K] and their derivatives with respect to x [K, F]."""
        bulk, slopes = self._bulk.copy(), np.zeros((len(self._nominal), len(x)))
        for part, division in zip(self._parts, self._shares, strict=True):
            longer = division * np.exp(x[part])
            total = longer.sum(axis=1)
            slopes[:, part] = longer / np.maximum(total, _LEAST_SHARE)[:, None]
            # If all time of a candidate is latency, it has no parts.
            bulk *= np.where(total > 0.0, total / np.maximum(division.sum(axis=1), _LEAST_SHARE), 1.0)
        time = np.maximum(bulk + 1.0 - self._bulk, _LEAST_SHARE)
        return self._nominal + np.log(time), slopes * (bulk / time)[:, None]

    def bend(self, slopes: FloatArray, covariance: FloatArray) -> FloatArray:
        """Return half the curvature times the covariance, [K]: the correction of the expectation.

        The log of a sum of exponentials of a division has the curvature diag(s) - s s'. The contribution of
        latencies is neglected, except with a single division, where the result is exact.
        """
        bend = 0.5 * (slopes @ np.diag(covariance))
        for part in self._parts:
            own = slopes[:, part]
            bend -= 0.5 * np.einsum("kl,lm,km->k", own, covariance[part, part], own)
        return np.asarray(bend)
