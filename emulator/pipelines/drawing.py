"""The job of an episode."""

from __future__ import annotations

from sysgym.emulator.pipelines.generated import generated_job
from sysgym.emulator.pipelines.job import Pipeline, Truth
from sysgym.emulator.pipelines.recorded import recorded_job
from sysgym.scenarios.schema.pipelines import PipelineScenario


def draw_job(scenario: PipelineScenario, episode_seed: int) -> tuple[Pipeline, Truth]:
    """Return the job of an episode, and what its profile leaves out.

    Args:
        scenario: The drawn scenario.
        episode_seed: Seed of lengths and factors; of a recorded job it tells the step.

    Raises:
        TraceError: If the scenario's trace cannot be used.
    """
    return (recorded_job if scenario.job.trace else generated_job)(scenario, episode_seed)
