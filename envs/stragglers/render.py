"""Rendering of an episode: tasks as bars, flags, and the true stragglers, which agents do not see."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.execution import Execution
from sysgym.emulator.cluster.job import BoolArray, FloatArray
from sysgym.envs.pictures import new_figure, pixels
from sysgym.envs.stragglers.metrics import Flags

TASKS_IN_TEXT = 12
BAR_WIDTH = 32
MOST_ROWS_APART = 60
"""Number of rows above which they are drawn without gaps."""

# Stragglers and others, finished and running; colours safe for colour-blind readers.
_STRAGGLER_COLOURS = ("#f2bd84", "#d55e00")
_OTHER_COLOURS = ("#b5cde4", "#0072b2")
_REST_COLOUR = "#ececec"
_KILLED_COLOUR = "#8c8c8c"
# Shapes distinguish the cases without colour.
_MARKS = {"hit": ("^", "#007a3d"), "late": ("v", "white"), "false": ("X", "#c1121f")}
_TIME_UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True)
class Scene:
    """Data to draw.

    Attributes:
        title: Name of the scenario.
        flags: Flags, or first actions, compared with the true stragglers.
        world: Execution of the job.
        checkpoint: Number of decisions taken.
        verb: Verb for an action on a task: ``"flagged"`` or ``"acted on"``.
    """

    title: str
    flags: Flags
    world: Execution
    checkpoint: int
    verb: str = "flagged"

    @cached_property
    def stragglers(self) -> NDArray[np.int64]:
        """Stragglers, longest last."""
        return self._sorted(self.flags.stragglers)

    @cached_property
    def others(self) -> NDArray[np.int64]:
        """The other tasks, longest last."""
        return self._sorted(~self.flags.stragglers)

    @property
    def caption(self) -> str:
        """One-line description of the state of the job."""
        finished = int(np.isfinite(self.world.finish_s).sum())
        job, now_s = self.flags.job, min(self.world.now_s, self.world.completion_s)
        state = "completed at" if self.world.done else "at"
        return (
            f"{self.title}, job {job.name}: {state} {_time(now_s)}, decision {self.checkpoint}, "
            f"{finished} of {job.n_tasks} tasks finished"
        )

    @property
    def straggler_line(self) -> str:
        """One-line description of the stragglers."""
        flags = self.flags
        hit, late, all_of_them = (int(x.sum()) for x in (flags.true, flags.late, flags.stragglers))
        return (
            f"{_count(all_of_them, 'straggler')}: {hit} {self.verb} in time, {late} too late, "
            f"{all_of_them - hit - late} not {self.verb}"
        )

    @property
    def other_line(self) -> str:
        """One-line description of the other tasks."""
        return f"{_count(len(self.others), 'other task')}: {int(self.flags.false.sum())} {self.verb} falsely"

    def _sorted(self, which: BoolArray) -> NDArray[np.int64]:
        tasks = np.flatnonzero(which)
        return tasks[np.argsort(self.flags.job.latency_s[tasks], kind="stable")]


def text(scene: Scene) -> str:
    """Return a few lines: the state of the job, the score so far, and the longest-running tasks."""
    flags, world = scene.flags, scene.world
    job, threshold_s = flags.job, flags.threshold_s
    lines = [scene.caption, f"  {scene.straggler_line}", f"  {scene.other_line}"]
    if world.relaunches or world.copies:
        lines.append(
            f"  {_count(world.relaunches, 'relaunch', 'es')}, {_count(world.copies, 'cop', 'ies', 'y')}, "
            f"{_time(world.wasted_s)} of machine time wasted"
        )
    running = np.flatnonzero(np.isnan(world.finish_s) & (job.start_s <= world.now_s))
    if len(running) == 0:
        return "\n".join(lines) + "\n"
    elapsed_s = world.now_s - job.start_s
    running = running[np.lexsort((running, -elapsed_s[running], -job.latency_s[running]))]
    lines.append(
        f"running tasks, those first that would end last (full bar: the threshold, {_time(threshold_s)})"
    )
    for task in running[:TASKS_IN_TEXT]:
        kind = "straggler" if flags.stragglers[task] else "other"
        lines.append(
            f"  {task:>6}  {_bar(elapsed_s[task] / threshold_s)} {_time(elapsed_s[task]):>9}  {kind:<9}  "
            f"{_verdict(scene, int(task))}"
        )
    if len(running) > TASKS_IN_TEXT:
        lines.append(f"  and {_count(len(running) - TASKS_IN_TEXT, 'more running task')}")
    return "\n".join(lines) + "\n"


def picture(scene: Scene) -> NDArray[np.uint8]:
    """Return the job so far as a picture, shape (height, width, 3): stragglers above, other tasks below."""
    figure = new_figure(9.0, 7.0)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    figure.suptitle(scene.caption, fontsize=11)
    job = scene.flags.job
    scale, unit = _scale(float(job.latency_s.max()))
    for axes, tasks, colours, heading in (
        (above, scene.stragglers, _STRAGGLER_COLOURS, scene.straggler_line),
        (below, scene.others, _OTHER_COLOURS, scene.other_line),
    ):
        _draw_tasks(axes, scene, tasks, colours, scale)
        axes.set_title(heading, fontsize=10, loc="left", pad=14)
        axes.set_ylabel("slowest on top")
        axes.set_yticks([])
        axes.set_ylim(-0.5, max(len(tasks), 1) - 0.5)
        axes.axvline(scene.flags.threshold_s / scale, color="black", linestyle="--", linewidth=1.2)
        axes.spines[["top", "right"]].set_visible(False)
    _label(above, scene.flags.threshold_s / scale, "threshold")
    if not scene.world.done:
        _label(above, scene.world.now_s / scale, "now")
    below.set_xlabel(f"time since the task's start ({unit})")
    below.set_xlim(0.0, 1.03 * max(_longest_s(scene), scene.flags.threshold_s) / scale)
    handles, labels = _legend(scene, f"threshold, {scene.flags.threshold_s / scale:.3g} {unit}")
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return pixels(figure)


def _draw_tasks(
    axes: Any, scene: Scene, tasks: NDArray[np.int64], colours: tuple[str, str], scale: float
) -> None:
    world, flags = scene.world, scene.flags
    job = flags.job
    start_s, rows = job.start_s[tasks], np.arange(len(tasks), dtype=np.float64)
    begin_s, over_s = (times[tasks] for times in world.history())
    finish_s = world.finish_s[tasks]
    now_s = min(world.now_s, world.completion_s)
    thickness = 1.0 if len(rows) > MOST_ROWS_APART else 0.84
    _bars(axes, rows, 0.0, job.latency_s[tasks] / scale, _REST_COLOUR, None, thickness)
    for attempt in range(job.n_attempts):
        begun = np.isfinite(begin_s[:, attempt])
        end_s = np.where(np.isnan(over_s[:, attempt]), now_s, over_s[:, attempt])
        alive = begun & np.isnan(over_s[:, attempt])
        # Of the attempts that ended with the task, the one that ran for its full duration finished it.
        full = np.isclose(end_s - begin_s[:, attempt], job.duration_s[tasks, attempt], rtol=1e-9)
        won = begun & ~alive & (over_s[:, attempt] == finish_s) & full
        copied = begun & (attempt > 0)
        copied &= (over_s[:, max(attempt - 1, 0)] > begin_s[:, attempt]) | np.isnan(
            over_s[:, max(attempt - 1, 0)]
        )
        height = thickness * np.where(copied, 0.4, 1.0)
        for which, colour, hatch in (
            (begun & ~alive & ~won, _KILLED_COLOUR, "////"),
            (won, colours[0], None),
            (alive, colours[1], None),
        ):
            left, right = ((x[which] - start_s[which]) / scale for x in (begin_s[:, attempt], end_s))
            _bars(axes, rows[which], left, right, colour, hatch, height[which])
    if not world.done and len(tasks):
        now = np.clip(now_s - start_s, 0.0, None) / scale
        axes.step(now, rows, where="mid", color="black", linewidth=1.0, linestyle=":")
    for name, which in (("false", flags.false), ("late", flags.late), ("hit", flags.true)):
        marked = which[tasks]
        marker, colour = _MARKS[name]
        axes.scatter(
            (flags.raised_s[tasks][marked] - start_s[marked]) / scale,
            rows[marked],
            marker=marker,
            s=42,
            c=colour,
            edgecolors="black",
            linewidths=0.7,
            zorder=5,
            clip_on=False,
        )


def _label(axes: Any, x: float, name: str) -> None:
    """Label a vertical line at its upper end."""
    transform = axes.get_xaxis_transform()
    axes.annotate(name, (x, 1.0), xycoords=transform, xytext=(2, 1), textcoords="offset points", fontsize=8)


def _bars(
    axes: Any,
    rows: FloatArray,
    left: FloatArray | float,
    right: FloatArray,
    colour: str,
    hatch: str | None = None,
    height: FloatArray | float = 1.0,
) -> None:
    """Draw bars from ``left`` to ``right``, a row each; thin ones have an outline for visibility."""
    from matplotlib.collections import PolyCollection

    if len(rows) == 0:
        return
    half = 0.5 * np.broadcast_to(height, rows.shape)
    left = np.broadcast_to(left, rows.shape)
    corners = np.stack(
        [
            np.stack([left, rows - half], axis=1),
            np.stack([right, rows - half], axis=1),
            np.stack([right, rows + half], axis=1),
            np.stack([left, rows + half], axis=1),
        ],
        axis=1,
    )
    bars = PolyCollection(list(corners), facecolors=colour, edgecolors="white")
    bars.set_linewidth([0.8 if thin else 0.0 for thin in half < 0.25])
    if hatch:
        bars.set_hatch(hatch)
    axes.add_collection(bars)


def _legend(scene: Scene, threshold: str) -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[tuple[Any, str]] = []
    for name, colours in (("straggler", _STRAGGLER_COLOURS), ("other", _OTHER_COLOURS)):
        entries.append((Patch(facecolor=colours[0]), f"{name}, finished"))
        if not scene.world.done:
            entries.append((Patch(facecolor=colours[1]), f"{name}, running"))
    if not scene.world.done or scene.world.wasted_s > 0.0:
        entries.append((Patch(facecolor=_REST_COLOUR), "first attempt, left alone"))
    if scene.world.wasted_s > 0.0:
        killed = Patch(facecolor=_KILLED_COLOUR, edgecolor="white", hatch="////")
        entries.append((killed, "killed, or lost against another attempt"))
    labels = {
        "hit": f"{scene.verb} in time",
        "late": f"{scene.verb} too late",
        "false": f"{scene.verb} falsely",
    }
    for name, label in labels.items():
        marker, colour = _MARKS[name]
        mark = Line2D([], [], linestyle="", marker=marker, color=colour, markeredgecolor="black")
        entries.append((mark, label))
    entries.append((Line2D([], [], color="black", linestyle="--"), threshold))
    if not scene.world.done:
        entries.append((Line2D([], [], color="black", linestyle=":"), "now"))
    return [handle for handle, _ in entries], [label for _, label in entries]


def _longest_s(scene: Scene) -> float:
    """Return the end of the longest bar."""
    job, world = scene.flags.job, scene.world
    unfinished = np.isnan(world.finish_s)
    ran_s = np.where(unfinished, np.minimum(world.now_s, world.completion_s), world.finish_s) - job.start_s
    return float(np.maximum(job.latency_s, ran_s).max())


def _verdict(scene: Scene, task: int) -> str:
    flags = scene.flags
    if not flags.flagged[task]:
        return ""
    at = _time(float(flags.raised_s[task] - flags.job.start_s[task]))
    if flags.false[task]:
        return f"x {scene.verb} falsely after {at}"
    return (
        f"^ {scene.verb} in time, after {at}" if flags.true[task] else f"v {scene.verb} too late, after {at}"
    )


def _bar(share: float) -> str:
    full = round(min(max(share, 0.0), 1.0) * BAR_WIDTH)
    return "|" + ("█" * full).ljust(BAR_WIDTH) + "|"


def _count(number: int, noun: str, plural: str = "s", singular: str = "") -> str:
    return f"{number} {noun}{singular if number == 1 else plural}"


def _scale(value_s: float) -> tuple[float, str]:
    # The largest unit with a value of at least three: "0.9 h" is less readable than "54 min".
    return next(((scale, unit) for scale, unit in _TIME_UNITS if value_s >= 3.0 * scale), _TIME_UNITS[-1])


def _time(value_s: float) -> str:
    scale, unit = _scale(value_s)
    return f"{value_s / scale:.3g} {unit}"
