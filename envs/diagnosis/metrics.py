"""Metrics of a step and of an episode."""

from __future__ import annotations

from dataclasses import dataclass

from sysgym.emulator.diagnosis.parts import Part

STEP_METRICS: dict[str, str] = {
    "steps": "decisions taken",
    "allowed": "actions that the mask allows",
    "questions": "questions asked",
    "slowdown": "time of a training step over that without stragglers",
}
"""Meaning of every metric of a step."""

EPISODE_METRICS: dict[str, str] = {
    "score": "cost of the named fault over the worst one's; 0 if there is no fault in the named part",
    "correct": "1 if the named part has the worst fault, else 0",
    "questions": "questions asked",
    "net": "score, less 0.01 for each question",
    "share": "share of the lost time that what-if analysis attributes to the named part",
    "loss": "share of a training step that the worst fault costs",
    "faults": "faults in the job",
    "valid": "0 if an action was taken that the mask forbids, else 1",
}
"""Meaning of every episode metric."""

PRICE = 0.01
"""Price of a question in the metric ``net``."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of an episode.

    Attributes:
        named: The part that was named; None after a forbidden action.
    """

    named: Part | None
