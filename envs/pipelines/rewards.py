"""Rewards by name, pure functions of what a change did."""

from __future__ import annotations

from typing import NamedTuple

from sysgym.envs.rewards import Reward, Weights


class ChangeOutcome(NamedTuple):
    """Outcome of a change.

    Attributes:
        faster: Decrease of the true time, over that at the beginning.
        best: Decrease of the least true time so far, likewise.
        valid: Whether the action was allowed.
    """

    faster: float
    best: float
    valid: bool


def best(outcome: ChangeOutcome, weights: Weights) -> dict[str, float]:
    """Return the decrease of the least time so far, and a penalty for a forbidden action."""
    return {"time": weights["time"] * outcome.best, "invalid": _invalid(outcome, weights)}


def present(outcome: ChangeOutcome, weights: Weights) -> dict[str, float]:
    """Return the decrease of the time, which is negative for a change for the worse."""
    return {"time": weights["time"] * outcome.faster, "invalid": _invalid(outcome, weights)}


def _invalid(outcome: ChangeOutcome, weights: Weights) -> float:
    return 0.0 if outcome.valid else -weights["invalid"]


_WEIGHTS = {"time": 1.0, "invalid": 1.0}
REWARDS: dict[str, Reward[ChangeOutcome]] = {
    "default": Reward(
        "default",
        best,
        _WEIGHTS,
        "decrease of the least true time so far, over that at the beginning; -1 for a forbidden action",
    ),
    "present": Reward(
        "present",
        present,
        _WEIGHTS,
        "decrease of the true time by the change, over that at the beginning; -1 for a forbidden action",
    ),
}
"""Rewards of ``sysgym/PipelineTuning-v0``."""
