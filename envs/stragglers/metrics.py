"""Metrics of a checkpoint and of an episode. Inapplicable metrics are omitted.

A flag counts only if it was raised before the task had run for the threshold, because a late flag carries no
information beyond the elapsed time. In the mitigation environment a task counts as flagged when it is first
acted on. A task is a straggler if its first attempt would reach the threshold without any action.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sysgym.emulator.cluster.execution import (
    FINISHED,
    PENDING,
    RUNNING,
    UNLIMITED,
    Execution,
    Snapshot,
    completion_with_relaunch,
)
from sysgym.emulator.cluster.job import BoolArray, FloatArray, Job
from sysgym.envs.stragglers.ceiling import best_completion_s

BINS = ((0.90, 0.95), (0.95, 0.99), (0.99, None))
PERCENTS = tuple(range(10, 101, 10))
CURVES = {
    "tpr": "stragglers flagged in time, of all stragglers, counting flags raised up to",
    "fpr": "other tasks flagged, of all other tasks, counting flags raised up to",
    "precision": "stragglers among the flags that were raised in time (absent: no flag) up to",
    "f1": "F1 of the flags raised up to",
}
"""Metrics of flags over normalised time: ``f1_at_30`` counts flags of tasks that had run for at most 30 % of
the threshold. Time begins at each task's own start, because nobody can flag a task in a queue."""

CHECKPOINT_METRICS: dict[str, str] = {
    "pending_tasks": "tasks that have not started",
    "running_tasks": "tasks that run",
    "finished_tasks": "tasks that have finished",
    "flagged_tasks": "tasks flagged or acted on so far",
    "true_flags": "stragglers flagged in time so far",
    "false_flags": "flags so far of tasks that are no stragglers",
    "late_flags": "flags so far of tasks that had already run for the threshold",
    "relaunches": "attempts killed and restarted so far (mitigation)",
    "copies": "copies started so far (mitigation)",
    "waiting_tasks": "tasks that wait for a machine for their next attempt (mitigation)",
    "free_machines": "unused machines (mitigation with a limit)",
    "used_s": "machine-seconds of all attempts so far (mitigation)",
    "wasted_s": "machine-seconds of attempts that were killed or lost so far (mitigation)",
}
"""Meaning of every metric of a checkpoint. Those of flags reveal the true stragglers: agents may learn from
them but must not use them for decisions."""

EPISODE_METRICS: dict[str, str] = {
    "n_tasks": "tasks of the job",
    "stragglers": "tasks whose first attempt takes at least the threshold",
    "threshold_s": "least latency of a straggler, s",
    "tpr": "stragglers flagged in time, of all stragglers; equals recall",
    "fnr": "stragglers not flagged in time, of all stragglers",
    "fpr": "other tasks flagged, of all other tasks",
    "precision": "stragglers among the flags that were raised in time (absent: no flag)",
    "recall": "stragglers flagged in time, of all stragglers",
    "f1": "harmonic mean of precision and recall, 0 without a true flag",
    "f1_over_time": "mean of F1 at every tenth of the threshold, by each task's own time, which rewards early"
    " flags",
    **{
        f"{name}_at_{percent}": f"{meaning} {percent} % of the threshold after the start of their task"
        for name, meaning in CURVES.items()
        for percent in PERCENTS
    },
    "true_flags": "stragglers flagged in time",
    "false_flags": "flags of tasks that are no stragglers",
    "late_flags": "flags of tasks that had already run for the threshold; they count as missed",
    "lead_time_mean_s": "threshold less elapsed time at the flag, mean over true flags, s",
    "lead_time_mean": "threshold less elapsed time at the flag, over the threshold, mean over true flags",
    "recall_p90_p95": "recall of stragglers with a latency from the job's quantile 0.9 to below 0.95",
    "recall_p95_p99": "recall of stragglers with a latency from the job's quantile 0.95 to below 0.99",
    "recall_p99_max": "recall of stragglers with a latency from the job's quantile 0.99 on",
    "completion_s": "completion time of the job, after its submission, s",
    "completion_unaided_s": "completion time of the job without any action, s",
    "completion_reduction": "1 - completion_s / completion_unaided_s (mitigation)",
    "completion_reduction_oracle": (
        "largest completion_reduction that is found with knowledge of all durations, without limits on"
        " decisions and actions per checkpoint (mitigation)"
    ),
    "completion_reduction_unlimited": (
        "share by which the job completes earlier if every task were relaunched at its flag (prediction)"
    ),
    "completion_reduction_unlimited_oracle": (
        "largest completion_reduction_unlimited that flags can reach (prediction)"
    ),
    "completion_reduction_limited": (
        "share by which the job completes earlier if flagged tasks were relaunched on the scenario's spare"
        " machines, none if it has no limit (prediction)"
    ),
    "completion_reduction_limited_oracle": (
        "largest completion_reduction_limited found with knowledge of all durations (prediction)"
    ),
    "waste_share": "machine-seconds killed or lost, over those of the job without action (mitigation)",
    "relaunches": "attempts killed and restarted (mitigation)",
    "copies": "copies started (mitigation)",
}
"""Meaning of every episode metric."""


@dataclass(frozen=True)
class Flags:
    """Flags of an episode compared with the true stragglers.

    Attributes:
        job: The job.
        threshold_s: Latency at and above which a task is a straggler.
        raised_s: Time of each task's flag after the job's submission; inf for none. Shape (n_tasks,).
    """

    job: Job
    threshold_s: float
    raised_s: FloatArray

    @cached_property
    def stragglers(self) -> BoolArray:
        """Mask of the stragglers."""
        return self.job.stragglers(self.threshold_s)

    @property
    def flagged(self) -> BoolArray:
        """Mask of the flagged tasks, in time or late."""
        return np.isfinite(self.raised_s)

    @property
    def lead_s(self) -> FloatArray:
        """Time from the flag to the threshold; not positive for late flags, -inf for none."""
        return self.threshold_s - (self.raised_s - self.job.start_s)

    @property
    def true(self) -> BoolArray:
        """Mask of the stragglers flagged in time."""
        return self.stragglers & (self.lead_s > 0.0)

    @property
    def false(self) -> BoolArray:
        """Mask of the flagged tasks that are not stragglers."""
        return self.flagged & ~self.stragglers

    @property
    def late(self) -> BoolArray:
        """Mask of the stragglers flagged too late."""
        return self.flagged & self.stragglers & ~self.true

    def until(self, time_s: float) -> Flags:
        """Return the flags raised up to a time after the start of their task."""
        raised_s = np.where(self.raised_s - self.job.start_s <= time_s, self.raised_s, np.inf)
        return Flags(self.job, self.threshold_s, raised_s)

    def f1(self) -> float | None:
        """Return the F1 score; None if there is neither a straggler nor a flag."""
        true, wrong = int(self.true.sum()), int(self.false.sum())
        missed = int(self.stragglers.sum()) - true
        counted = 2 * true + wrong + missed
        return 2 * true / counted if counted else None


def checkpoint_metrics(snapshot: Snapshot, flags: Flags) -> dict[str, float]:
    """Return the checkpoint metrics common to both environments; see :data:`CHECKPOINT_METRICS`."""
    return {
        "pending_tasks": float((snapshot.state == PENDING).sum()),
        "running_tasks": float((snapshot.state == RUNNING).sum()),
        "finished_tasks": float((snapshot.state == FINISHED).sum()),
        "flagged_tasks": float(flags.flagged.sum()),
        "true_flags": float(flags.true.sum()),
        "false_flags": float(flags.false.sum()),
        "late_flags": float(flags.late.sum()),
    }


def world_metrics(snapshot: Snapshot, world: Execution) -> dict[str, float]:
    """Return the checkpoint metrics of mitigation only; see :data:`CHECKPOINT_METRICS`."""
    metrics = {
        "relaunches": float(world.relaunches),
        "copies": float(world.copies),
        "waiting_tasks": float(snapshot.waiting.sum()),
        "used_s": snapshot.used_s,
        "wasted_s": snapshot.wasted_s,
    }
    if snapshot.free_machines != UNLIMITED:
        metrics["free_machines"] = float(snapshot.free_machines)
    return metrics


def flag_metrics(flags: Flags) -> dict[str, float]:
    """Return the metrics of an episode's flags; see :data:`EPISODE_METRICS`."""
    job, stragglers, true = flags.job, flags.stragglers, flags.true
    metrics = {
        "n_tasks": float(job.n_tasks),
        "stragglers": float(stragglers.sum()),
        "threshold_s": flags.threshold_s,
        "true_flags": float(true.sum()),
        "false_flags": float(flags.false.sum()),
        "late_flags": float(flags.late.sum()),
    }
    scores = _scores(flags)
    metrics |= scores
    if "tpr" in scores:
        metrics["recall"] = scores["tpr"]
        metrics["fnr"] = 1.0 - scores["tpr"]
    for percent in PERCENTS:
        so_far = _scores(flags.until(percent / 100 * flags.threshold_s))
        metrics |= {f"{name}_at_{percent}": value for name, value in so_far.items()}
    if "f1_at_100" in metrics:
        metrics["f1_over_time"] = float(
            np.mean([metrics.get(f"f1_at_{percent}", 0.0) for percent in PERCENTS])
        )
    if true.any():
        metrics["lead_time_mean_s"] = float(flags.lead_s[true].mean())
        metrics["lead_time_mean"] = metrics["lead_time_mean_s"] / flags.threshold_s
    return metrics | _recall_by_latency(flags)


def _scores(flags: Flags) -> dict[str, float]:
    """Return the metrics of :data:`CURVES` for these flags, without inapplicable ones."""
    n_stragglers = int(flags.stragglers.sum())
    n_others = flags.job.n_tasks - n_stragglers
    n_true, n_false = int(flags.true.sum()), int(flags.false.sum())
    scores = {}
    if n_stragglers:
        scores["tpr"] = n_true / n_stragglers
    if n_others:
        scores["fpr"] = n_false / n_others
    if n_true + n_false:
        scores["precision"] = n_true / (n_true + n_false)
    if (f1 := flags.f1()) is not None:
        scores["f1"] = f1
    return scores


def _recall_by_latency(flags: Flags) -> dict[str, float]:
    metrics = {}
    latency_s = flags.job.latency_s
    for low, high in BINS:
        inside = flags.stragglers & (latency_s >= np.quantile(latency_s, low))
        if high is not None:
            inside &= latency_s < np.quantile(latency_s, high)
        if inside.any():
            end = "max" if high is None else f"p{100 * high:.0f}"
            metrics[f"recall_p{100 * low:.0f}_{end}"] = float(flags.true[inside].mean())
    return metrics


def prediction_metrics(flags: Flags, first_decision_s: float, spare_machines: int) -> dict[str, float]:
    """Return the metrics of an episode of prediction; see :data:`EPISODE_METRICS`.

    Args:
        flags: Flags of the episode.
        first_decision_s: Time of the first decision.
        spare_machines: Number of spare machines of the scenario.
    """
    job = flags.job
    metrics = flag_metrics(flags)
    metrics["completion_s"] = metrics["completion_unaided_s"] = job.completion_s
    if job.n_attempts < 2:
        return metrics
    for name, spare in (("unlimited", UNLIMITED), ("limited", max(spare_machines, 0))):
        reached_s = completion_with_relaunch(job, flags.raised_s, spare)
        best_s = best_completion_s(job, first_decision_s, spare, copies=False)
        metrics[f"completion_reduction_{name}"] = 1.0 - reached_s / job.completion_s
        metrics[f"completion_reduction_{name}_oracle"] = 1.0 - min(best_s, reached_s) / job.completion_s
    return metrics


def mitigation_metrics(flags: Flags, world: Execution, first_decision_s: float) -> dict[str, float]:
    """Return the metrics of an episode of mitigation; see :data:`EPISODE_METRICS`.

    Args:
        flags: First action on each task.
        world: Completed execution of the job.
        first_decision_s: Time of the first decision.
    """
    job = flags.job
    best_s = best_completion_s(job, first_decision_s, world.spare_machines)
    return flag_metrics(flags) | {
        "completion_s": world.completion_s,
        "completion_unaided_s": job.completion_s,
        "completion_reduction": 1.0 - world.completion_s / job.completion_s,
        "completion_reduction_oracle": 1.0 - min(best_s, world.completion_s) / job.completion_s,
        "waste_share": world.wasted_s / float(job.latency_s.sum()),
        "relaunches": float(world.relaunches),
        "copies": float(world.copies),
    }
