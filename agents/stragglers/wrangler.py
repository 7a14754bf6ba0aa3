"""Wrangler: a linear classifier of counters, learned from other jobs, that speaks up only when it is sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from sysgym.agents.stragglers.learner import FIRST_WINDOW, Learner, load, one_thread
from sysgym.agents.stragglers.predictor import BoolArray, FloatArray
from sysgym.agents.stragglers.training import TrainingJob, training_jobs
from sysgym.envs.stragglers.view import JobView

LARGEST = 5.0
"""Features are clipped to this many standard deviations, so that one wild counter does not decide."""


@dataclass(frozen=True)
class ConfidentClassifier:
    """A linear support vector machine with Platt's probability.

    Attributes:
        coefficients: Shape (n_features,).
        intercept: Its margin is ``x coefficients + intercept``.
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
"""By scenario, number of jobs and features: all episodes of a process share it."""


class WranglerAgent(Learner):
    """A linear support vector machine on counters, with a confidence below which it keeps silent.

    Yadwadkar, Ananthanarayanan, Katz, Wrangler: Predictable and Faster Jobs using Fewer Stragglers, SoCC
    2014. Wrangler judges nodes before it places tasks on them; here it judges running tasks by the counters
    they show. It is the one predictor that learns from other jobs: when its first episode begins it watches
    jobs of the scenario's train split, and it stays as it is from then on. Jobs differ in scale, so counters
    are centred and scaled by the finished tasks of their own job.

    Stragglers and others weigh the same in fitting, as after resampling.

    Args:
        confidence: Least probability for a flag.
        n_jobs: Jobs of the train split that it learns from.
        features: As of every learner.
        action: As of every straggler agent.
    """

    name = "wrangler"

    def __init__(
        self, confidence: float = 0.7, n_jobs: int = 24, features: str = "mean", action: str = "relaunch"
    ) -> None:
        """Set the constants; the class documentation describes them."""
        super().__init__(features, action)
        self.least_confidence, self.n_jobs = confidence, n_jobs

    def begin(self, env: gym.Env[Any, Any]) -> None:
        """Learn, once for each scenario."""
        super().begin(env)
        scenario = env.unwrapped.scenario  # type: ignore[attr-defined]
        key = (repr(scenario.resolved()), self.n_jobs, self.features)
        if key not in _FITTED:
            with one_thread():
                _FITTED[key] = fit_classifier(list(training_jobs(scenario, self.n_jobs)), self.features)
        self.classifier = _FITTED[key]

    def predict(self, view: JobView) -> BoolArray:
        """Flag what it is sure of."""
        chosen = np.zeros_like(view.running)
        running = np.flatnonzero(view.running & (view.elapsed >= FIRST_WINDOW))
        if len(running) and view.finished.sum() >= self.least_finished:
            x = standardised(view, self.features)[running]
            chosen[running] = self.classifier.confidence(x) >= self.least_confidence
        return chosen


def standardised(view: JobView, features: str) -> FloatArray:
    """Return counters less their mean among finished tasks, over their deviation there, shape (n_tasks, C).

    Args:
        view: What is known at a checkpoint, with at least two finished tasks.
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
    """Return running tasks of all decisions before the threshold, and which became stragglers."""
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
