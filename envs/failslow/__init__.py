"""Fail-slow faults in synchronous training: detection and choice of a response."""

from __future__ import annotations

from sysgym.scenarios.family import Environment, Evaluation, Family, Metric

_DELAY = Metric("delay", "Delay of the job", False)

FAMILY = Family(
    name="failslow",
    scenario="sysgym.scenarios.schema.failslow:FailSlowScenario",
    environments=(
        Environment("sysgym/FailSlow-v0", "sysgym.envs.failslow.fail_slow:FailSlow", discount=0.9),
    ),
    evaluation=Evaluation(
        reference="never",
        headline=_DELAY,
        benefit=Metric("saved", "Delay saved", True),
        cost=Metric("paused_hours", "Time paused", False),
        metrics_entry="sysgym.envs.failslow.metrics:EPISODE_METRICS",
        leading=("delay", "saved", "actions", "needless"),
        average="mean",
    ),
    agents="sysgym.agents.failslow:AGENTS",
    describe="sysgym.envs.failslow.show:in_words",
    draw="sysgym.envs.failslow.show:draw",
    live="sysgym.envs.failslow.live:live_view",
)
