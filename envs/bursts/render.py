"""Pictures and texts of a plan, and of windows of background work."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysgym.emulator.bursts.layers import FloatArray, Layers
from sysgym.emulator.bursts.multiplexing import Multiplexing
from sysgym.emulator.bursts.planning import IntArray, by_layer, plan_cost
from sysgym.envs.pictures import Picture, new_figure, pixels

FOREGROUND, BACKGROUND, IDLE = "#0072b2", "#e69f00", "#e8e8e8"


def plan_text(title: str, plan: IntArray, layers: Layers, steps_s: FloatArray) -> str:
    """Return a plan in words, and a row of marks for each GPU: the layers that use it."""
    if not len(plan):
        return f"{title}: no layer has GPUs yet\n"
    lines = [f"{title}: {plan_heading(plan, layers, steps_s)}"]
    for gpu in range(min(int(layers.gpus[-1]), 32)):
        marks = "".join("#" if layers.gpus[one] > gpu else "." for one in plan)
        lines.append(f"GPU {gpu:>2} |{marks.ljust(len(layers.compute_s))}|")
    return "\n".join(lines) + "\n"


def plan_heading(plan: IntArray, layers: Layers, steps_s: FloatArray) -> str:
    """Return time and use of a plan in words."""
    cost = plan_cost(plan, layers, steps_s)
    idle = cost.idle_share(int(layers.gpus[-1]))
    return (
        f"{len(plan)} of {len(layers.compute_s)} layers, {1e3 * cost.iteration_s:.1f} ms,"
        f" {100 * idle:.0f} % of the GPUs' time idle"
    )


def plan_picture(title: str, plan: IntArray, layers: Layers, steps_s: FloatArray) -> Picture:
    """Return a picture of a plan, shape (height, width, 3): GPUs over the time of an iteration."""
    figure, axes = _figure(1)
    if len(plan):
        figure.suptitle(f"{title}: {plan_heading(plan, layers, steps_s)}", fontsize=11)
    else:
        figure.suptitle(f"{title}: no layer has GPUs yet", fontsize=11)
    draw_plan(axes[0], plan, layers, steps_s)
    return pixels(figure)


def draw_plan(axes: Any, plan: IntArray, layers: Layers, steps_s: FloatArray) -> None:
    """Draw which GPUs the layers use over an iteration, on axes of matplotlib."""
    gpus = int(layers.gpus[-1])
    took_s = by_layer(plan, steps_s)
    ends_ms = 1e3 * np.cumsum(took_s)
    end_ms = float(ends_ms[-1]) if len(plan) else 1.0
    axes.axhspan(0, gpus, color=IDLE, zorder=0)
    for end, took, exponent in zip(ends_ms, 1e3 * took_s, plan, strict=True):
        axes.bar(
            end - took,
            layers.gpus[exponent],
            width=took,
            align="edge",
            color=FOREGROUND,
            edgecolor="white",
            linewidth=0.4,
            zorder=2,
        )
    axes.set_xlim(0.0, end_ms)
    axes.set_ylim(0, gpus)
    axes.set_xlabel("time of an iteration (ms)")
    axes.set_ylabel("GPUs in use")
    axes.set_title("layers (blue), one after the other; idle GPUs grey", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def mux_text(title: str, episode: Multiplexing) -> str:
    """Return the windows so far in words."""
    if not episode.windows:
        return f"{title}: {100 * (1 - episode.gaps.busy_share):.0f} % of the GPUs' time idle, no window yet\n"
    last = episode.windows[-1]
    work = f"batch {last.batch}, {last.pieces} outstanding" if last.batch else "no background work"
    return (
        f"{title}: window {len(episode.windows)} of {len(episode.interference)}: {work},"
        f" foreground x{last.slowdown:.3f}, background {100 * last.background:.0f} % of all GPUs,"
        f" idle {100 * last.idle_share:.0f} %\n"
    )


def mux_picture(title: str, episode: Multiplexing) -> Picture:
    """Return a picture of the windows so far, shape (height, width, 3): slowdown above, shares below."""
    figure, (above, below) = _figure(2)
    figure.suptitle(mux_text(title, episode).strip(), fontsize=10)
    interval_s = episode.scenario.control.interval_s
    times_s = interval_s * np.arange(len(episode.windows))
    above.plot(times_s, [one.slowdown for one in episode.windows], color=FOREGROUND, linewidth=1.2)
    limit = episode.scenario.background.most_slowdown
    above.axhline(limit, color="#9a9a9a", linestyle="--", linewidth=1.0)
    above.text(0.0, limit, " limit", fontsize=8, va="bottom", color="#606060")
    above.set_ylabel("slowdown of the foreground")
    background = [100 * one.background for one in episode.windows]
    idle = [100 * one.idle_share for one in episode.windows]
    below.plot(times_s, background, color=BACKGROUND, linewidth=1.2, label="background work")
    below.plot(times_s, idle, color="#606060", linewidth=1.0, label="idle")
    below.set_ylabel("share of all GPUs (%)")
    below.set_xlabel("time (s)")
    below.set_ylim(0, 100)
    below.legend(fontsize=8, loc="upper right", edgecolor="none")
    for axes in (above, below):
        axes.set_xlim(0.0, interval_s * len(episode.interference))
        axes.spines[["top", "right"]].set_visible(False)
    return pixels(figure)


def _figure(rows: int) -> tuple[Any, Any]:
    figure = new_figure(9.0, 4.8)
    return figure, np.atleast_1d(figure.subplots(rows, 1, sharex=True))
