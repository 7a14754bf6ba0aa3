"""Wrangler: a linear classifier of counters, trained on other jobs, with a confidence limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.stragglers.base import BoolArray, FloatArray
from sysgym.agents.stragglers.learner import FIRST_WINDOW, Learner, load, one_thread
from sysgym.agents.stragglers.training import TrainingJob, training_jobs
from sysgym.envs.stragglers.view import JobView

LARGEST = 5.0
"""Bound of features in standard deviations, so that one outlier among counters does not dominate."""


@dataclass(frozen=True)
class ConfidentClassifier:
    """Linear support vector machine with Platt's probability.

    Attributes:
        coefficients: Coefficients, shape (n_features,).
        intercept: Intercept; the margin is ``x coefficients + intercept``.
        slope: The probability of a straggler is ``1 / (1 + exp(-(slope * margin + offset)))``.
        offset: See ``slope``.
    """

    coefficients: FloatArray
    intercept: float
    slope: float
    offset: float

    def confidence(self, x: FloatArray) -> FloatArray:
        """Return the probability that tasks are stragglers, shape (n,)."""
        margin = x @ self.coefficients + self.intercept
        return np.asarray(1.0 / (1.0 + np.exp(-(self.slope * margin + self.offset))), dtype=np.float64)


_FITTED: dict[tuple[str, int, str], ConfidentClassifier] = {}
"""Classifiers by scenario, number of jobs and features, shared by all episodes of a process."""


class WranglerAgent(Learner):
    """Linear support vector machine on counters, which flags only above a confidence limit.

    Yadwadkar, Ananthanarayanan, Katz, Wrangler: Predictable and Faster Jobs using Fewer Stragglers, SoCC
    2014. The original classifies nodes before placing tasks on them; here running tasks are classified by
    their counters. The classifier learns from other jobs: it is fitted to jobs of the scenario's train split
    at the beginning of the first episode and does not change afterwards. Jobs differ in scale, so counters
    are centred and scaled by the finished tasks of their own job.

    Stragglers and other tasks have equal total weight in fitting, as after resampling.

    The training jobs are those of the environment's scenario with its overrides, and never those of an
    environment's own ``source``. In ``sysgym study stress`` a disturbance of the jobs is therefore part of
    the training, whereas agents with a checkpoint stay as they were trained.

    Args:
        confidence: Lowest probability for a flag.
        n_jobs: Number of training jobs.
        features: See :class:`~sysgym.agents.stragglers.learner.Learner`.
        action: See :class:`~sysgym.agents.stragglers.base.Predictor`.

    Raises:
        SysgymError: If a value is out of range.
    """

    name = "wrangler"

    def __init__(
        self, confidence: float = 0.7, n_jobs: int = 24, features: str = "mean", action: str = "relaunch"
    ) -> None:
        """Set the constants; the class documentation describes them."""
        super().__init__(features, action)
        self.least_confidence = in_range(self.name, "confidence", confidence, least=0.0, most=1.0)
        self.n_jobs = in_range(self.name, "n_jobs", n_jobs, least=2)

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Fit the classifier, once for each scenario."""
        super().begin(env)
        scenario = env.unwrapped.scenario  # type: ignore[attr-defined]
        key = (repr(scenario.resolved()), self.n_jobs, self.features)
        if key not in _FITTED:
            with one_thread():
                _FITTED[key] = fit_classifier(list(training_jobs(scenario, self.n_jobs)), self.features)
        self.classifier = _FITTED[key]

    def predict(self, view: JobView) -> BoolArray:
        """Flag tasks above the confidence limit."""
        chosen = np.zeros_like(view.running)
        running = np.flatnonzero(view.running & (view.elapsed >= FIRST_WINDOW))
        if len(running) and view.finished.sum() >= self.least_finished:
            x = standardised(view, self.features)[running]
            chosen[running] = self.classifier.confidence(x) >= self.least_confidence
        return chosen


def standardised(view: JobView, features: str) -> FloatArray:
    """Return counters standardised by the finished tasks, shape (n_tasks, C).

    Args:
        view: Observable state at a checkpoint, with at least two finished tasks.
        features: One of :data:`sysgym.agents.stragglers.learner.FEATURES`.
    """
    x = np.asarray(view.x if features == "mean" else np.hstack([view.x, view.last]), dtype=np.float64)
    finished = x[view.finished]
    mean, deviation = finished.mean(axis=0), finished.std(axis=0)
    varies = deviation > 1e-6 * np.abs(mean)
    scaled = np.where(varies, (x - mean) / np.where(varies, deviation, 1.0), 0.0)
    return np.clip(scaled, -LARGEST, LARGEST)


def fit_classifier(jobs: list[TrainingJob], features: str) -> ConfidentClassifier:
    """Fit the classifier to three quarters of the jobs and its confidence to the rest.

    Args:
        jobs: At least two jobs.
        features: One of :data:`sysgym.agents.stragglers.learner.FEATURES`.
    """
    n_fitted = max(1, 3 * len(jobs) // 4)
    x, straggler = _examples(jobs[:n_fitted], features)
    machine = load("sklearn.svm", "LinearSVC", "wrangler")(
        class_weight="balanced", C=0.01, dual=False, max_iter=10_000
    ).fit(x, straggler)
    held_x, held_straggler = _examples(jobs[n_fitted:], features)
    platt = load("sklearn.linear_model", "LogisticRegression", "wrangler")(class_weight="balanced").fit(
        machine.decision_function(held_x)[:, None], held_straggler
    )
    return ConfidentClassifier(
        machine.coef_[0].astype(np.float64),
        float(machine.intercept_[0]),
        float(platt.coef_[0, 0]),
        float(platt.intercept_[0]),
    )


def _examples(jobs: list[TrainingJob], features: str) -> tuple[FloatArray, BoolArray]:
    """Return the running tasks before the threshold of all decisions, and which became stragglers."""
    xs, stragglers = [], []
    for job in jobs:
        for view in job.views:
            running = np.flatnonzero(
                view.running & (view.elapsed >= FIRST_WINDOW) & (view.elapsed < job.threshold)
            )
            if len(running) and view.finished.sum() >= 2:
                xs.append(standardised(view, features)[running])
                stragglers.append(job.stragglers[running])
    return np.vstack(xs), np.concatenate(stragglers)
