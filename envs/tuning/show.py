"""Description of a tuning scenario in words, and its picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sysgym.emulator.tuning.job import Profile, Truth, draw_job
from sysgym.emulator.tuning.plans import bucket_time_s, by_need, fused, in_order, pytorch_default
from sysgym.emulator.tuning.timing import Plan, step_of
from sysgym.envs.pictures import new_figure, write_picture
from sysgym.envs.tuning.render import TuningScene, draw_step
from sysgym.scenarios.schema.tuning import TuningScenario


def in_words(scenario: TuningScenario) -> Iterator[tuple[str, str]]:
    """Yield the heading and text of each paragraph."""
    profile, truth = _job(scenario)
    total_bytes = float(profile.gradient_bytes.sum())
    yield (
        "Job",
        f"{scenario.job.model}: {len(profile.forward_s)} layers, {total_bytes / 1e6:.0f} MB of gradients,"
        f" {profile.n_workers} workers, {1e3 * profile.compute_s:.1f} ms of computing,"
        f" {1e3 * bucket_time_s(profile, total_bytes):.1f} ms for one bucket.",
    )
    parts = [
        f"{name} {1e3 * step_of(plan, profile, truth).time_s:.1f} ms"
        for name, plan in _plans(profile).items()
    ]
    yield "Steps of the first test seed", "; ".join(parts) + "."
    yield (
        "Budget",
        f"{scenario.control.episode_steps} changes, at most {scenario.control.most_buckets} buckets.",
    )


def draw(scenario: TuningScenario, path: Path) -> None:
    """Draw the steps of the first test seed under four plans into a file.

    Raises:
        SysgymError: If the format is unknown, or the file cannot be written.
    """
    profile, truth = _job(scenario)
    figure = new_figure(9.0, 7.0, dpi=120)
    for axes, (name, plan) in zip(figure.subplots(4, 1, sharex=True), _plans(profile).items(), strict=True):
        step = step_of(plan, profile, truth)
        draw_step(axes, TuningScene(scenario.name, plan, profile, step, step.time_s, step.time_s))
        axes.set_title(f"{name}: {1e3 * step.time_s:.1f} ms, {len(plan.ends)} in all", fontsize=10)
        axes.set_xlabel("")
    axes.set_xlabel("time (ms); computing waits where it is red")
    axes.set_xlim(0.0, 1e3 * max(step_of(plan, profile, truth).time_s for plan in _plans(profile).values()))
    write_picture(figure, path)


def _job(scenario: TuningScenario) -> tuple[Profile, Truth]:
    seed = scenario.splits["test"].first_seed
    return draw_job(scenario.draw("test", seed), seed)


def _plans(profile: Profile) -> dict[str, Plan]:
    return {
        "one bucket": in_order((len(profile.forward_s),)),
        "25 MiB": pytorch_default(profile),
        "25 MiB, first layers first": by_need(pytorch_default(profile)),
        "exact fusion": fused(profile),
    }
