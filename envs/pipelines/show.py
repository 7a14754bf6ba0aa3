"""Description of a scenario of pipelines in words, and its picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sysgym.emulator.pipelines.balancing import balanced_ranks, balanced_stages
from sysgym.emulator.pipelines.drawing import draw_job
from sysgym.emulator.pipelines.job import as_thought
from sysgym.emulator.pipelines.plans import first_plan, memory_bytes, step_time_s
from sysgym.envs.pictures import new_figure, write_picture
from sysgym.envs.pipelines.render import draw_step
from sysgym.scenarios.schema.pipelines import PipelineScenario


def in_words(scenario: PipelineScenario) -> Iterator[tuple[str, str]]:
    """Yield the heading and text of each paragraph."""
    seed = scenario.splits["test"].first_seed
    drawn = scenario.draw("test", seed)
    pipeline, truth = draw_job(drawn, seed)
    job = pipeline.scenario.job
    first = first_plan(pipeline)
    model = (
        f"a step of {job.trace}"
        if job.trace
        else f"{job.blocks} blocks of size {job.hidden},"
        f" {pipeline.layers.parameters.sum() / 1e9:.1f} billion parameters"
    )
    yield (
        "Job of the first test seed",
        f"{model}; {job.stages} stages, {job.data_ranks} data-parallel ranks,"
        f" {job.microbatches} microbatches each.",
    )
    if not job.trace:
        memory = ", ".join(f"{one / 1e9:.0f}" for one in memory_bytes(pipeline, first))
        yield "Memory", f"{memory} GB by stage, of {drawn.machine.memory_bytes / 1e9:g}."
    plans = {
        "as it comes": first,
        "stages balanced": balanced_stages(pipeline, first),
        "microbatches balanced": balanced_ranks(pipeline, first),
        "both": balanced_ranks(pipeline, balanced_stages(pipeline, first)),
    }
    told = [
        f"{1e3 * step_time_s(pipeline, plan, as_thought(pipeline)):.0f} ms by the profile"
        f" ({1e3 * step_time_s(pipeline, plan, truth):.0f} ms in truth) {name}"
        for name, plan in plans.items()
    ]
    yield "Step", "; ".join(told) + "."
    yield "Budget", f"{scenario.control.episode_steps} changes."


def draw(scenario: PipelineScenario, path: Path) -> None:
    """Draw a step of the first test job before and after balancing into a file.

    Raises:
        SysgymError: If the format is unknown, or the file cannot be written.
    """
    seed = scenario.splits["test"].first_seed
    pipeline, truth = draw_job(scenario.draw("test", seed), seed)
    first = first_plan(pipeline)
    plans = {
        "equal numbers of layers, microbatches as they come": first,
        "microbatches: longest first, to the least loaded rank": balanced_ranks(pipeline, first),
    }
    figure = new_figure(10.0, 6.4, dpi=120)
    above, below = figure.subplots(2, 1, sharex=True)
    for axes, (name, plan) in zip((above, below), plans.items(), strict=True):
        draw_step(axes, pipeline, plan, truth)
        time_ms = 1e3 * step_time_s(pipeline, plan, truth)
        axes.set_title(f"{name}: {time_ms:.0f} ms a step", fontsize=10)
    above.set_xlabel("")
    above.set_xlim(0.0, 1.02e3 * step_time_s(pipeline, first, truth))
    write_picture(figure, path)
