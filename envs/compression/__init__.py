"""Choice of gradient compression methods in data-parallel training."""

from __future__ import annotations

from sysgym.scenarios.family import Disturbances, Environment, Evaluation, Family, Metric

_REGRET = Metric("regret", "Regret to the optimum", False)

FAMILY = Family(
    name="compression",
    scenario="sysgym.scenarios.schema.compression:CompressionScenario",
    environments=(
        Environment(
            "sysgym/GradCompress-v0", "sysgym.envs.compression.grad_compress:GradCompress", discount=0.9
        ),
    ),
    evaluation=Evaluation(
        reference="never",
        headline=_REGRET,
        benefit=Metric("gain_over_never", "Gain over no compression", True),
        cost=_REGRET,
        metrics_entry="sysgym.envs.compression.metrics:EPISODE_METRICS",
        leading=("regret", "gain_over_never", "changes"),
        average="mean",
    ),
    surveys={"compression": "sysgym.envs.compression.survey:pages"},
    agents="sysgym.agents.compression:AGENTS",
    disturbances=Disturbances(noise=True),
    describe="sysgym.envs.compression.show:in_words",
    draw="sysgym.envs.compression.show:draw",
    live="sysgym.envs.compression.live:live_view",
)
