"""Candidates as points: the time by the data sheet against the measured one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.candidates import StepTimes
from sysgym.emulator.accelerators.problem import PlacementProblem
from sysgym.envs.placement.metrics import Outcome
from sysgym.envs.placement.render.common import (
    BOUND,
    FAINT,
    GOOD,
    INK,
    LEVEL_COLOURS,
    Picture,
    axes_words,
    compared,
    new_figure,
    pixels,
    plural,
    system,
    time,
    time_scale,
)

ROWS_IN_TEXT = 12


@dataclass(frozen=True)
class JointScene:
    """What is drawn.

    Attributes:
        title: Name of the scenario.
        problem: The problem.
        times: What the candidates' nominal times are made of, in the order of the rows.
        default_nominal_s: The default's nominal time.
        measured_s: Measured times of each candidate.
        budget: Most measurements.
        committed: The row that was chosen; None before.
        true_s: Expected times, once the episode is over; None before.
        outcome: What the episode came to; None while it goes on.
    """

    title: str
    problem: PlacementProblem
    times: StepTimes
    default_nominal_s: float
    measured_s: tuple[tuple[float, ...], ...]
    budget: int
    committed: int | None
    true_s: NDArray[np.float64] | None
    outcome: Outcome | None

    @property
    def heading(self) -> str:
        """One line on the problem."""
        return f"{self.title}: {axes_words(self.problem.axes)} on {system(self.problem)}"

    @property
    def verdict(self) -> str:
        """One line on where the episode is."""
        taken = sum(map(len, self.measured_s))
        words = (
            f"{len(self.times)} {plural('candidate', len(self.times))}, {taken} of {self.budget} measurements taken"
        )
        if self.outcome is None:
            return words
        if not self.outcome.valid:
            return f"{words}; not valid: counts as the default, {time(self.outcome.time_s)}"
        default, best = time(self.outcome.default_time_s), time(self.outcome.best_time_s)
        time_s = self.outcome.time_s
        return (
            f"{words}; chosen: {time(time_s)}, {compared(time_s, self.outcome.default_time_s, f'the default ({default})')}, "
            f"{compared(time_s, self.outcome.best_time_s, f'the best ({best})')}"
        )


def joint_text(scene: JointScene) -> str:
    """Return a few lines: where the episode is, and the candidates that look best."""
    nominal_s = scene.times.nominal_s
    estimate_s = np.array(
        [np.mean(times) if times else nominal for times, nominal in zip(scene.measured_s, nominal_s, strict=True)]
    )
    lines = [scene.heading, f"  {scene.verdict}", "  row    nominal   measured"]
    order = np.argsort(estimate_s, kind="stable")
    measured = [bool(scene.measured_s[row]) for row in order]
    shown = [*order[np.flatnonzero(measured)], *order[np.flatnonzero(~np.array(measured, bool))]]
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
    """Return a picture, shape (height, width, 3)."""
    figure = new_figure(10.0, 7.0)
    figure.suptitle(f"{scene.heading}\n{scene.verdict}", fontsize=11)
    axes = figure.subplots()
    nominal_s = scene.times.nominal_s
    drawn = [nominal_s, [scene.default_nominal_s], *scene.measured_s]
    if scene.true_s is not None:
        drawn.append(scene.true_s)
    everything = np.concatenate([np.asarray(one, np.float64) for one in drawn])
    everything = np.maximum(everything, 1e-9)
    scale, unit = time_scale(float(np.median(everything)))
    nominal = np.maximum(nominal_s, 1e-9) / scale
    bound = scene.times.level_shares.argmax(axis=1)
    handles: dict[str, Any] = {}
    low, high = everything.min() / scale / 1.15, everything.max() / scale * 1.15
    handles["measured as by the data sheet"] = axes.plot(
        [low, high], [low, high], color=FAINT, linewidth=1.0, linestyle="--", zorder=0
    )[0]
    for level, spec in enumerate(scene.problem.hierarchy.levels):
        rows = [row for row in range(len(nominal)) if bound[row] == level and scene.measured_s[row]]
        not_yet = [row for row in range(len(nominal)) if bound[row] == level and not scene.measured_s[row]]
        colour = LEVEL_COLOURS[level % len(LEVEL_COLOURS)]
        label = f"bound by {spec.name} links"
        if rows:
            mean = np.array([np.mean(scene.measured_s[row]) for row in rows]) / scale
            # Two standard errors of the noise that was seen, or the range where there are few.
            spread = np.array([_spread(scene.measured_s[row]) for row in rows]) / scale
            handles[label] = axes.errorbar(
                nominal[rows], mean, yerr=spread, fmt="o", color=colour, markersize=7, capsize=3, linewidth=1.3
            )
            for row, x, y in zip(rows, nominal[rows], mean, strict=True):
                axes.annotate(
                    f"{len(scene.measured_s[row])}", (x, y), xytext=(6, 5), textcoords="offset points",
                    fontsize=8, color=INK,
                )  # fmt: skip
        if not_yet:
            points = axes.plot(
                nominal[not_yet], np.full(len(not_yet), low), "|", color=colour, markersize=14, clip_on=False
            )[0]
            handles[f"{label}, not measured"] = points
    if scene.true_s is not None:
        handles["true expected time"] = axes.plot(
            nominal, scene.true_s / scale, "x", color=FAINT, markersize=6, zorder=1
        )[0]
        best = int(np.argmin(scene.true_s))
        handles["the best"] = axes.plot(
            nominal[best], scene.true_s[best] / scale, "s", markersize=15, fillstyle="none",
            color=GOOD, markeredgewidth=2,
        )[0]  # fmt: skip
        if scene.committed is not None:
            handles["chosen"] = axes.plot(
                nominal[scene.committed], scene.true_s[scene.committed] / scale, "o", markersize=20,
                fillstyle="none", color=BOUND, markeredgewidth=2,
            )[0]  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(min(nominal.min() / 1.1, low), nominal.max() * 1.1)
    axes.set_ylim(low, high)
    _plain_ticks(axes)
    axes.set_xlabel(f"time by the data sheet ({unit})")
    axes.set_ylabel(f"measured time ({unit}), numbers: how often")
    axes.grid(color="#e8e8e8", which="both", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=3, fontsize=9, frameon=False
    )
    return pixels(figure)


def _spread(times_s: tuple[float, ...]) -> float:
    """Standard error of a mean; 0 for a single measurement."""
    return float(np.std(times_s, ddof=1)) / len(times_s) ** 0.5 if len(times_s) > 1 else 0.0


def _plain_ticks(axes: Any) -> None:
    """Numbers as people write them, where the axis spans less than two decades too."""
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter("")
