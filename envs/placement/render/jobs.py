"""Pictures and text of several jobs on the nodes of one system."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.jobs.contention import JobSystem
from sysgym.emulator.accelerators.jobs.jobs import IntArray
from sysgym.envs.pictures import Picture, new_figure, pixels
from sysgym.envs.placement.metrics import Outcome
from sysgym.envs.placement.render.common import (
    FAINT,
    GROUP_COLOURS,
    plural,
    size,
    text_on,
    time,
    wrapped,
)


@dataclass(frozen=True)
class JobsScene:
    """State of an episode.

    Attributes:
        title: Name of the scenario.
        system: The jobs and the system.
        counts: Blocks of each job on each node.
        most_jobs: Largest number of jobs in any episode.
        slowdowns: Slowdown of each job; None before the end.
        outcome: Outcome; None while the episode is in progress.
    """

    title: str
    system: JobSystem
    counts: IntArray
    most_jobs: int
    slowdowns: NDArray[np.float64] | None
    outcome: Outcome | None

    @property
    def heading(self) -> str:
        """One-line description."""
        jobs, nodes = len(self.system.jobs), self.counts.shape[1]
        inside = self.system.hierarchy.cardinalities[-1]
        where = f"{nodes} {plural('node', nodes)} of {inside} devices ({self.system.hierarchy.name})"
        return f"{self.title}: {jobs} {plural('job', jobs)} on {where}"

    @property
    def verdict(self) -> str:
        """One line on the state of the episode."""
        if self.outcome is None:
            total = sum(job.blocks for job in self.system.jobs)
            return f"{self.counts.sum()} of {total} blocks placed"
        words = f"mean slowdown {self.outcome.time_s:.3f}, of the default {self.outcome.default_time_s:.3f}"
        return words if self.outcome.valid else f"not valid: counts as the default; {words}"

    def job_words(self, row: int) -> str:
        """Return a job in words."""
        job = self.system.jobs[row]
        words = f"job {row}: {job.blocks} x {job.block_devices}, {time(job.compute_s)} compute"
        words += f" ({job.overlap:.0%} overlaps), {size(job.data_bytes)} over blocks"
        if self.slowdowns is not None:
            words += f", slowdown {self.slowdowns[row]:.3f}"
        return words


def jobs_text(scene: JobsScene) -> str:
    """Return a few lines: the state of the episode, the jobs, and their blocks on the nodes."""
    lines = [scene.heading, f"  {scene.verdict}"]
    for row in range(len(scene.system.jobs)):
        where = [f"node {node}: {scene.counts[row, node]}" for node in np.flatnonzero(scene.counts[row])]
        lines.append(f"  {scene.job_words(row)}; {', '.join(where) or 'not placed'}")
    return "\n".join(lines) + "\n"


def jobs_picture(scene: JobsScene) -> Picture:
    """Return a picture, shape (height, width, 3): a column for each node, in it a box for each block."""
    n_jobs, n_nodes = scene.counts.shape
    inside = scene.system.hierarchy.cardinalities[-1]
    figure = new_figure(11.0, 5.0 + 0.2 * scene.most_jobs)  # the same size in all episodes
    figure.suptitle(wrapped([scene.heading, scene.verdict], 11.0, 11), fontsize=11)
    axes = figure.subplots()
    for node in range(n_nodes):
        axes.bar(node, inside, 0.9, color="#f4f4f4", edgecolor=FAINT, linewidth=0.8)
        top = 0
        for row, job in enumerate(scene.system.jobs):
            for _ in range(int(scene.counts[row, node])):
                colour = GROUP_COLOURS[row % len(GROUP_COLOURS)]
                axes.bar(node, job.block_devices, 0.86, bottom=top, color=colour, edgecolor="white")
                middle = top + job.block_devices / 2
                axes.text(node, middle, str(row), ha="center", va="center", color=text_on(colour), fontsize=9)
                top += job.block_devices
    axes.set_xticks(range(n_nodes), [str(node) for node in range(n_nodes)])
    axes.set_xlabel("node; numbers are jobs")
    axes.set_ylabel("devices")
    axes.spines[["top", "right"]].set_visible(False)
    words = "\n".join(scene.job_words(row) for row in range(n_jobs))
    figure.supxlabel(words, fontsize=8.5, ha="left", x=0.02)
    return pixels(figure)
