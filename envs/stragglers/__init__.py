"""Prediction and mitigation of stragglers, the slow tasks of a parallel job."""

from __future__ import annotations

from dataclasses import replace

from sysgym.scenarios.family import Curve, Disturbances, Environment, Evaluation, Family, Metric

_NORMALISED_TIME = "Time since the job's submission (% of the threshold)"
_TIME_SAVED = Metric("completion_reduction", "Job completion time saved", True)

_OF_PREDICTIONS = Evaluation(
    reference="nurd",
    headline=Metric("f1_over_time", "F1 over time", True),
    benefit=Metric("tpr", "Recall (TPR)", True),
    cost=Metric("fpr", "False positive rate", False),
    metrics_entry="sysgym.envs.stragglers.metrics:EPISODE_METRICS",
    enough_benefit=0.5,
    curves=(
        Curve("f1_at_", "F1", _NORMALISED_TIME, True),
        Curve("tpr_at_", "Recall (TPR)", _NORMALISED_TIME, True),
        Curve("fpr_at_", "False positive rate", _NORMALISED_TIME, False),
        Curve("precision_at_", "Precision", _NORMALISED_TIME, True),
    ),
)
_OF_MITIGATION = replace(
    _OF_PREDICTIONS,
    headline=_TIME_SAVED,
    benefit=_TIME_SAVED,
    cost=Metric("waste_share", "Work thrown away", False),
    leading=("completion_reduction", "waste_share", "completion_reduction_oracle"),
    curves=(),
)

FAMILY = Family(
    name="stragglers",
    scenario="sysgym.scenarios.schema.stragglers:StragglerScenario",
    environments=(
        Environment("sysgym/StragglerPrediction-v0", "sysgym.envs.stragglers.prediction:StragglerPrediction"),
        Environment(
            "sysgym/StragglerMitigation-v0",
            "sysgym.envs.stragglers.mitigation:StragglerMitigation",
            evaluation=_OF_MITIGATION,
        ),
    ),
    evaluation=_OF_PREDICTIONS,
    agents="sysgym.agents.stragglers:AGENTS",
    learning="sysgym.agents.learned.stragglers.learning:LEARNING",
    live="sysgym.envs.stragglers.live:live_view",
    disturbances=Disturbances(noise=True, noise_keys=("counters",)),
    prepare="sysgym.emulator.cluster.source:read_trace",
)
