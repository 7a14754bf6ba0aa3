"""Synthesis of schedules of collectives on graphs of links."""

from __future__ import annotations

from sysgym.scenarios.family import Environment, Evaluation, Family, Metric

_REGRET = Metric("regret", "Regret to the bound", False)

FAMILY = Family(
    name="collectives",
    scenario="sysgym.scenarios.schema.collectives:CollectivesScenario",
    environments=(
        Environment(
            "sysgym/CollectiveSynthesis-v0",
            "sysgym.envs.collectives.synthesis:CollectiveSynthesis",
            discount=1.0,
        ),
    ),
    evaluation=Evaluation(
        reference="ring",
        headline=_REGRET,
        benefit=Metric("busbw_bps", "Bus bandwidth", True),
        cost=_REGRET,
        metrics_entry="sysgym.envs.collectives.metrics:EPISODE_METRICS",
        leading=("regret", "link_use_fraction", "transfers"),
        average="mean",
    ),
    agents="sysgym.agents.collectives:AGENTS",
    learning="sysgym.agents.learned.collectives.learning:LEARNING",
    live="sysgym.envs.collectives.live:live_view",
)
