"""Metrics of a step and of an episode. Inapplicable metrics are omitted."""

from __future__ import annotations

import math
from dataclasses import dataclass

STEP_METRICS: dict[str, str] = {
    "steps": "decisions taken",
    "steps_left": "maximum number of decisions left",
    "allowed": "actions that the mask allows",
    "default_time_s": "time of the default, axes in the given order or an all-reduce (placement, program), s",
    "default_nominal_s": "nominal time of the default (joint), s",
    "time_s": "time of the program's collectives so far (program), s",
    "measurements": "measurements taken (joint)",
    "measured_time_s": "time measured in the last step (joint; absent: none), s",
}
"""Meaning of every metric of a step."""

EPISODE_METRICS: dict[str, str] = {
    "time_s": "time of all reductions under what was chosen, by the cost model; joint: expected, true, s",
    "default_time_s": (
        "time of all reductions under the default: axes in the order given, or a single all-reduce, s"
    ),
    "best_time_s": "time of all reductions under the best choice, of those that the actions can make, s",
    "worst_time_s": "time of all reductions under the worst placement or candidate (placement, joint), s",
    "speedup": "default_time_s / time_s",
    "best_speedup": "default_time_s / best_time_s",
    "regret": "ln(time_s / best_time_s): 0 for the optimum",
    "optimal": "1 if regret is 0 and the choice is valid, else 0",
    "valid": "0 if an action was taken that the mask forbids or the program does not reduce, else 1",
    "placement_range": "worst_time_s / best_time_s (placement)",
    "n_placements": "number of placements (placement)",
    "n_candidates": "number of candidates (joint)",
    "n_levels": "levels that the reduction spans (program)",
    "program_steps": "collectives of the program (program)",
    "best_program_steps": "collectives of the best program (program)",
    "measurements": "measurements taken (joint)",
    "net_regret": "regret plus the price of the measurements (joint)",
    "nominal_regret": "regret of committing to the best candidate by nominal bandwidths (joint)",
}
"""Meaning of every episode metric."""

JOBS_STEP_METRICS: dict[str, str] = {
    "steps": "decisions taken",
    "steps_left": "blocks that are left",
    "allowed": "nodes that the mask allows",
    "blocks_placed": "blocks that are placed",
}
"""Meaning of every metric of a step of ``MultiJobPlacement-v0``."""

JOBS_METRICS: dict[str, str] = {
    "mean_slowdown": "duration over that of the job alone and packed, mean over jobs, as flows",
    "worst_slowdown": (
        "duration over that of the job alone and packed, slowest job, as flows (absent: not all jobs were"
        " placed)"
    ),
    "default_slowdown": "mean slowdown, as mean_slowdown, of the default: one node filled after another",
    "speedup": "default_slowdown / mean_slowdown",
    "estimated_slowdown": "the mean slowdown in closed form (absent: not all jobs were placed)",
    "nodes_per_job": "nodes occupied by a job, mean over jobs (absent: not all jobs were placed)",
    "n_jobs": "jobs",
    "valid": "0 if an action was taken that the mask forbids, else 1",
}
"""Meaning of every episode metric of ``MultiJobPlacement-v0``."""

TIE = 1e-9
"""Relative difference below which times are equal, because sums may be computed in different orders."""

_LEAST_TIME_S = 1e-15


def log_ratio(time_s: float, to_s: float) -> float:
    """Return the natural logarithm of a ratio of times; exactly 0 if they are equal.

    Args:
        time_s: A time; 0 if nothing is sent.
        to_s: The time that it is compared with.
    """
    ratio = max(time_s, _LEAST_TIME_S) / max(to_s, _LEAST_TIME_S)
    return 0.0 if abs(ratio - 1.0) < TIE else math.log(ratio)


@dataclass(frozen=True)
class Outcome:
    """Outcome of an episode.

    Attributes:
        time_s: Time of the choice; that of the default if the choice was not valid.
        default_time_s: Time of the default.
        best_time_s: Time of the best choice.
        valid: Whether the choice was valid.
    """

    time_s: float
    default_time_s: float
    best_time_s: float
    valid: bool = True

    @property
    def log_speedup(self) -> float:
        """Natural logarithm of the speed-up over the default."""
        return log_ratio(self.default_time_s, self.time_s)

    @property
    def regret(self) -> float:
        """Natural logarithm of the ratio of the time to the best one."""
        return log_ratio(self.time_s, self.best_time_s)

    def metrics(self) -> dict[str, float]:
        """Return the metrics common to all environments of the family; see :data:`EPISODE_METRICS`."""
        return {
            "time_s": self.time_s,
            "default_time_s": self.default_time_s,
            "best_time_s": self.best_time_s,
            "speedup": math.exp(self.log_speedup),
            "best_speedup": math.exp(log_ratio(self.default_time_s, self.best_time_s)),
            "regret": self.regret,
            "optimal": float(self.valid and self.regret == 0.0),
            "valid": float(self.valid),
        }
