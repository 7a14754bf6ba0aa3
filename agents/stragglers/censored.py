"""Regression where running tasks are known to last longer than they have run: Tobit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sysgym.agents.stragglers.learner import Checkpoint, Learner
from sysgym.agents.stragglers.predictor import BoolArray, FloatArray


@dataclass(frozen=True)
class CensoredNormal:
    """A fitted linear model ``y = intercept + x coefficients + sd * noise``.

    Attributes:
        intercept: Where all features are 0.
        coefficients: Shape (n_features,).
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
    """Fit by maximum likelihood, some values known exactly and of others only that they are larger.

    Tobin, Estimation of Relationships for Limited Dependent Variables, Econometrica 1958, censored from
    above; in the parameters of Olsen, Note on the Uniqueness of the Maximum Likelihood Estimator for the
    Tobit Model, Econometrica 1978: the inverse standard deviation, and coefficients times it, make it
    concave.

    Args:
        x: Features of values that are known, shape (n, n_features).
        y: The values, shape (n,).
        x_censored: Features of the others, shape (m, n_features).
        bound: What each of the others exceeds, shape (m,).
        ridge: Penalty on half the squared coefficients in units of the noise; keeps a solution finite where
            there are fewer values than features.
    """
    from scipy.optimize import minimize
    from scipy.special import log_ndtr

    # Values in units of their spread, around their mean: one start and one tolerance serve all jobs.
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
    # Values that are all but the same would have no spread at all: 1000 spreads to a unit are enough.
    bounds = [(None, None)] * design.shape[1] + [(1e-3, 1e3)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}).x
    gamma, theta = found[:-1], found[-1]
    beta = gamma / theta * scale
    return CensoredNormal(
        float(beta[0] + shift), np.asarray(beta[1:], dtype=np.float64), scale / float(theta)
    )


class TobitAgent(Learner):
    """Linear regression of latency, with running tasks as right-censored at the time they have run.

    The line is not bounded by the longest latency seen, as trees are, and running tasks pull it up.

    Args:
        ridge: Penalty on the squared coefficients in units of the noise.
        features: As of every learner.
        action: As of every straggler agent.
    """

    name = "tobit"
    extra = None

    def __init__(self, ridge: float = 0.1, features: str = "mean", action: str = "relaunch") -> None:
        """Set the penalty."""
        super().__init__(features, action)
        self.ridge = ridge

    def flags(self, now: Checkpoint) -> BoolArray:
        """Flag running tasks whose expected latency reaches the threshold."""
        fit = fit_censored_normal(now.x_finished, now.latency, now.x_running, now.elapsed, ridge=self.ridge)
        return np.asarray(fit.predict(now.x_running) >= now.threshold)
