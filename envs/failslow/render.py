"""Pictures and texts of a run: the slowdown, the actions and the faults over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysgym.emulator.failslow.faults import Kind
from sysgym.emulator.failslow.run import Action, FailSlowRun
from sysgym.envs.pictures import Picture, new_figure, pixels

INK = "#404040"
FAULT_COLOURS = {Kind.WORKER: "#d55e00", Kind.STAGE: "#009e73", Kind.LINK: "#0072b2"}
ACTION_COLOURS = {
    Action.REBALANCE: "#009e73",
    Action.MOVE_LAYERS: "#e69f00",
    Action.REROUTE: "#0072b2",
    Action.REPLACE: "#cc79a7",
    Action.CHECKPOINT: "#999999",
    Action.RESTART: "#000000",
}


def action_name(action: Action) -> str:
    """Return an action in words."""
    return action.name.lower().replace("_", " ")


def run_text(title: str, run: FailSlowRun) -> str:
    """Return the state of a run in words."""
    active = run.active(run.time_s)
    done = [window.action for window in run.windows if window.action is not Action.NONE]
    counts = ", ".join(
        f"{sum(one is action for one in done)} x {action_name(action)}" for action in list(Action)[1:]
    )
    return (
        f"{title}: {run.time_s / 3600:.2f} h, {100 * run.progress_s / run.work_s:.1f} % done,"
        f" a step takes {run.slowdown(active):.2f} times as long ({int(active.sum())} faults); {counts}\n"
    )


def run_picture(title: str, run: FailSlowRun) -> Picture:
    """Return a picture of a run, shape (height, width, 3)."""
    figure = new_figure(9.0, 4.8)
    figure.suptitle(run_text(title, run).strip().replace("; ", "\n"), fontsize=9)
    draw_run(figure.subplots(2, 1, sharex=True), run)
    return pixels(figure)


def draw_run(axes: Any, run: FailSlowRun) -> None:
    """Draw slowdown and actions above, faults below, on two axes of matplotlib."""
    above, below = axes
    interval_s = run.scenario.control.interval_s
    hours = interval_s * np.arange(1, len(run.windows) + 1) / 3600.0
    above.step(hours, [window.slowdown for window in run.windows], color=INK, linewidth=1.0, where="pre")
    for hour, window in zip(hours, run.windows, strict=True):
        if window.action is not Action.NONE:
            above.axvline(hour, color=ACTION_COLOURS[window.action], linewidth=1.2, alpha=0.7)
    taken = {window.action for window in run.windows}
    for action, colour in ACTION_COLOURS.items():
        if action in taken:
            above.plot([], [], color=colour, label=action_name(action))
    if taken - {Action.NONE}:
        above.legend(fontsize=7, ncols=4, loc="lower right", bbox_to_anchor=(1.0, 1.0), edgecolor="none")
    above.set_ylabel("step over a healthy one")
    above.set_ylim(bottom=0.9)
    now_s = run.time_s
    for row, (start_s, end_s, kind, _, factor) in enumerate(zip(*run.faults, strict=True)):
        if start_s > now_s:
            break
        colour = FAULT_COLOURS[Kind(int(kind))]
        seen_s = min(end_s, now_s) - start_s
        below.barh(row, seen_s / 3600.0, left=start_s / 3600.0, height=0.8, color=colour)
        below.text(start_s / 3600.0, row, f"{factor:.1f} ", fontsize=6, ha="right", va="center")
    below.set_ylabel("faults")
    below.set_yticks([])
    below.set_xlabel("time (h); slow workers orange, stages green, links blue, with their factors")
    below.set_xlim(0.0, max(now_s, interval_s) / 3600.0)
    for one in (above, below):
        one.spines[["top", "right"]].set_visible(False)
