"""Prediction and mitigation of stragglers, the slow tasks of a parallel job."""

from __future__ import annotations

from dataclasses import replace

from sysgym.scenarios.family import Curve, Disturbance, Disturbances, Environment, Evaluation, Family, Metric

_NORMALISED_TIME = "Time since the task's start (% of the threshold)"
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
        Environment(
            "sysgym/StragglerPrediction-v0",
            "sysgym.envs.stragglers.prediction:StragglerPrediction",
            discount=1.0,
        ),
        Environment(
            "sysgym/StragglerMitigation-v0",
            "sysgym.envs.stragglers.mitigation:StragglerMitigation",
            evaluation=_OF_MITIGATION,
            discount=1.0,
        ),
    ),
    evaluation=_OF_PREDICTIONS,
    agents="sysgym.agents.stragglers:AGENTS",
    learning="sysgym.agents.learned.stragglers.learning:LEARNING",
    live="sysgym.envs.stragglers.live:live_view",
    disturbances=Disturbances(
        noise=True,
        noise_keys=("counters",),
        own=(
            Disturbance(
                "late",
                "counters {} window(s) late",
                "delay of counters (measuring windows)",
                (1.0, 4.0),
                wrapper="sysgym.envs.stragglers.disturbances:LateCounters",
            ),
            Disturbance(
                "missing",
                "{} of all counters missing",
                "missing counters (share of all)",
                (0.25, 0.5, 1.0),
                wrapper="sysgym.envs.stragglers.disturbances:MissingCounters",
            ),
            Disturbance(
                "faults",
                "{} times the faults",
                "rates of faults, interference and slow machines (times those of training)",
                (2.0, 4.0),
                keys=("jobs.interference_rate", "jobs.fault_rate", "jobs.cluster.slow_machine_fraction"),
                relative=True,
            ),
            Disturbance(
                "quantile",
                "stragglers above quantile {}",
                "quantile of a job's latencies from which on a task is a straggler",
                (0.8, 0.95),
                keys=("straggler.value",),
            ),
        ),
    ),
    prepare="sysgym.emulator.cluster.source:read_trace",
)
