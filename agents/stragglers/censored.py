"""Tobit: regression of latency with running tasks as right-censored observations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.stragglers.base import BoolArray, FloatArray
from sysgym.agents.stragglers.learner import Checkpoint, Learner


@dataclass(frozen=True)
class CensoredNormal:
    """Fitted linear model ``y = intercept + x coefficients + sd * noise``.

    Attributes:
        intercept: Value at which all features are 0.
        coefficients: Coefficients, shape (n_features,).
        sd: Standard deviation of the noise, positive.
    """

    intercept: float
    coefficients: FloatArray
    sd: float

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the expected value without censoring, shape (n,)."""
        return np.asarray(self.intercept + x @ self.coefficients, dtype=np.float64)


def fit_censored_normal(
    x: FloatArray, y: FloatArray, x_censored: FloatArray, bound: FloatArray, *, ridge: float
) -> CensoredNormal:
    """Return the maximum likelihood fit to exact values and to values with a known lower bound.

    Tobin, Estimation of Relationships for Limited Dependent Variables, Econometrica 1958, censored from
    above. The parameters are those of Olsen, Note on the Uniqueness of the Maximum Likelihood Estimator for
    the Tobit Model, Econometrica 1978: with the inverse standard deviation, and coefficients multiplied by
    it, the log-likelihood is concave.

    Args:
        x: Features of exact values, shape (n, n_features).
        y: Exact values, shape (n,).
        x_censored: Features of censored values, shape (m, n_features).
        bound: Lower bounds of the censored values, shape (m,).
        ridge: Penalty on half the squared coefficients in units of the noise; it keeps the solution finite
            with fewer values than features.
    """
    from scipy.optimize import minimize
    from scipy.special import log_ndtr

    # Values are standardised, so one initial point and one tolerance suit all jobs.
    shift, scale = float(y.mean()), float(y.std())
    scale = scale if scale > 1e-9 * max(1.0, abs(shift)) else max(1.0, abs(shift)) * 1e-3
    known, lower = (y - shift) / scale, (bound - shift) / scale
    design = np.column_stack([np.ones(len(x)), x])
    design_censored = np.column_stack([np.ones(len(x_censored)), x_censored])
    penalty = np.full(design.shape[1], ridge)
    penalty[0] = 0.0

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        gamma, theta = parameters[:-1], parameters[-1]
        residual = theta * known - design @ gamma
        margin = design_censored @ gamma - theta * lower
        log_beyond = log_ndtr(margin)
        hazard = np.exp(-0.5 * margin**2 - 0.5 * np.log(2.0 * np.pi) - log_beyond)
        value = (
            -len(known) * np.log(theta)
            + 0.5 * residual @ residual
            - log_beyond.sum()
            + 0.5 * penalty @ gamma**2
        )
        by_gamma = -design.T @ residual - design_censored.T @ hazard + penalty * gamma
        by_theta = -len(known) / theta + residual @ known + hazard @ lower
        return float(value), np.append(by_gamma, by_theta)

    start = np.zeros(design.shape[1] + 1)
    start[-1] = 1.0
    # Nearly constant values would make the inverse deviation infinite, so it is bounded.
    bounds = [(None, None)] * design.shape[1] + [(1e-3, 1e3)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}).x
    gamma, theta = found[:-1], found[-1]
    beta = gamma / theta * scale
    return CensoredNormal(
        float(beta[0] + shift), np.asarray(beta[1:], dtype=np.float64), scale / float(theta)
    )


class TobitAgent(Learner):
    """Linear regression of latency, with running tasks right-censored at their running time.

    Unlike trees, the prediction is not bounded by the longest observed latency, and running tasks increase
    it.

    Args:
        ridge: Penalty on the squared coefficients in units of the noise.
        features: See :class:`Learner`.
        action: See :class:`Predictor`.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "tobit"
    extra = None

    def __init__(self, ridge: float = 0.1, features: str = "mean", action: str = "relaunch") -> None:
        """Set the penalty."""
        super().__init__(features, action)
        self.ridge = in_range(self.name, "ridge", ridge, least=0.0)

    def flags(self, now: Checkpoint) -> BoolArray:
        """Flag running tasks whose expected latency reaches the threshold."""
        fit = fit_censored_normal(now.x_finished, now.latency, now.x_running, now.elapsed, ridge=self.ridge)
        return np.asarray(fit.predict(now.x_running) >= now.threshold)
