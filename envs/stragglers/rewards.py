"""Rewards by name, pure functions of an outcome.

A scenario may be used with both environments, so it may set the weights of the rewards of both.
"""

from __future__ import annotations

from typing import NamedTuple

from sysgym.envs.rewards import Reward, Weights


class PredictionOutcome(NamedTuple):
    """Outcome of the flags raised at one checkpoint.

    Attributes:
        earliness: Sum over new flags of stragglers of (threshold - elapsed) / threshold, 0 for late ones.
        false_flags: Number of new flags of tasks that are not stragglers.
        missed: On the last step, the number of stragglers not flagged in time; 0 before.
        n_stragglers: Number of stragglers of the job.
        n_others: Number of other tasks that had not finished at the first decision.
    """

    earliness: float
    false_flags: int
    missed: int
    n_stragglers: int
    n_others: int


class MitigationOutcome(NamedTuple):
    """Outcome of mitigation between two checkpoints.

    Attributes:
        time_s: Duration, up to the completion of the job.
        wasted_s: Machine-seconds of killed and unsuccessful attempts.
        n_tasks: Number of tasks of the job.
        unaided_s: Completion time of the job without action.
        waste_price: Cost of wasted work in the scenario.
    """

    time_s: float
    wasted_s: float
    n_tasks: int
    unaided_s: float
    waste_price: float


def flags(outcome: PredictionOutcome, weights: Weights) -> dict[str, float]:
    """Return the mean earliness of flagged stragglers minus the rates of false flags and of misses."""
    return {
        "true_flags": weights["true_flags"] * _share(outcome.earliness, outcome.n_stragglers),
        "false_flags": -weights["false_flags"] * _share(outcome.false_flags, outcome.n_others),
        "missed": -weights["missed"] * _share(outcome.missed, outcome.n_stragglers),
    }


def time_and_waste(outcome: MitigationOutcome, weights: Weights) -> dict[str, float]:
    """Return the negative completion time minus the cost of wasted work."""
    waste_s = outcome.waste_price * outcome.wasted_s / outcome.n_tasks
    return {
        "time": -weights["time"] * outcome.time_s / outcome.unaided_s,
        "waste": -weights["waste"] * waste_s / outcome.unaided_s,
    }


def _share(count: float, of: int) -> float:
    return count / of if of else 0.0


PREDICTION: dict[str, Reward[PredictionOutcome]] = {
    "default": Reward(
        "default",
        flags,
        {"true_flags": 1.0, "false_flags": 1.0, "missed": 1.0},
        "mean earliness of the stragglers flagged, less false flags, less stragglers missed",
    ),
}
"""Rewards of ``sysgym/StragglerPrediction-v0``."""

MITIGATION: dict[str, Reward[MitigationOutcome]] = {
    "default": Reward(
        "default",
        time_and_waste,
        {"time": 1.0, "waste": 1.0},
        "negative sum of completion time and price of wasted work, over the completion time without action",
    ),
}
"""Rewards of ``sysgym/StragglerMitigation-v0``."""
