"""Placement of parallelism axes and collectives on a hierarchy of accelerators."""

from __future__ import annotations

from dataclasses import replace

from sysgym.scenarios.family import Disturbance, Disturbances, Environment, Evaluation, Family, Metric

_REGRET = Metric("regret", "Regret", False)
_WITHOUT_MEASURING = Evaluation(
    reference="default",
    headline=_REGRET,
    benefit=Metric("speedup", "Speed-up over the default", True),
    cost=_REGRET,
    metrics_entry="sysgym.envs.placement.metrics:EPISODE_METRICS",
    leading=("regret", "speedup", "best_speedup"),
    average="mean",
)
_WITH_MEASURING = replace(
    _WITHOUT_MEASURING,
    headline=Metric("net_regret", "Regret and price of measurements", False),
    cost=Metric("measurements", "Measurements", False),
    leading=("net_regret", "regret", "measurements", "speedup"),
)
_SLOWDOWN = Metric("mean_slowdown", "Mean slowdown", False)
_OF_JOBS = replace(
    _WITHOUT_MEASURING,
    reference="packed",
    headline=_SLOWDOWN,
    benefit=Metric("speedup", "Improvement over packing", True),
    cost=_SLOWDOWN,
    metrics_entry="sysgym.envs.placement.metrics:JOBS_METRICS",
    leading=("mean_slowdown", "worst_slowdown", "speedup"),
)

_MEASURED = ("sysgym/JointPlacement-v0",)

FAMILY = Family(
    name="placement",
    scenario="sysgym.scenarios.schema.placement:PlacementScenario",
    environments=(
        Environment(
            "sysgym/CollectivePlacement-v0",
            "sysgym.envs.placement.placement:CollectivePlacement",
            discount=1.0,
        ),
        Environment(
            "sysgym/ReductionProgram-v0", "sysgym.envs.placement.program:ReductionProgram", discount=1.0
        ),
        Environment(
            "sysgym/JointPlacement-v0",
            "sysgym.envs.placement.joint:JointPlacement",
            evaluation=_WITH_MEASURING,
            discount=1.0,
        ),
        Environment(
            "sysgym/MultiJobPlacement-v0",
            "sysgym.envs.placement.multijob:MultiJobPlacement",
            evaluation=_OF_JOBS,
            discount=1.0,
        ),
    ),
    evaluation=_WITHOUT_MEASURING,
    agents="sysgym.agents.placement:AGENTS",
    learning="sysgym.agents.learned.placement.learning:LEARNING",
    live="sysgym.envs.placement.live:live_view",
    disturbances=Disturbances(
        own=(
            Disturbance(
                "stated",
                "system stated with errors of {}",
                "errors of stated bandwidths and latencies (log standard deviation)",
                (0.25, 0.5, 1.0),
                keys=("system.stated_log_sd",),
                env_ids=("sysgym/CollectivePlacement-v0", "sysgym/ReductionProgram-v0"),
            ),
            Disturbance(
                "residual",
                "costs off the model by {}",
                "error of the cost model for single candidates (log standard deviation)",
                (0.2, 0.4),
                keys=("joint.residual_log_sd",),
                env_ids=_MEASURED,
            ),
            Disturbance(
                "measurement",
                "measurement noise of {}",
                "noise of a measurement (log standard deviation)",
                (0.2, 0.5),
                keys=("joint.noise_log_sd",),
                env_ids=_MEASURED,
            ),
            Disturbance(
                "bandwidth",
                "bandwidths down to {} of the stated",
                "least true bandwidth of a level (share of the stated one)",
                (0.25, 0.1),
                keys=("joint.level_share_min",),
                env_ids=_MEASURED,
            ),
        ),
    ),
)
