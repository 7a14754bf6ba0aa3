"""Pictures and texts of a training step: computing above, bucket transfers below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sysgym.emulator.tuning.job import Profile
from sysgym.emulator.tuning.timing import Plan, Step
from sysgym.envs.pictures import Picture, new_figure, pixels

COMPUTE, TRANSFER, WAIT = "#0072b2", "#e69f00", "#d55e00"


@dataclass(frozen=True)
class TuningScene:
    """Data to draw.

    Attributes:
        title: Name of the scenario.
        plan: The plan.
        profile: The job.
        step: Its true times.
        first_s: True time at the beginning.
        best_s: Least true time so far.
    """

    title: str
    plan: Plan
    profile: Profile
    step: Step
    first_s: float
    best_s: float

    @property
    def heading(self) -> str:
        """The plan in words."""
        return (
            f"{self.title}: {len(self.plan.ends)} buckets, {1e3 * self.step.time_s:.1f} ms a step"
            f" (first {1e3 * self.first_s:.1f}, best {1e3 * self.best_s:.1f}),"
            f" {1e3 * self.step.stall_s.sum():.1f} ms of waiting"
        )


def tuning_text(scene: TuningScene) -> str:
    """Return the plan and a line for each bucket."""
    lines = [scene.heading]
    step = scene.step
    start = 0
    for bucket, end in enumerate(scene.plan.ends):
        size = scene.profile.gradient_bytes[start:end].sum() / 1e6
        lines.append(
            f"bucket {bucket:>2}: {end - start:>3} layers, {size:>7.1f} MB,"
            f" number {scene.plan.order[bucket]:>2},"
            f" {1e3 * step.start_s[bucket]:>7.1f} to {1e3 * step.end_s[bucket]:>7.1f} ms"
        )
        start = end
    return "\n".join(lines) + "\n"


def tuning_picture(scene: TuningScene) -> Picture:
    """Return a picture of a step, shape (height, width, 3)."""
    figure = new_figure(9.0, 3.6)
    figure.suptitle(scene.heading, fontsize=10)
    draw_step(figure.subplots(), scene)
    return pixels(figure)


def draw_step(axes: Any, scene: TuningScene) -> None:
    """Draw the two streams of a step on axes of matplotlib."""
    step, end_ms = scene.step, 1e3 * scene.step.time_s
    backward_ms = 1e3 * float(step.ready_s[-1])
    axes.barh(1, backward_ms, left=0.0, height=0.6, color=COMPUTE)
    axes.barh(1, end_ms - backward_ms, left=backward_ms, height=0.6, color=COMPUTE, alpha=0.45)
    axes.text(backward_ms / 2, 1, "backward", color="white", ha="center", va="center", fontsize=9)
    forward_ms = 1e3 * float(scene.profile.forward_s.sum())
    axes.text(end_ms - forward_ms / 2, 1, "forward", ha="center", va="center", fontsize=9)
    for start, stop in zip(1e3 * step.start_s, 1e3 * step.end_s, strict=True):
        axes.barh(0, stop - start, left=start, height=0.6, color=TRANSFER, edgecolor="white", linewidth=0.8)
    for wanted, stall in zip(1e3 * step.wanted_s, 1e3 * step.stall_s, strict=True):
        if stall > 0.0:
            axes.barh(1, stall, left=wanted, height=0.6, color=WAIT)
    axes.set_yticks([0, 1], ["transfers", "computing"])
    axes.set_ylim(-0.6, 1.6)
    axes.set_xlim(0.0, end_ms)
    axes.set_xlabel("time (ms); computing waits where it is red")
    axes.spines[["top", "right"]].set_visible(False)
