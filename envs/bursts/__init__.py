"""Burst-parallel training: GPU counts by layer, and background work in the gaps."""

from __future__ import annotations

from dataclasses import replace

from sysgym.scenarios.family import Environment, Evaluation, Family, Metric

_REGRET = Metric("regret", "Regret to the optimum", False)
_PLAN = Evaluation(
    reference="data_parallel",
    headline=_REGRET,
    benefit=Metric("speedup", "Speed-up over one GPU", True),
    cost=_REGRET,
    metrics_entry="sysgym.envs.bursts.metrics:PLAN_METRICS",
    leading=("regret", "speedup", "idle_share", "amplification"),
    average="mean",
)
_THROUGHPUT = Metric("cluster_throughput", "Throughput of foreground and background", True)
_MUX = replace(
    _PLAN,
    reference="no_background",
    headline=_THROUGHPUT,
    benefit=Metric("background_share", "Background over a GPU of its own", True),
    cost=Metric("slowdown_mean", "Slowdown of the foreground", False),
    metrics_entry="sysgym.envs.bursts.metrics:MUX_METRICS",
    leading=("cluster_throughput", "slowdown_mean", "excess_share"),
)

FAMILY = Family(
    name="bursts",
    scenario="sysgym.scenarios.schema.bursts:BurstScenario",
    environments=(
        Environment("sysgym/BurstPlan-v0", "sysgym.envs.bursts.plan:BurstPlan", discount=1.0),
        Environment("sysgym/BurstMux-v0", "sysgym.envs.bursts.mux:BurstMux", evaluation=_MUX, discount=0.9),
    ),
    evaluation=_PLAN,
    agents="sysgym.agents.bursts:AGENTS",
    describe="sysgym.envs.bursts.show:in_words",
    draw="sysgym.envs.bursts.show:draw",
    live="sysgym.envs.bursts.live:live_view",
)
