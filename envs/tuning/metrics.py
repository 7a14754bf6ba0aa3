"""Metrics of a step and of an episode."""

from __future__ import annotations

from dataclasses import dataclass

STEP_METRICS: dict[str, str] = {
    "steps": "decisions taken",
    "allowed": "actions that the mask allows",
    "time_s": "true time of a training step under the plan, s",
    "best_s": "least true time so far, s",
    "buckets": "buckets of the plan",
}
"""Meaning of every metric of a step."""

EPISODE_METRICS: dict[str, str] = {
    "speedup": "true time with buckets of 25 MB over the least one",
    "speedup_over_one_bucket": "the same with one bucket",
    "speedup_over_layers": "the same with a bucket for every layer",
    "exposed": "least time over that without any communication, minus 1",
    "model_error": "difference of the time by the profile from the true one of the best plan, as a share",
    "time_s": "least true time of a training step, s",
    "buckets": "buckets of the best plan",
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
