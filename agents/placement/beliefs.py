"""Beliefs about candidates from measurements: independent Gaussians, or one joint Gaussian.

Costs are natural logs throughout, smaller is better. A candidate's time is a sum of times spent on the links
of levels, in collectives; where a level or a collective is slower than nominal, so are all candidates that
spend time there: one measurement speaks of the others.
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
"""A standard normal on a grid: the trapezoidal rule, exact to rounding for smooth integrands."""

_LINEARISATIONS = 4
"""Rounds of Gauss-Newton; the shares change little after the third."""

_FURTHEST = 4.0
"""Prior standard deviations from the prior mean between which the model is linearised."""

_LEAST_SHARE = 1e-300

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
    """Return the belief in which unknown factors, common to all candidates, make parts of their time longer.

    Time is divided in more than one way, such as by levels and by collectives, and a factor ``exp(x_f)``
    belongs to each part f of each division. Of how two divisions overlap nothing is known, so they count as
    independent: the log cost of candidate i is ``nominal[i] + log(rest_i + b_i prod_d sum_f p_idf exp(x_f)) +
    r_i``, where ``p_idf`` are the parts as shares of ``b_i``, ``rest_i = 1 - b_i`` is what of the nominal
    time no factor moves, and ``r_i`` is what all this does not explain. It is linearised where the posterior
    mean of x lies, so that everything is Gaussian; the expectation of the log is taken to second order.

    Args:
        nominal: Log costs by the nominal bandwidths, [K].
        shares: Of each division, the share of the nominal time in each part, [K, F_d]; rows add up to b.
        prior_mean: Of x, all divisions one after the other, [sum of F_d].
        prior_sd: Its standard deviation.
        residual_sd: Standard deviation of r.
        count: Measurements so far, [K].
        mean: Their mean log cost where there are any, [K].
        noise_variance: Of one measurement, [K].
    """
    model = _FactorModel(nominal, shares)
    prior = np.diag(prior_sd**2)
    seen = np.flatnonzero(count > 0)
    noise = noise_variance[seen] / np.maximum(count[seen], 1)
    x, posterior = prior_mean, prior
    value, slopes = model.log_time(x)
    for _ in range(_LINEARISATIONS if len(seen) else 0):
        # Kalman's form, because factors are few and noise may be none.
        near = slopes[seen]
        innovation = near @ prior @ near.T + np.diag(np.maximum(noise + residual_sd**2, _LEAST_VARIANCE))
        gain = np.linalg.solve(innovation, near @ prior).T
        step = gain @ (mean[seen] - value[seen] - near @ (prior_mean - x))
        # x is only where to linearise: it need not go further than the prior thinks possible.
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
    """Log times as a function of the factors' logs."""

    def __init__(self, nominal: FloatArray, shares: Sequence[FloatArray]) -> None:
        self._nominal, self._shares = nominal, shares
        self._bulk = np.clip(np.mean([division.sum(axis=1) for division in shares], axis=0), 0.0, 1.0)
        ends = np.cumsum([division.shape[1] for division in shares])
        self._parts = [
            slice(end - division.shape[1], end) for end, division in zip(ends, shares, strict=True)
        ]

    def log_time(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log times [K] and their derivatives by x [K, F]."""
        bulk, slopes = self._bulk.copy(), np.zeros((len(self._nominal), len(x)))
        for part, division in zip(self._parts, self._shares, strict=True):
            longer = division * np.exp(x[part])
            total = longer.sum(axis=1)
            slopes[:, part] = longer / np.maximum(total, _LEAST_SHARE)[:, None]
            # A candidate all of whose time is latency has no parts.
            bulk *= np.where(total > 0.0, total / np.maximum(division.sum(axis=1), _LEAST_SHARE), 1.0)
        time = np.maximum(bulk + 1.0 - self._bulk, _LEAST_SHARE)
        return self._nominal + np.log(time), slopes * (bulk / time)[:, None]

    def bend(self, slopes: FloatArray, covariance: FloatArray) -> FloatArray:
        """Return half the curvature times the covariance, [K]: what uncertainty adds to the expectation.

        A division's log of a sum of exponentials has the curvature diag(s) - s s'; what latencies add to it
        is left out, but for one division, where it is exact.
        """
        bend = 0.5 * (slopes @ np.diag(covariance))
        for part in self._parts:
            own = slopes[:, part]
            bend -= 0.5 * np.einsum("kl,lm,km->k", own, covariance[part, part], own)
        return np.asarray(bend)
