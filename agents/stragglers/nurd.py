"""NURD, and its underlying regression: Ding et al., MLSys 2022, arXiv 2203.08339.

All tasks that have finished before the straggler threshold are non-stragglers, so a regression fitted to them
rarely predicts a straggler. NURD divides its prediction by the propensity to finish, which is the similarity
of a task to finished ones and corrects for learning from finished tasks only. The propensity is shifted by a
calibration that is fixed at the first checkpoint of a job.

This implementation differs from the published evaluation in order to use no information from the future:
features are means over a task's execution so far, not sums weighted by its final latency; features and
latencies are scaled by finished tasks, not by all; and no task is excluded from the score.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.stragglers.base import BoolArray, FloatArray
from sysgym.agents.stragglers.learner import Checkpoint, Learner, load
from sysgym.scenarios.errors import UnknownName

REGRESSORS = ("histogram", "exact")

MAX_BINS = 64
"""Number of bins of the histogram regressor: enough for a few hundred tasks."""

EPSILON = 0.05
"""Least weight, so that no prediction grows more than twentyfold."""

DEFAULT_ALPHA = 0.0
"""Alpha of NURD, chosen by the mean F1 over the first 30 jobs of each train split, as printed by
``python -m sysgym.agents.stragglers.tuning google-2011 alibaba-2018 --jobs 30``.

| alpha | -0.75 | -0.5 | -0.4 | -0.25 | -0.1 | 0 | 0.1 | 0.25 | 0.5 |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| google-2011 | .040 | .114 | .195 | .286 | .332 | .333 | .324 | .283 | .242 |
| alibaba-2018 | .062 | .181 | .194 | .190 | .228 | .256 | .257 | .266 | .257 |

With ``--raw-latency`` the best values are .285 and .251, both at -0.4. Flagging every task scores about .19.
"""


@dataclass(frozen=True)
class Judgement:
    """Intermediate results of NURD for running tasks; all arrays have shape (n_running,).

    Attributes:
        predicted: Latency by the regression on finished tasks, in the units of ``threshold``.
        propensity: Probability that a task looks like a finished one.
        weight: Divisor of the prediction.
        adjusted: ``predicted / weight``.
        flags: Whether the adjusted latency reaches the threshold.
    """

    predicted: FloatArray
    propensity: FloatArray
    weight: FloatArray
    adjusted: FloatArray
    flags: BoolArray


def predict_latency(now: Checkpoint, regressor: str, n_trees: int = 100) -> FloatArray:
    """Fit gradient-boosted regression trees to finished tasks and predict running ones, shape (n_running,).

    Args:
        now: The checkpoint.
        regressor: ``"exact"``: scikit-learn's GradientBoostingRegressor, which the authors used;
            ``"histogram"``: the same trees grown on binned features by HistGradientBoostingRegressor, several
            times faster from a hundred tasks on.
        n_trees: Number of trees, each of depth 3.
    """
    model: Any
    if regressor == "exact":
        model = load("sklearn.ensemble", "GradientBoostingRegressor", "gbtr")(
            n_estimators=n_trees, random_state=42
        )
    else:
        model = load("sklearn.ensemble", "HistGradientBoostingRegressor", "gbtr")(
            max_iter=n_trees,
            max_depth=3,
            max_bins=MAX_BINS,
            min_samples_leaf=1,
            early_stopping=False,
            random_state=42,
        )
    return np.asarray(model.fit(now.x_finished, now.latency).predict(now.x_running), dtype=np.float64)


def propensity(x_finished: FloatArray, x_running: FloatArray) -> FloatArray:
    """Return the probability that running tasks look like finished ones, shape (n_running,).

    Logistic regression of finished against running, with scikit-learn's default penalty.

    Args:
        x_finished: Scaled features, shape (n_finished, n_features).
        x_running: Scaled features, shape (n_running, n_features).
    """
    model = load("sklearn.linear_model", "LogisticRegression", "nurd")(max_iter=1000)
    unconverged = load("sklearn.exceptions", "ConvergenceWarning", "nurd")
    running = np.repeat([0, 1], [len(x_finished), len(x_running)])
    with warnings.catch_warnings():
        # With running tasks far outside the range of finished ones, the last iterate separates them anyway.
        warnings.simplefilter("ignore", unconverged)
        model.fit(np.vstack([x_finished, x_running]), running)
    return np.asarray(model.predict_proba(x_running)[:, 0], dtype=np.float64)


def centroid_ratio(x_finished: FloatArray, x_running: FloatArray) -> float:
    """Return rho: the squared centroid of finished tasks over its squared distance to that of running tasks.

    Args:
        x_finished: Scaled features, shape (n_finished, n_features).
        x_running: Scaled features, shape (n_running, n_features).
    """
    finished, running = x_finished.mean(axis=0), x_running.mean(axis=0)
    distance = float(((finished - running) ** 2).sum())
    return float((finished**2).sum()) / distance if distance > 0.0 else np.inf


def calibration(rho: float, alpha: float) -> float:
    """Return delta, the calibration added to every propensity: ``1 / (1 + rho) - alpha``.

    Args:
        rho: Result of :func:`centroid_ratio` at the job's first checkpoint.
        alpha: Offset; smaller values give fewer flags.
    """
    return 1.0 / (1.0 + rho) - alpha


def weights(propensities: FloatArray, delta: float) -> FloatArray:
    """Return ``max(epsilon, min(z + delta, 1))``.

    Args:
        propensities: z, shape (n_running,).
        delta: Result of :func:`calibration`.
    """
    return np.maximum(EPSILON, np.minimum(propensities + delta, 1.0))


def rescaled(now: Checkpoint) -> Checkpoint:
    """Return the checkpoint with latencies and threshold scaled to [0, 1] by finished tasks.

    Division by a weight depends on the scale. Early in a job the range of finished latencies is small
    compared with the threshold, and only tasks with a small weight are flagged.

    Args:
        now: The checkpoint, in windows.
    """
    low = float(now.latency.min())
    span = max(float(now.latency.max()) - low, 1e-9)
    return Checkpoint(
        now.x_finished, (now.latency - low) / span, now.x_running, now.elapsed, (now.threshold - low) / span
    )


class GbtrAgent(Learner):
    """Gradient-boosted regression of latency on finished tasks; flags predictions above the threshold.

    It is the regression that NURD corrects. Before any task has reached the threshold, no leaf contains such
    a latency; only the sum of several causes that have not been observed together can exceed it.

    Args:
        regressor: ``"histogram"`` or ``"exact"``, see :func:`predict_latency`.
        features: See :class:`Learner`.
        action: See :class:`Learner`.
        share: Share of the threshold from which a prediction is flagged; 1 in the published evaluation.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "gbtr"

    def __init__(
        self,
        regressor: str = "histogram",
        features: str = "mean",
        action: str = "relaunch",
        share: float = 1.0,
    ) -> None:
        """Set the constants; the class documentation describes them."""
        super().__init__(features, action)
        if regressor not in REGRESSORS:
            raise UnknownName("regressor", regressor, REGRESSORS)
        self.regressor = regressor
        self.share = in_range(self.name, "share", share, least=0.0)

    def flags(self, now: Checkpoint) -> BoolArray:
        """Compare the regression with the threshold."""
        return np.asarray(predict_latency(now, self.regressor) >= self.share * now.threshold)


class NurdAgent(GbtrAgent):
    """NURD: regression on finished tasks, divided by the calibrated propensity to finish.

    Args:
        alpha: Offset subtracted from the calibration; a larger one flags more tasks. The default,
            :data:`DEFAULT_ALPHA`, was tuned on training jobs.
        scale_latency: Whether latencies are scaled by finished tasks before the division.
        regressor: ``"histogram"`` or ``"exact"``, see :func:`predict_latency`.
        features: See :class:`Learner`.
        action: See :class:`Learner`.
        share: Share of the threshold from which an adjusted latency is flagged.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "nurd"

    def __init__(
        self,
        alpha: float = DEFAULT_ALPHA,
        scale_latency: bool = True,
        regressor: str = "histogram",
        features: str = "mean",
        action: str = "relaunch",
        share: float = 1.0,
    ) -> None:
        """Set the constants; the class documentation describes them."""
        super().__init__(regressor, features, action, share)
        self.alpha, self.scale_latency = in_range(self.name, "alpha", alpha), scale_latency

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Forget the previous job and its calibration."""
        super().begin(env)
        self.delta: float | None = None

    def flags(self, now: Checkpoint) -> BoolArray:
        """Compare the adjusted latency with the threshold."""
        return self.judge(now).flags

    def judge(self, now: Checkpoint) -> Judgement:
        """Return the intermediate results for running tasks.

        Args:
            now: The checkpoint; the first of a job also sets the calibration.
        """
        if self.scale_latency:
            now = rescaled(now)
        predicted = predict_latency(now, self.regressor)
        z = propensity(now.x_finished, now.x_running)
        if self.delta is None:
            self.delta = calibration(centroid_ratio(now.x_finished, now.x_running), self.alpha)
        weight = self.weigh(z, self.delta)
        adjusted = predicted / weight
        return Judgement(predicted, z, weight, adjusted, adjusted >= self.share * now.threshold)

    def weigh(self, z: FloatArray, delta: float) -> FloatArray:
        """Return the divisors of predictions.

        Args:
            z: Propensities, shape (n_running,).
            delta: The job's calibration.
        """
        return weights(z, delta)


class NurdNcAgent(NurdAgent):
    """NURD without calibration: the prediction is divided by the propensity itself.

    Args:
        scale_latency: See :class:`NurdAgent`.
        regressor: See :class:`NurdAgent`.
        features: See :class:`Learner`.
        action: See :class:`Learner`.
        share: See :class:`NurdAgent`.
    """

    name = "nurd_nc"

    def __init__(
        self,
        scale_latency: bool = True,
        regressor: str = "histogram",
        features: str = "mean",
        action: str = "relaunch",
        share: float = 1.0,
    ) -> None:
        """Set the constants; the class documentation describes them."""
        super().__init__(0.0, scale_latency, regressor, features, action, share)

    def weigh(self, z: FloatArray, delta: float) -> FloatArray:
        """Return the propensities, which may round to 0."""
        return np.maximum(z, np.finfo(np.float64).eps)
