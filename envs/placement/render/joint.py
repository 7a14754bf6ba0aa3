"""Candidates as points: nominal against measured time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.candidates import Candidate
from sysgym.emulator.accelerators.problem import PlacementProblem
from sysgym.emulator.accelerators.step_times import StepTimes
from sysgym.envs.pictures import Picture, new_figure, pixels
from sysgym.envs.placement.metrics import Outcome
from sysgym.envs.placement.render.common import (
    BOUND,
    GOOD,
    INK,
    LEVEL_COLOURS,
    axes_words,
    compared,
    plural,
    system,
    time,
    time_scale,
    wrapped,
)

ROWS_IN_TEXT = 12
LEAST_ROWS_IN_PICTURE = 24
"""Number of rows that every picture has room for; with a large budget there is room for more."""

MOST_LABEL = 64


@dataclass(frozen=True)
class JointScene:
    """Data to draw.

    Attributes:
        title: Name of the scenario.
        problem: The problem.
        candidates: Candidates in the order of the rows.
        times: Components of their nominal times, in the same order.
        measured_s: Measured times of each candidate.
        budget: Largest number of measurements.
        most_candidates: Largest number of candidates in any episode.
        most_budget: Largest budget of any episode.
        committed: Row of the chosen candidate; None before.
        true_s: Expected times after the end of the episode; None before.
        outcome: Outcome of the episode; None while it is in progress.
    """

    title: str
    problem: PlacementProblem
    candidates: tuple[Candidate, ...]
    times: StepTimes
    measured_s: tuple[tuple[float, ...], ...]
    budget: int
    most_candidates: int
    most_budget: int
    committed: int | None
    true_s: NDArray[np.float64] | None
    outcome: Outcome | None

    @property
    def heading(self) -> str:
        """One-line description of the problem."""
        return f"{self.title}: {axes_words(self.problem.axes)} on {system(self.problem)}"

    @property
    def verdict(self) -> list[str]:
        """One or two lines on the state of the episode."""
        taken = sum(map(len, self.measured_s))
        candidates = plural("candidate", len(self.times))
        words = f"{len(self.times)} {candidates}, {taken} of {self.budget} measurements taken"
        if self.outcome is None:
            return [words]
        if not self.outcome.valid:
            return [words, f"not valid: counts as the default, {time(self.outcome.time_s)}"]
        default, best = time(self.outcome.default_time_s), time(self.outcome.best_time_s)
        time_s = self.outcome.time_s
        against = compared(time_s, self.outcome.default_time_s, f"the default ({default})")
        short_of = compared(time_s, self.outcome.best_time_s, f"the best ({best})")
        return [words, f"chosen: {time(time_s)}, {against}, {short_of}"]


def joint_text(scene: JointScene) -> str:
    """Return a few lines: the state of the episode, and the most promising candidates."""
    nominal_s = scene.times.nominal_s
    estimate_s = np.array(
        [
            np.mean(times) if times else nominal
            for times, nominal in zip(scene.measured_s, nominal_s, strict=True)
        ]
    )
    lines = [scene.heading, *(f"  {line}" for line in scene.verdict), "  row    nominal   measured"]
    order = np.argsort(estimate_s, kind="stable")
    measured = [bool(scene.measured_s[row]) for row in order]
    shown = [*order[np.flatnonzero(measured)], *order[np.flatnonzero(~np.array(measured, bool))]]
    if scene.committed is not None and scene.committed not in shown[:ROWS_IN_TEXT]:
        shown.remove(scene.committed)
        shown.insert(ROWS_IN_TEXT - 1, np.int64(scene.committed))
    for row in shown[:ROWS_IN_TEXT]:
        times = scene.measured_s[row]
        words = f"{time(float(np.mean(times))):>8} in {len(times)}" if times else "       -"
        truth = "" if scene.true_s is None else f"   truly {time(float(scene.true_s[row]))}"
        chosen = "   <- chosen" if row == scene.committed else ""
        lines.append(f"  {row:>3}   {time(float(nominal_s[row])):>8}   {words}{truth}{chosen}")
    if len(shown) > ROWS_IN_TEXT:
        left = len(shown) - ROWS_IN_TEXT
        lines.append(f"  and {left} more {plural('candidate', left)}")
    return "\n".join(lines) + "\n"


def joint_picture(scene: JointScene) -> Picture:
    """Return a picture, shape (height, width, 3), with a row per candidate, nominally fastest on top.

    If there are many candidates, only measured ones, the chosen one, the best and as many of the first ones
    as there is room for are drawn. The size is the same in all episodes.
    """
    rows = _drawn_rows(scene)
    figure = new_figure(11.0, 2.4 + 0.24 * _room(scene))
    figure.suptitle(wrapped([scene.heading, *scene.verdict], 11.0, 11), fontsize=11)
    axes = figure.subplots()
    nominal_s = scene.times.nominal_s
    measured = [row for row in rows if scene.measured_s[row]]
    everything = [*nominal_s[rows], *(one for row in measured for one in scene.measured_s[row])]
    if scene.true_s is not None:
        everything += scene.true_s[rows].tolist()
    low_s, high_s = max(min(everything), 1e-9), max(everything)
    scale, unit = time_scale(max((low_s * high_s) ** 0.5, 1e-9))
    height = {row: y for y, row in enumerate(rows)}
    handles: dict[str, Any] = {}
    handles["by the data sheet"] = axes.plot(
        nominal_s[rows] / scale, range(len(rows)), "|", color=INK, markersize=11, markeredgewidth=2, zorder=3
    )[0]
    levels = scene.problem.hierarchy.levels
    bound = scene.times.level_shares.argmax(axis=1)
    for level in sorted({int(bound[row]) for row in measured}):
        some = [row for row in measured if bound[row] == level]
        handles[f"measured, {levels[level].name} links bind"] = axes.errorbar(
            [float(np.mean(scene.measured_s[row])) / scale for row in some],
            [height[row] for row in some],
            xerr=[_spread(scene.measured_s[row]) / scale for row in some],
            fmt="o", color=LEVEL_COLOURS[level % len(LEVEL_COLOURS)], markersize=6.5, capsize=3,
            linewidth=1.5, zorder=4,
        )  # fmt: skip
    if scene.true_s is not None:
        true = scene.true_s[rows] / scale
        handles["true expected time"] = axes.plot(
            true, range(len(rows)), "x", color=INK, markersize=6, zorder=5
        )[0]
        best = int(np.argmin(scene.true_s))
        handles["the best"] = axes.plot(
            scene.true_s[best] / scale, height[best], "s", markersize=14, fillstyle="none", color=GOOD,
            markeredgewidth=2, zorder=6,
        )[0]  # fmt: skip
        if scene.committed is not None:
            handles["chosen"] = axes.plot(
                scene.true_s[scene.committed] / scale, height[scene.committed], "o", markersize=17,
                fillstyle="none", color=BOUND, markeredgewidth=2, zorder=6,
            )[0]  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(low_s / scale / 1.12, high_s / scale * 1.12)
    _plain_ticks(axes.xaxis, high_s / low_s)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [_label(scene, row) for row in rows], fontsize=7.5)
    axes.tick_params(axis="y", length=0)
    left_out = len(scene.times) - len(rows)
    more = f";  {left_out} more {plural('candidate', left_out)} not drawn" if left_out else ""
    axes.set_xlabel(f"time ({unit});  error bars: standard error;  (n): measured n times{more}", fontsize=9)
    axes.set_title(
        "to the left: row: where each axis lies; collectives of each reduction", fontsize=9, loc="left"
    )
    axes.grid(axis="x", color="#e4e4e4", which="both", linewidth=0.7)
    axes.grid(axis="y", color="#f1f1f1", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=3, fontsize=9, frameon=False,
        labelspacing=0.9,
    )  # fmt: skip
    return pixels(figure)


def _drawn_rows(scene: JointScene) -> list[int]:
    order = np.argsort(scene.times.nominal_s, kind="stable").tolist()
    wanted = {row for row in order if scene.measured_s[row]}
    if scene.true_s is not None:
        wanted.add(int(np.argmin(scene.true_s)))
    if scene.committed is not None:
        wanted.add(scene.committed)
    others = [row for row in order if row not in wanted]
    wanted.update(others[: _room(scene) - len(wanted)])
    return [row for row in order if row in wanted]


def _room(scene: JointScene) -> int:
    """Return the largest number of rows: all measured candidates, the chosen one and the best fit."""
    return min(scene.most_candidates, max(scene.most_budget + 2, LEAST_ROWS_IN_PICTURE))


def _label(scene: JointScene, row: int) -> str:
    one = scene.candidates[row]
    matrix = " ".join("x".join(map(str, axis)) for axis in one.matrix)
    programs = ", ".join("-".join(step.collective for step in program) or "none" for program in one.programs)
    times = len(scene.measured_s[row])
    words = f"{row}:  {matrix};  {programs}"
    if len(words) > MOST_LABEL:
        words = f"{words[: MOST_LABEL - 3]}..."
    return words + (f"  ({times})" if times else "")


def _spread(times_s: tuple[float, ...]) -> float:
    """Return the standard error of a mean; 0 for a single measurement."""
    return float(np.std(times_s, ddof=1)) / len(times_s) ** 0.5 if len(times_s) > 1 else 0.0


def _plain_ticks(axis: Any, ratio: float) -> None:
    """Format ticks as plain numbers, even where the axis spans less than a decade."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    subs = (1.0, 2.0, 5.0) if ratio > 8.0 else tuple(float(one) for one in range(1, 10))
    axis.set_major_locator(LogLocator(subs=subs, numticks=15) if ratio > 2.0 else _linear())
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _linear() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(6)
