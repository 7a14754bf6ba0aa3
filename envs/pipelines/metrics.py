"""Metrics of a step and of an episode."""

from __future__ import annotations

from dataclasses import dataclass

STEP_METRICS: dict[str, str] = {
    "steps": "decisions taken",
    "allowed": "actions that the mask allows",
    "step_s": "true time of a training step under the plan, s",
    "best_s": "least true time so far, s",
    "recomputing": "stages that recompute their activations",
}
"""Meaning of every metric of a step."""

EPISODE_METRICS: dict[str, str] = {
    "speedup": "true time of a step with the first plan over the least one",
    "speedup_over_balanced": "the same with layers and microbatches balanced by rules",
    "idle": "share of the workers' time in which they do not compute, under the best plan",
    "model_error": "difference of the time by the profile from the true one of the best plan, as a share",
    "time_s": "least true time of a training step, s",
    "recomputing": "stages that recompute their activations in the best plan",
    "tried": "plans whose true time was measured",
    "predicted": "plans whose time by the profile the agent asked for",
    "valid": "0 if an action was taken that the mask forbids, else 1",
}
"""Meaning of every episode metric."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of an episode.

    Attributes:
        best_s: Least true time of a training step.
        valid: Whether every action was allowed.
    """

    best_s: float
    valid: bool = True
