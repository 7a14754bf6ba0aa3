"""Ablation of the agent ``transfer``: features, model and number of training jobs, as a Markdown table.

python scripts/straggler_ablation.py google-2011

Reports F1 over time of permanent flags, on jobs of the test split, as in docs/stragglers.md. Predictions do
not affect a job, so one run of each job scores all agents.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sysgym.agents.learned.stragglers import boosting, transfer
from sysgym.agents.learned.stragglers.examples import Examples, collect
from sysgym.agents.learned.stragglers.features import COUNTER_FEATURES, JOB_FEATURES, task_features
from sysgym.bench.statistics import estimate
from sysgym.envs.stragglers.view import JobView
from sysgym.scenarios import StragglerScenario, load_scenario

Array = NDArray[np.float64]
Scores = Callable[[Examples, Examples], Array]
"""From training and other examples to a number for each of the others; higher is more of a straggler."""

TRAIN_STEPS = 3000
TEST_STEPS = 2000
SEEDS = (1, 2, 3)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario")
    scenario = load_scenario(parser.parse_args().scenario, expect=StragglerScenario)
    n_counters = collect(scenario, 1, 0).features.shape[1] - len(JOB_FEATURES)
    n_counters //= len(COUNTER_FEATURES)
    clock = list(range(len(JOB_FEATURES)))
    ranks = [*clock, *range(len(clock), len(clock) + n_counters)]
    ratios = [*clock, *range(len(ranks), len(clock) + len(COUNTER_FEATURES) * n_counters)]
    print("| | training jobs | F1 over time |\n| --- | ---: | ---: |")
    test = collect(scenario, TEST_STEPS, 0, split="test")
    raw = collect(scenario, TEST_STEPS, 0, split="test", features=raw_features)
    for label, steps, scores, others in (
        ("transfer: boosted trees, all features", TRAIN_STEPS, trees(), test),
        ("... without the counters", TRAIN_STEPS, trees(clock), test),
        ("... counters as ranks only", TRAIN_STEPS, trees(ranks), test),
        ("... counters as ratios only", TRAIN_STEPS, trees(ratios), test),
        ("... raw counters instead", TRAIN_STEPS, trees(), raw),
        ("... logistic regression instead of trees", TRAIN_STEPS, logistic, test),
        ("... survival: latency over threshold, regressed", TRAIN_STEPS, accelerated_failure_time, test),
        ("... fewer jobs", TRAIN_STEPS // 10, trees(), test),
        ("... fewer jobs", TRAIN_STEPS // 3, trees(), test),
        ("... more jobs", TRAIN_STEPS * 3, trees(), test),
    ):
        features = raw_features if others is raw else task_features
        found, jobs = [], 0
        for seed in SEEDS:
            seen = collect(scenario, steps, seed, features=features)
            jobs = len(np.unique(seen.group))
            found.append(f1_over_time(seen, others, scores))
        value, low, high = estimate(np.array(found))
        print(f"| {label} | {jobs} | {value:.3f} [{low:.3f}, {high:.3f}] |", flush=True)


def f1_over_time(seen: Examples, test: Examples, scores: Scores) -> Array:
    """Return it for every test job; a quarter of the training jobs choose the limit, as transfer does."""
    jobs = np.unique(seen.group)
    held_out = np.isin(seen.group, jobs[: max(1, round(transfer.SHARE_HELD_OUT * len(jobs)))])
    fitted_on, chosen_on = seen.where(~held_out), seen.where(held_out)
    # Limits are probabilities; any other score is put on that scale by its rank among the held-out rows.
    held_out_scores = scores(fitted_on, chosen_on)
    limit = transfer._best_f1_limit(chosen_on, _shares(held_out_scores, held_out_scores))
    acted = _shares(held_out_scores, scores(fitted_on, test)) >= limit
    return np.array(
        [_f1_of_job(test.where(test.job == job), acted[test.job == job]) for job in np.unique(test.job)]
    )


def _shares(known: Array, values: Array) -> Array:
    # Stragglers are few: all limits of interest lie among the highest scores.
    above = 1.0 - np.searchsorted(np.sort(known), values) / len(known)
    return np.asarray(1.0 - above / 0.5)


def _f1_of_job(examples: Examples, acted: NDArray[np.bool_]) -> float:
    straggles = len(np.unique(examples.task[examples.straggler]))
    found = []
    for moment in transfer.MOMENTS:
        counts = acted & (examples.elapsed_share <= moment) & (examples.in_time | ~examples.straggler)
        true = len(np.unique(examples.task[counts & examples.straggler]))
        false = len(np.unique(examples.task[counts & ~examples.straggler]))
        found.append(2 * true / max(true + false + straggles, 1))
    return float(np.mean(found))


def trees(columns: list[int] | None = None) -> Scores:
    """Boosted trees on some columns of the features; None: all."""

    def scores(seen: Examples, others: Examples) -> Array:
        chosen = slice(None) if columns is None else columns
        model = boosting.fit(seen.features[:, chosen], seen.straggler, "binary", 0, "transfer")
        return boosting.predict(model, others.features[:, chosen])

    return scores


def logistic(seen: Examples, others: Examples) -> Array:
    """Logistic regression."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(
        seen.features, seen.straggler
    )
    return np.asarray(model.decision_function(others.features))


def accelerated_failure_time(seen: Examples, others: Examples) -> Array:
    """The log of a task's latency over the threshold, by boosted trees: an accelerated failure time.

    Nothing is censored, because training jobs are over.
    """
    _, place = np.unique(seen.task_key, return_inverse=True)
    last = np.zeros(place.max() + 1)
    np.maximum.at(last, place, seen.elapsed_share)
    model = boosting.fit(seen.features, np.log(last[place]), "regression", 0, "transfer")
    return boosting.predict(model, others.features)


def raw_features(view: JobView) -> NDArray[np.float32]:
    """Return the features with the counters as they were measured instead of compared with siblings."""
    relative = task_features(view)[:, : len(JOB_FEATURES)]
    return np.hstack([relative, view.x[view.running], view.last[view.running]]).astype(np.float32)


if __name__ == "__main__":
    main()
