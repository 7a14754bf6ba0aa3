"""Tuning of a data-parallel training step: gradient buckets and the order in which they are sent."""

from __future__ import annotations

from sysgym.scenarios.family import Environment, Evaluation, Family, Metric

_SPEEDUP = Metric("speedup", "Speed-up over PyTorch's buckets", True)

FAMILY = Family(
    name="tuning",
    scenario="sysgym.scenarios.schema.tuning:TuningScenario",
    environments=(
        Environment("sysgym/TrainingTuning-v0", "sysgym.envs.tuning.tuning:TrainingTuning", discount=1.0),
    ),
    evaluation=Evaluation(
        reference="25_mb",
        headline=_SPEEDUP,
        benefit=_SPEEDUP,
        cost=Metric("exposed", "Communication that is not hidden", False),
        metrics_entry="sysgym.envs.tuning.metrics:EPISODE_METRICS",
        leading=("speedup", "exposed", "model_error"),
        average="mean",
    ),
    agents="sysgym.agents.tuning:AGENTS",
    learning="sysgym.agents.learned.tuning.learning:LEARNING",
    describe="sysgym.envs.tuning.show:in_words",
    draw="sysgym.envs.tuning.show:draw",
    live="sysgym.envs.tuning.live:live_view",
)
