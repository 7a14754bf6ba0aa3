"""Pictures and texts of a training run: conditions and methods over time, and the cost model at present."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sysgym.emulator.compression.run import TrainingRun
from sysgym.emulator.compression.times import N_METHODS, FloatArray, Job, iteration_times_s
from sysgym.envs.pictures import Picture, new_figure, pixels

LABELS = (
    "none",
    "16 bits",
    *(f"PowerSGD {rank}" for rank in (1, 4, 8, 16)),
    "Top-K 1 %",
    "Top-K 10 %",
    "sign",
)
"""Short name of each method."""

COLOURS = ("#202020", "#56b4e9", "#b8e0d2", "#009e73", "#0b6e4f", "#06402e", "#e69f00", "#d55e00", "#cc79a7")
"""Colour of each method: no compression dark, PowerSGD green, Top-K orange."""

BAR_WIDTH = 40


def text(title: str, run: TrainingRun) -> str:
    """Return the run in words, and a bar for the expected time of each method."""
    now, conditions = run.now, run.conditions
    times_s = run.times_s[now - 1] if now else present_times_s(run)
    lines = [
        f"{title}: {heading(run)}",
        f"{conditions.goodput_bps[now] / 1e9:.2f} Gbit/s of {conditions.bandwidth_bps[now] / 1e9:.2f}, "
        f"{conditions.workers[now]} workers, {run.changes} changes",
    ]
    longest_s = times_s.max()
    for method in range(N_METHODS):
        bar = ("#" * max(round(times_s[method] / longest_s * BAR_WIDTH), 1)).ljust(BAR_WIDTH)
        mark = ">" if method == run.method else " "
        lines.append(f"{mark} {LABELS[method]:<11} |{bar}| {1e3 * times_s[method]:7.1f} ms an iteration")
    return "\n".join(lines) + "\n"


def heading(run: TrainingRun) -> str:
    """Return progress and time in words."""
    share = max(run.progress, 0.0) / run.training.iterations
    done = f"{100 * share:.1f} % of the job after {run.time_s:.0f} s"
    if run.now == 0:
        return done
    ahead = run.progress / run.uncompressed_progress - 1.0
    return f"{done}, {100 * ahead:+.1f} % against no compression"


def picture(title: str, run: TrainingRun) -> Picture:
    """Return a picture, shape (height, width, 3): conditions and methods over time, times by bandwidth."""
    figure = new_figure(12.0, 5.6)
    figure.suptitle(f"{title}: {heading(run)}", fontsize=11)
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1.0))
    _draw_run(left, run)
    now, conditions = run.now, run.conditions
    workers, backward_s = int(conditions.workers[now]), float(conditions.backward_s[now])
    bandwidths_bps = conditions.bandwidth_bps
    ends = (0.7 * bandwidths_bps.min(), 1.4 * bandwidths_bps.max())
    draw_times(right, run.job, workers, backward_s, ends, mark_bps=float(conditions.goodput_bps[now]))
    right.plot(conditions.goodput_bps[now] / 1e9, 1e3 * run.iteration_s, "o", color="black", zorder=5)
    return pixels(figure)


def draw_times(
    axes: Any,
    job: Job,
    workers: int,
    backward_s: float,
    ends_bps: tuple[float, float],
    mark_bps: float | None = None,
) -> None:
    """Draw the time of an iteration against the bandwidth, a curve for each method.

    Args:
        axes: Axes of matplotlib.
        job: The job.
        workers: Number of workers.
        backward_s: Backward pass.
        ends_bps: Least and largest bandwidth.
        mark_bps: Bandwidth of a vertical line.
    """
    bandwidths_bps = np.geomspace(*ends_bps, 200)
    times_s = curves(job, workers, backward_s, bandwidths_bps)
    for method in range(N_METHODS):
        width = 2.4 if method == 0 else 1.6
        axes.plot(bandwidths_bps / 1e9, 1e3 * times_s[:, method], color=COLOURS[method], linewidth=width,
                  label=LABELS[method])  # fmt: skip
    if mark_bps is not None:
        axes.axvline(mark_bps / 1e9, color="#9a9a9a", linestyle="--", linewidth=1.0)
    least_s = times_s.min()
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(800.0 * least_s, 8e3 * least_s)
    axes.set_xlim(*(end / 1e9 for end in ends_bps))
    _mark(axes.xaxis, *axes.get_xlim())
    _mark(axes.yaxis, *axes.get_ylim())
    axes.set_xlabel("bandwidth of a worker's link (Gbit/s)")
    axes.set_ylabel("time of an iteration (ms)")
    axes.set_title(f"cost model, {workers} workers, backward pass {1e3 * backward_s:.0f} ms", fontsize=9)
    # Below the axes, where it hides no curve.
    axes.legend(fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.13), edgecolor="none")
    axes.spines[["top", "right"]].set_visible(False)


def curves(job: Job, workers: int, backward_s: float, bandwidths_bps: FloatArray) -> FloatArray:
    """Return the time of an iteration by bandwidth and method, [n, n methods]."""
    n = len(bandwidths_bps)
    return iteration_times_s(job, bandwidths_bps, np.full(n, workers), np.full(n, backward_s))


def _draw_run(axes: Any, run: TrainingRun) -> None:
    """Draw the goodput over time, coloured by the method in use, and the number of workers."""
    conditions, interval_s = run.conditions, run.interval_s
    shown = conditions.goodput_bps[: run.now + 1] / 1e9
    edges_s = interval_s * (np.arange(len(shown) + 1) - 1.0)
    axes.stairs(shown, edges_s, color="#9a9a9a", linewidth=1.0)
    floor = 0.7 * conditions.goodput_bps.min() / 1e9
    for method in range(N_METHODS):
        used = np.array([one.method == method for one in run.windows], bool)
        if used.any():
            at = np.flatnonzero(used)
            axes.bar(edges_s[at + 1], shown[at + 1] - floor, interval_s, bottom=floor, align="edge",
                     color=COLOURS[method], label=LABELS[method])  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(floor, 1.3 * conditions.goodput_bps.max() / 1e9)
    _mark(axes.yaxis, *axes.get_ylim())
    axes.set_xlim(-interval_s, max(run.optimum.finish_s, run.time_s) * 1.05)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("goodput of a worker's link (Gbit/s)")
    workers = conditions.workers[: run.now + 1]
    counts = f"{workers[-1]} workers" + (f" ({workers.min()} to {workers.max()})" if np.ptp(workers) else "")
    axes.set_title(f"method in use by colour; {counts}; {run.changes} changes", fontsize=9)
    if run.windows:
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=5, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _mark(axis: Any, low: float, high: float) -> None:
    """Mark 1, 2, 5, 10, ... on a logarithmic axis."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    marks = [mark for mark in marks if low <= mark <= high]
    axis.set_ticks(marks, [f"{mark:g}" for mark in marks])
    axis.set_ticks([], minor=True)


def present_times_s(run: TrainingRun) -> FloatArray:
    """Return the expected time of an iteration by each method at present, s, shape (n_methods,)."""
    now = slice(run.now, run.now + 1)
    conditions = run.conditions
    times_s: FloatArray = iteration_times_s(
        run.job, conditions.goodput_bps[now], conditions.workers[now], conditions.backward_s[now]
    )
    return np.asarray(times_s[0])
