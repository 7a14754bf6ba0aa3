"""Rewards by name, pure functions of the outcome of a decision.

A scenario may be used with all environments of the family, so it may set the weights of all their rewards.
"""

from __future__ import annotations

from typing import NamedTuple

from sysgym.envs.placement.metrics import Outcome
from sysgym.envs.rewards import Reward, Weights


class DecisionOutcome(NamedTuple):
    """Outcome of one decision.

    Attributes:
        outcome: Outcome of the episode; None while it is in progress.
        measurement_price: Price of the measurement taken; 0 for none.
    """

    outcome: Outcome | None
    measurement_price: float = 0.0


def speedup(decision: DecisionOutcome, weights: Weights) -> dict[str, float]:
    """Return the logarithm of the speed-up at the end, and a penalty for an invalid choice."""
    outcome = decision.outcome
    return {
        "speedup": 0.0 if outcome is None else weights["speedup"] * outcome.log_speedup,
        "invalid": 0.0 if outcome is None or outcome.valid else -weights["invalid"],
    }


def measured_speedup(decision: DecisionOutcome, weights: Weights) -> dict[str, float]:
    """Return the terms of :func:`speedup`, and the negative price of a measurement."""
    price = decision.measurement_price
    paid = {"measurements": -weights["measurements"] * price if price else 0.0}
    return speedup(decision, weights) | paid


SPEEDUP: dict[str, Reward[DecisionOutcome]] = {
    "default": Reward(
        "default",
        speedup,
        {"speedup": 1.0, "invalid": 1.0},
        "ln of the speed-up over the default at the end; -1 for an action that the mask forbids",
    ),
}
"""Rewards of ``sysgym/CollectivePlacement-v0`` and ``sysgym/ReductionProgram-v0``."""

MEASURED: dict[str, Reward[DecisionOutcome]] = {
    "default": Reward(
        "default",
        measured_speedup,
        {"speedup": 1.0, "measurements": 1.0, "invalid": 1.0},
        "ln of the true speed-up over the default, less the price of the measurements",
    ),
}
"""Rewards of ``sysgym/JointPlacement-v0``."""
