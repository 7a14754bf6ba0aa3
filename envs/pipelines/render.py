"""Pictures and texts of a plan: the computations of all workers in a step, and the memory of the stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sysgym.emulator.pipelines.job import Pipeline, Truth
from sysgym.emulator.pipelines.plans import Plan, loads, memory_bytes, replayed
from sysgym.emulator.training.operations import BACKWARD, FORWARD
from sysgym.envs.pictures import Picture, new_figure, pixels

COLOURS = {FORWARD: "#0072b2", BACKWARD: "#56b4e9"}


@dataclass(frozen=True)
class PipelineScene:
    """Data to draw.

    Attributes:
        title: Name of the scenario.
        pipeline: The job.
        plan: The plan.
        truth: Effects that the profile leaves out.
        first_s: True time of a step at the beginning.
        best_s: Least true time so far.
    """

    title: str
    pipeline: Pipeline
    plan: Plan
    truth: Truth
    first_s: float
    best_s: float

    @property
    def heading(self) -> str:
        """The plan in words."""
        layers = np.diff((0, *self.plan.ends)).tolist()
        stages = f"{' + '.join(map(str, layers))} layers, {sum(self.plan.recompute)} recomputing"
        return (
            f"{self.title}: {self.pipeline.scenario.job.trace or stages};"
            f" a step took {1e3 * self.first_s:.0f} ms at the beginning, {1e3 * self.best_s:.0f} ms at best"
        )


def pipeline_text(scene: PipelineScene) -> str:
    """Return the plan and a line for each stage and data-parallel rank."""
    lines = [scene.heading]
    memory = memory_bytes(scene.pipeline, scene.plan) / 1e9
    for stage, (end, flag, used) in enumerate(
        zip(scene.plan.ends, scene.plan.recompute, memory, strict=True)
    ):
        words = ", recomputes" if flag else ""
        lines.append(f"stage {stage}: layers up to {end - 1}, {used:.1f} GB{words}")
    for rank, load in enumerate(loads(scene.pipeline, scene.plan)):
        lines.append(f"data-parallel rank {rank}: {load:.2f} microbatches of mean length")
    return "\n".join(lines) + "\n"


def pipeline_picture(scene: PipelineScene) -> Picture:
    """Return a picture of a step, shape (height, width, 3)."""
    figure = new_figure(9.5, 4.0)
    figure.suptitle(scene.heading, fontsize=9)
    draw_step(figure.subplots(), scene.pipeline, scene.plan, scene.truth)
    return pixels(figure)


def draw_step(axes: Any, pipeline: Pipeline, plan: Plan, truth: Truth) -> None:
    """Draw the computations of all workers in a step on axes of matplotlib, critical ones with a red edge."""
    step, operations = replayed(pipeline, plan, truth), pipeline.operations
    for kind, colour in COLOURS.items():
        here = operations.kind == kind
        start_ms, took_ms = 1e3 * step.start_s[here], 1e3 * (step.end_s - step.start_s)[here]
        edges = np.where(step.critical[here], "#d55e00", "white")
        widths = np.where(step.critical[here], 1.2, 0.4)
        axes.barh(
            operations.rank[here], took_ms, 0.85, start_ms, color=colour, edgecolor=edges, linewidth=widths
        )
    n_ranks = pipeline.scenario.job.data_ranks
    for border in range(1, pipeline.scenario.job.stages):
        axes.axhline(border * n_ranks - 0.5, color="black", linewidth=0.4)
    axes.set_ylabel("rank (lines between stages)")
    axes.set_xlabel("time (ms): forward dark, backward light, the critical path with red edges")
    axes.set_xlim(0.0, 1e3 * step.step_s)
    axes.set_ylim(len(operations.ranks) - 0.5, -0.5)
    axes.spines[["top", "right"]].set_visible(False)
