"""Tuning of NURD's alpha on jobs of the train split.

    python -m sysgym.agents.stragglers.tuning google-2011 alibaba-2018 --jobs 20

Regression, propensity and the ratio of centroids do not depend on alpha, and flags do not affect a job, so
each job is played once and all alphas are evaluated together.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np

from sysgym.agents.stragglers.base import BoolArray, FloatArray
from sysgym.agents.stragglers.learner import checkpoint_of, one_thread
from sysgym.agents.stragglers.nurd import (
    calibration,
    centroid_ratio,
    predict_latency,
    propensity,
    rescaled,
    weights,
)
from sysgym.agents.stragglers.training import TrainingJob, training_jobs
from sysgym.scenarios import StragglerScenario

ALPHAS = (-1.0, -0.75, -0.5, -0.4, -0.3, -0.25, -0.2, -0.1, 0.0, 0.1, 0.25, 0.5)


@dataclass(frozen=True)
class Score:
    """Scores of an alpha, as means over jobs.

    Attributes:
        alpha: The value.
        f1: F1 of flags raised before the task reached the threshold.
        tpr: Share of stragglers flagged in time.
        fpr: Share of other tasks flagged.
    """

    alpha: float
    f1: float
    tpr: float
    fpr: float


def tune_alpha(
    scenario: str | PathLike[str] | StragglerScenario,
    alphas: Sequence[float] = ALPHAS,
    n_jobs: int = 20,
    *,
    scale_latency: bool = True,
    regressor: str = "histogram",
    features: str = "mean",
) -> list[Score]:
    """Return the mean scores of every alpha on the first jobs of the train split, best first.

    Args:
        scenario: Name, path, or a scenario.
        alphas: Values to try.
        n_jobs: Number of jobs.
        scale_latency: See :class:`~sysgym.agents.stragglers.nurd.NurdAgent`.
        regressor: See :class:`~sysgym.agents.stragglers.nurd.NurdAgent`.
        features: See :class:`~sysgym.agents.stragglers.nurd.NurdAgent`.
    """
    scores = np.array(
        [
            _score_job(job, alphas, scale_latency, regressor, features)
            for job in training_jobs(scenario, n_jobs)
        ]
    ).mean(axis=0)
    table = [Score(float(alpha), *map(float, score)) for alpha, score in zip(alphas, scores, strict=True)]
    return sorted(table, key=lambda score: -score.f1)


def _score_job(
    job: TrainingJob, alphas: Sequence[float], scale_latency: bool, regressor: str, features: str
) -> FloatArray:
    """Return F1, TPR and FPR of every alpha on one job, shape (n_alphas, 3)."""
    flagged = np.zeros((len(alphas), len(job.stragglers)), dtype=np.bool_)
    late = np.zeros_like(flagged)
    rho: float | None = None
    for view in job.views:
        now, running = checkpoint_of(view, features)
        if len(running) == 0 or len(now.latency) < 2 or now.x_finished.shape[1] == 0:
            continue
        now = rescaled(now) if scale_latency else now
        with one_thread():
            predicted = predict_latency(now, regressor)
            z = propensity(now.x_finished, now.x_running)
        rho = centroid_ratio(now.x_finished, now.x_running) if rho is None else rho
        for row, alpha in enumerate(alphas):
            flags = predicted / weights(z, calibration(rho, alpha)) >= now.threshold
            raised = running[flags & ~flagged[row, running]]
            flagged[row, raised] = True
            late[row, raised] = view.elapsed[raised] >= job.threshold
    return np.array([_score(job.stragglers, *rows) for rows in zip(flagged, late, strict=True)])


def _score(stragglers: BoolArray, flagged: BoolArray, late: BoolArray) -> tuple[float, float, float]:
    """Return F1, TPR and FPR as in the environment's metrics."""
    true, false = int((stragglers & flagged & ~late).sum()), int((flagged & ~stragglers).sum())
    n_stragglers, n_others = int(stragglers.sum()), int((~stragglers).sum())
    f1 = 2.0 * true / max(true + false + n_stragglers, 1)
    return f1, true / max(n_stragglers, 1), false / max(n_others, 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of scores for each scenario."""
    parser = argparse.ArgumentParser(description="tune NURD's alpha on jobs of the train split")
    parser.add_argument("scenarios", nargs="+")
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--raw-latency", action="store_true", help="do not scale latencies")
    parser.add_argument("--regressor", default="histogram", choices=("histogram", "exact"))
    parser.add_argument("--features", default="mean", choices=("mean", "mean+last"))
    chosen = parser.parse_args(arguments)
    for scenario in chosen.scenarios:
        print(f"{scenario}, {chosen.jobs} jobs")
        print(" alpha     F1    TPR    FPR")
        for score in tune_alpha(
            scenario,
            n_jobs=chosen.jobs,
            scale_latency=not chosen.raw_latency,
            regressor=chosen.regressor,
            features=chosen.features,
        ):
            print(f"{score.alpha:6.2f} {score.f1:6.3f} {score.tpr:6.3f} {score.fpr:6.3f}")


if __name__ == "__main__":
    main()
