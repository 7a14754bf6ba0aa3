"""Diagnosis of a slow training job by what-if questions."""

from __future__ import annotations

from sysgym.scenarios.family import Environment, Evaluation, Family, Metric

_SCORE = Metric("score", "Cost of the named fault over the worst one's", True)

FAMILY = Family(
    name="diagnosis",
    scenario="sysgym.scenarios.schema.diagnosis:DiagnosisScenario",
    environments=(
        Environment(
            "sysgym/TrainingDiagnosis-v0",
            "sysgym.envs.diagnosis.training_diagnosis:TrainingDiagnosis",
            discount=1.0,
        ),
    ),
    evaluation=Evaluation(
        reference="longest",
        headline=_SCORE,
        benefit=_SCORE,
        cost=Metric("questions", "Questions", False),
        metrics_entry="sysgym.envs.diagnosis.metrics:EPISODE_METRICS",
        leading=("score", "correct", "questions", "net"),
        average="mean",
    ),
    agents="sysgym.agents.diagnosis:AGENTS",
    learning="sysgym.agents.learned.diagnosis.learning:LEARNING",
    describe="sysgym.envs.diagnosis.show:in_words",
    draw="sysgym.envs.diagnosis.show:draw",
    live="sysgym.envs.diagnosis.live:live_view",
)
