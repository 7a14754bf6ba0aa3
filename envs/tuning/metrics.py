"""Metrics of a step and of an episode."""

from __future__ import annotations

from sysgym.envs import plan_tuning

STEP_METRICS: dict[str, str] = {
    **plan_tuning.STEP_METRICS,
    "buckets": "buckets of the plan",
}
"""Meaning of every metric of a step."""

EPISODE_METRICS: dict[str, str] = {
    "speedup": "true time with PyTorch's default buckets (25 MiB) over the least one",
    "speedup_over_one_bucket": "true time with one bucket over the least one",
    "speedup_over_layers": "true time with a bucket for every layer over the least one",
    "exposed": "least time over that without any communication, minus 1",
    "buckets": "buckets of the best plan",
    **plan_tuning.EPISODE_METRICS,
}
"""Meaning of every episode metric."""
