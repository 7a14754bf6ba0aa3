"""Metrics of a step and of an episode."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.compression.run import TrainingRun
from sysgym.emulator.compression.times import N_METHODS
from sysgym.scenarios.schema.compression import METHODS

STEP_METRICS: dict[str, str] = {
    "progress": "progress of the job, share",
    "goodput_bps": "bandwidth that background traffic left of a worker's link in the last window, bit/s",
    "workers": "workers in the last window",
    "iteration_s": "time of an iteration in the last window, s",
    "uncompressed_s": "time of an iteration without compression in the same window, s",
    "changes": "changes of the method so far",
}
"""Meaning of every metric of a step."""

EPISODE_METRICS: dict[str, str] = {
    "finish_s": "time in which the job finished; if it did not, at its mean speed, s",
    "finished": "1 if the job finished before the episode's last decision, else 0",
    "never_s": "time in which the job would finish without compression, under the same conditions, s",
    "optimum_s": "time in which the job would finish with the methods that finish first, conditions known, s",
    "gain_over_never": "never_s / finish_s - 1",
    "regret": "finish_s / optimum_s - 1: 0 is the optimum",
    "changes": "changes of the method",
    **{f"share_{method}": f"iterations with the method {method}, share" for method in METHODS},
}
"""Meaning of every episode metric."""


def step_metrics(run: TrainingRun) -> dict[str, float]:
    """Return the metrics of a step; see :data:`STEP_METRICS`."""
    last = run.windows[-1] if run.windows else None
    return {
        "progress": run.progress / run.training.iterations,
        "goodput_bps": float(run.conditions.goodput_bps[run.now]),
        "workers": float(run.conditions.workers[run.now]),
        "iteration_s": run.iteration_s,
        "uncompressed_s": run.iteration_s if last is None else last.uncompressed_s,
        "changes": float(run.changes),
    }


def episode_metrics(run: TrainingRun) -> dict[str, float]:
    """Return the metrics of a whole episode; see :data:`EPISODE_METRICS`."""
    iterations = np.zeros(N_METHODS)
    for one in run.windows:
        iterations[one.method] += one.iterations
    shares = iterations / iterations.sum()
    own_s, never_s, optimum_s = run.finish_s, run.uncompressed.finish_s, run.optimum.finish_s
    return {
        "finish_s": own_s,
        "finished": float(run.finished),
        "never_s": never_s,
        "optimum_s": optimum_s,
        "gain_over_never": never_s / own_s - 1.0,
        "regret": own_s / optimum_s - 1.0,
        "changes": float(run.changes),
        **{f"share_{name}": float(share) for name, share in zip(METHODS, shares, strict=True)},
    }
