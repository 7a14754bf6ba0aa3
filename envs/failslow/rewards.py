"""Rewards by name, pure functions of what happened in a window."""

from __future__ import annotations

from typing import NamedTuple

from sysgym.envs.rewards import Reward, Weights


class WindowOutcome(NamedTuple):
    """Outcome of a window.

    Attributes:
        lost: Time in which no healthy work was done, and work that a restart loses, over the window's.
        acted: Whether an action was taken.
    """

    lost: float
    acted: bool


def lost_time(outcome: WindowOutcome, weights: Weights) -> dict[str, float]:
    """Return minus the share of the time that was lost, and minus a price of each action."""
    return {
        "lost": -weights["lost"] * outcome.lost,
        "action": -weights["action"] * float(outcome.acted),
    }


REWARDS: dict[str, Reward[WindowOutcome]] = {
    "default": Reward(
        "default",
        lost_time,
        {"lost": 1.0, "action": 0.0},
        "minus the share of the window in which no healthy work was done",
    ),
}
"""Rewards of ``sysgym/FailSlow-v0``."""
