"""Metrics of a step and of an episode."""

from __future__ import annotations

from sysgym.envs import plan_tuning

STEP_METRICS: dict[str, str] = {
    **plan_tuning.STEP_METRICS,
    "recomputing": "stages that recompute their activations",
}
"""Meaning of every metric of a step."""

EPISODE_METRICS: dict[str, str] = {
    "speedup": "true time of a step with the first plan over the least one",
    "speedup_over_balanced": (
        "true time of a step with layers and microbatches balanced by rules over the least one"
    ),
    "idle": "share of the workers' time in which they do not compute, under the best plan",
    "recomputing": "stages that recompute their activations in the best plan",
    **plan_tuning.EPISODE_METRICS,
}
"""Meaning of every episode metric."""
