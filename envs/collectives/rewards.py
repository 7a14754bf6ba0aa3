"""Rewards by name, pure functions of the outcome of a transfer."""

from __future__ import annotations

from typing import NamedTuple

from sysgym.envs.collectives.metrics import Outcome
from sysgym.envs.rewards import Reward, Weights


class TransferOutcome(NamedTuple):
    """Outcome of one scheduled transfer.

    Attributes:
        increase: Increase of the schedule's time, over the lower bound.
        outcome: Outcome of the episode; None while it is in progress.
    """

    increase: float
    outcome: Outcome | None


def time(transfer: TransferOutcome, weights: Weights) -> dict[str, float]:
    """Return the negative increase of the time, and a penalty for an action that the mask forbids."""
    return {"time": -weights["time"] * transfer.increase, "invalid": _invalid(transfer, weights)}


def regret(transfer: TransferOutcome, weights: Weights) -> dict[str, float]:
    """Return the negative regret at the end, and a penalty for an action that the mask forbids."""
    lost = 0.0 if transfer.outcome is None else transfer.outcome.regret
    return {"regret": -weights["regret"] * lost, "invalid": _invalid(transfer, weights)}


def _invalid(transfer: TransferOutcome, weights: Weights) -> float:
    return 0.0 if transfer.outcome is None or transfer.outcome.valid else -weights["invalid"]


REWARDS: dict[str, Reward[TransferOutcome]] = {
    "default": Reward(
        "default",
        time,
        {"time": 1.0, "invalid": 1.0},
        "minus the increase of the schedule's time over the lower bound; -1 for a forbidden action",
    ),
    "regret": Reward(
        "regret",
        regret,
        {"regret": 1.0, "invalid": 1.0},
        "minus ln(time / lower bound) at the end; -1 for a forbidden action",
    ),
}
"""Rewards of ``sysgym/CollectiveSynthesis-v0``."""
