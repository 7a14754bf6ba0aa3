"""Features of a task relative to its siblings, comparable between jobs.

Every value compares a running task with the other tasks of its job at the same time (ranks, and ratios to the
median of finished tasks). A policy therefore transfers to jobs of any number of tasks, and features do not
depend on the order of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.stragglers.view import JobView

FloatArray = NDArray[np.float64]

JOB_FEATURES = (
    "elapsed / threshold",
    "elapsed / median latency of finished",
    "share finished",
    "log threshold / median latency of finished",
    "log p90 / median latency of finished",
    "log checkpoint",
)
COUNTER_FEATURES = (
    "rank of the mean",
    "log mean / median of finished",
    "log last / median of running",
    "log last / own mean",
)

LARGEST_LOG = 3.0
LARGEST_RATIO = 4.0


def feature_names(counters: Sequence[str]) -> list[str]:
    """Return the name of every column for the given counters."""
    return [*JOB_FEATURES, *(f"{feature}: {counter}" for feature in COUNTER_FEATURES for counter in counters)]


def task_features(view: JobView) -> NDArray[np.float32]:
    """Return the features of every running task.

    Args:
        view: A job at a checkpoint.

    Returns:
        Shape (n_running, 6 + 4 C), all within [-4, 4].
    """
    running, finished = view.running, view.finished
    n_running = int(running.sum())
    if not n_running:
        return np.empty((0, len(JOB_FEATURES) + len(COUNTER_FEATURES) * view.x.shape[1]), np.float32)
    elapsed = view.elapsed[running]
    # Before any task has finished, the longest elapsed time is used as a typical latency.
    latencies = view.latency[finished] if finished.any() else np.array([max(elapsed.max(), 1.0)])
    median, p90 = np.quantile(latencies, (0.5, 0.9))
    median = max(float(median), 1e-9)
    threshold = view.threshold if np.isfinite(view.threshold) else 1.5 * median
    whole_job = (
        view.share_finished,
        np.clip(np.log(threshold / median), -LARGEST_LOG, LARGEST_LOG),
        np.clip(np.log(max(float(p90), 1e-9) / median), -LARGEST_LOG, LARGEST_LOG),
        min(np.log1p(view.checkpoint) / 2.0, LARGEST_RATIO),
    )
    columns = [
        np.clip(elapsed / threshold, 0.0, LARGEST_RATIO),
        np.clip(elapsed / median, 0.0, LARGEST_RATIO),
        *(np.full(n_running, value) for value in whole_job),
    ]
    return np.column_stack([*columns, *_counters(view)]).astype(np.float32)


def _counters(view: JobView) -> list[FloatArray]:
    running, seen = view.running, view.running | view.finished
    mean, last = view.x[running], view.last[running]
    typical = np.median(view.x[view.finished], axis=0) if view.finished.any() else np.median(mean, axis=0)
    return [
        _ranks(view.x[seen], mean),
        _log_ratio(mean, typical),
        _log_ratio(last, np.median(last, axis=0)),
        _log_ratio(last, mean),
    ]


def _ranks(everyone: FloatArray, some: FloatArray) -> FloatArray:
    """Return the share of ``everyone`` below each of ``some``, by column; ties count half."""
    found = np.empty_like(some)
    for column in range(some.shape[1]):
        order = np.sort(everyone[:, column])
        below = np.searchsorted(order, some[:, column], "left")
        not_above = np.searchsorted(order, some[:, column], "right")
        found[:, column] = (below + not_above) / (2.0 * len(order))
    return found


def _log_ratio(values: FloatArray, base: FloatArray) -> FloatArray:
    """Return log(values / base), clipped; 0 where both are 0."""
    tiny = 1e-3 * np.abs(base) + 1e-12
    found: FloatArray = np.clip(np.log((values + tiny) / (base + tiny)), -LARGEST_LOG, LARGEST_LOG)
    return found
