"""Tuning of a pipeline: layers of stages, microbatches of ranks, recomputation."""

from __future__ import annotations

from sysgym.scenarios.family import Environment, Evaluation, Family, Metric

_SPEEDUP = Metric("speedup", "Speed-up over equal numbers of layers", True)

FAMILY = Family(
    name="pipelines",
    scenario="sysgym.scenarios.schema.pipelines:PipelineScenario",
    environments=(
        Environment(
            "sysgym/PipelineTuning-v0", "sysgym.envs.pipelines.pipeline_tuning:PipelineTuning", discount=1.0
        ),
    ),
    evaluation=Evaluation(
        reference="unchanged",
        headline=_SPEEDUP,
        benefit=_SPEEDUP,
        cost=Metric("tried", "Plans measured", False),
        metrics_entry="sysgym.envs.pipelines.metrics:EPISODE_METRICS",
        leading=("speedup", "idle", "model_error", "tried"),
        average="mean",
    ),
    agents="sysgym.agents.pipelines:AGENTS",
    learning="sysgym.agents.learned.pipelines.learning:LEARNING",
    describe="sysgym.envs.pipelines.show:in_words",
    draw="sysgym.envs.pipelines.show:draw",
    live="sysgym.envs.pipelines.live:live_view",
)
