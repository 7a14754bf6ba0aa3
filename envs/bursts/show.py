"""Description of a scenario of burst-parallel training in words, and its picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sysgym.emulator.bursts.layers import draw_layers, step_times_s
from sysgym.emulator.bursts.planning import plan_cost, published_plan
from sysgym.envs.bursts.render import draw_plan, plan_heading
from sysgym.envs.pictures import new_figure, write_picture
from sysgym.scenarios.schema.bursts import BurstScenario

LIMITS = (1.25, 1.5, 2.0, 3.0)


def in_words(scenario: BurstScenario) -> Iterator[tuple[str, str]]:
    """Yield the heading and text of each paragraph."""
    job, background, control = scenario.job, scenario.background, scenario.control
    yield "Job", f"{job.model}, {job.batch} samples an iteration, on up to {job.gpus} GPUs of one network."
    layers, _ = draw_layers(scenario, scenario.splits["test"].first_seed)
    steps_s = step_times_s(layers, scenario)
    parts = []
    for limit in LIMITS:
        cost = plan_cost(published_plan(layers, steps_s, limit), layers, steps_s)
        parts.append(
            f"{limit:g}: {1e3 * cost.iteration_s:.1f} ms, {100 * cost.idle_share(job.gpus):.0f} % idle"
        )
    yield "Plans of the first test seed, by amplification limit", "; ".join(parts) + "."
    if scenario.env_id.endswith("BurstMux-v0"):
        yield (
            "Background",
            f"Pieces of up to {1e3 * background.piece_s:g} ms"
            f" beside the plan of limit {background.plan_limit:g};"
            f" the foreground may become {background.most_slowdown:g} times slower.",
        )
        yield (
            "Decisions",
            f"One every {1e3 * control.interval_s:g} ms, {control.episode_steps} in an episode.",
        )
    else:
        yield "Decisions", f"One for each of {len(layers.compute_s)} layers."


def draw(scenario: BurstScenario, path: Path) -> None:
    """Draw the planner's plans of the first test seed, by amplification limit, into a file.

    Raises:
        SysgymError: If the format is unknown, or the file cannot be written.
    """
    layers, _ = draw_layers(scenario, scenario.splits["test"].first_seed)
    steps_s = step_times_s(layers, scenario)
    figure = new_figure(9.0, 6.4, dpi=120)
    figure.suptitle(
        f"{scenario.job.model} on {scenario.job.gpus} GPUs, batch {scenario.job.batch}", fontsize=11
    )
    for axes, limit in zip(figure.subplots(2, 2, sharey=True).flat, LIMITS, strict=True):
        plan = published_plan(layers, steps_s, limit)
        draw_plan(axes, plan, layers, steps_s)
        words = plan_heading(plan, layers, steps_s).split(", ", 1)[1]
        axes.set_title(f"amplification limit {limit:g}: {words}", fontsize=9)
    write_picture(figure, path)
