"""Description of a scenario of fail-slow faults in words, and its picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sysgym.emulator.failslow.run import Action, FailSlowRun
from sysgym.envs.failslow.render import draw_run
from sysgym.envs.pictures import new_figure, write_picture
from sysgym.scenarios.schema.failslow import FailSlowScenario


def in_words(scenario: FailSlowScenario) -> Iterator[tuple[str, str]]:
    """Yield the heading and text of each paragraph."""
    job, faults, actions = scenario.job, scenario.faults, scenario.actions
    yield (
        "Job",
        (
            f"Steps of the trace {job.trace};"
            if job.trace
            else f"{job.replicas} replicas of {job.stages} stages, {job.microbatches} microbatches each;"
            f" {job.blocks} blocks of hidden size {job.hidden};"
        )
        + f" {job.healthy_hours:g} h without faults, a checkpoint every {job.checkpoint_s / 60:g} min.",
    )
    yield (
        "Faults",
        f"{faults.worker_per_hour:g} slow workers an hour for {faults.worker_mean_s / 60:g} min on average,"
        f" {faults.stage_per_hour:g} slow stages for {faults.stage_mean_s / 60:g} min,"
        f" {faults.link_per_hour:g} slow links for {faults.link_mean_s / 60:g} min.",
    )
    yield (
        "Pauses",
        f"{actions.rebalance_s:g} s to move microbatches, {actions.move_layers_s:g} s to move layers,"
        f" {actions.reroute_s:g} s to move traffic, {actions.replace_s:g} s to replace a worker,"
        f" {actions.checkpoint_s:g} s for a checkpoint, {actions.restart_s:g} s to restart.",
    )


def draw(scenario: FailSlowScenario, path: Path) -> None:
    """Draw the first test episode without any action into a file.

    Raises:
        SysgymError: If the format is unknown, or the file cannot be written.
    """
    seed = scenario.splits["test"].first_seed
    run = FailSlowRun(scenario.draw("test", seed), seed)
    while not run.finished and len(run.windows) < scenario.control.episode_steps:
        run.step(Action.NONE)
    figure = new_figure(9.0, 5.0, dpi=120)
    delay = run.time_s / run.work_s - 1.0
    figure.suptitle(f"{scenario.name}, without any action: {100 * delay:.0f} % late", fontsize=11)
    draw_run(figure.subplots(2, 1, sharex=True), run)
    write_picture(figure, path)
