"""Rewards by name, pure functions of the outcome of a decision."""

from __future__ import annotations

from typing import NamedTuple

from sysgym.envs.rewards import Reward, Weights


class AnswerOutcome(NamedTuple):
    """Outcome of a decision.

    Attributes:
        score: Cost of the fault that was named over the worst one's; 0 for a question.
        asked: Whether it was a question.
        valid: Whether the action was allowed.
    """

    score: float
    asked: bool
    valid: bool


def named(outcome: AnswerOutcome, weights: Weights) -> dict[str, float]:
    """Return the score, less a price for each question, and a penalty for a forbidden action."""
    return {
        "score": weights["score"] * outcome.score,
        "question": -weights["question"] * float(outcome.asked),
        "invalid": 0.0 if outcome.valid else -weights["invalid"],
    }


REWARDS: dict[str, Reward[AnswerOutcome]] = {
    "default": Reward(
        "default",
        named,
        {"score": 1.0, "question": 0.01, "invalid": 1.0},
        "cost of the named fault over the worst one's; -0.01 for a question, -1 for a forbidden action",
    ),
}
"""Rewards of ``sysgym/TrainingDiagnosis-v0``."""
