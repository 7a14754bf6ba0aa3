"""Metrics of a step and of an episode."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.failslow.run import Action, FailSlowRun

STEP_METRICS: dict[str, str] = {
    "slowdown": "time of a step over that of a healthy one",
    "progress": "share of the job that is done",
    "faults": "faults that slow the job",
}
"""Meaning of every metric of a step."""

EPISODE_METRICS: dict[str, str] = {
    "delay": "time of the job over that of a healthy one, minus 1; extrapolated if the episode ended before",
    "saved": "share of the delay without any action that was saved",
    "finished": "1 if the job was done before the episode's end",
    "actions": "actions taken",
    "needless": "actions taken while nothing was slow",
    "rebalances": "times that microbatches were moved",
    "layer_moves": "times that layers were moved",
    "reroutes": "times that traffic was moved away from slow links",
    "replacements": "workers replaced",
    "checkpoints": "checkpoints written as an action",
    "restarts": "restarts",
    "paused_hours": "time without work, h",
    "hours": "time of the job, h",
}
"""Meaning of every episode metric."""


def episode_metrics(run: FailSlowRun, never_s: float) -> dict[str, float]:
    """Return the metrics of a whole episode; see :data:`EPISODE_METRICS`.

    Args:
        run: The run.
        never_s: Time of the job without any action.
    """
    taken = [window.action for window in run.windows if window.action is not Action.NONE]
    needless = sum(window.action is not Action.NONE and not window.needed for window in run.windows)
    time_s = job_time_s(run)
    lost_s = never_s - run.work_s
    return {
        "delay": time_s / run.work_s - 1.0,
        "saved": (never_s - time_s) / lost_s if lost_s > 0.0 else 0.0,
        "finished": float(run.finished),
        "actions": float(len(taken)),
        "needless": float(needless),
        "rebalances": float(taken.count(Action.REBALANCE)),
        "layer_moves": float(taken.count(Action.MOVE_LAYERS)),
        "reroutes": float(taken.count(Action.REROUTE)),
        "replacements": float(taken.count(Action.REPLACE)),
        "checkpoints": float(taken.count(Action.CHECKPOINT)),
        "restarts": float(taken.count(Action.RESTART)),
        "paused_hours": float(np.sum([window.paused_s for window in run.windows])) / 3600.0,
        "hours": time_s / 3600.0,
    }


def job_time_s(run: FailSlowRun) -> float:
    """Return the time of the job; one that is not done is assumed to go on at its mean rate."""
    return run.time_s if run.finished else run.time_s * run.work_s / max(run.progress_s, 1.0)
