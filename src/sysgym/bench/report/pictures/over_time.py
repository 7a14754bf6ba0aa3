"""Picture of metrics over time in an episode: a line for each contender, a few in colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from sysgym.bench import statistics
from sysgym.bench.report.data.benchmark import N_BEST, ScenarioResult
from sysgym.bench.report.pictures.labels import NAME_IN, name_lines
from sysgym.bench.report.pictures.plots import Picture, Style, make_picture, tidy
from sysgym.bench.report.texts import in_picture
from sysgym.bench.statistics import FloatArray
from sysgym.scenarios.family import Curve
from sysgym.scenarios.units import Unit

COINCIDES = 0.03
"""Largest distance of two coinciding lines, relative to the range of all lines."""

ENOUGH_EPISODES = 0.5
"""Minimum share of a contender's episodes that must have the metric for its line to have a point."""


class Line(NamedTuple):
    """Line of one contender: interquartile means over episodes, shape (n_points,)."""

    at: FloatArray
    value: FloatArray


def line_of(result: ScenarioResult, player: str, curve: Curve) -> Line | None:
    """Return a contender's line in the displayed unit; None if no point has enough episodes."""
    unit = _unit(result, curve)
    found = [
        (float(at), unit.shown(float(statistics.iqm(sample[0].ravel()))))
        for at, sample in _samples(result, player, curve).items()
    ]
    return Line(*np.array(found).T) if found else None


def over_time(result: ScenarioResult, looks: Mapping[str, Style]) -> Picture | None:
    """Draw all curves of the family, the first one in a large panel with names at the ends of its lines.

    Args:
        result: Results of one scenario.
        looks: Contender -> style.

    Returns:
        The picture; None if the family or the rows have no curves.
    """
    curves = [curve for curve in result.evaluation.curves if len(curve.points(result.metric_names)) > 1]
    lines = {
        (player.name, curve.prefix): line
        for curve in curves
        for player in result.players
        if (line := line_of(result, player.name, curve)) is not None
    }
    if not lines:
        return None
    names = [player.name for player in result.players]
    shown = result.in_colour
    close = coinciding(result)
    height = max(4.2, 0.9 + NAME_IN * len(names))

    def draw(figure: Figure, ink: str) -> None:
        panels = _panels(figure, len(curves) + bool(close))
        if close:
            _differences(panels[-1], result, close, looks, ink)
        for axes, curve in zip(panels, curves, strict=False):
            for name in sorted(names, key=lambda name: name in shown):
                if (name, curve.prefix) in lines:
                    line = lines[name, curve.prefix]
                    if name in shown:
                        _coloured(axes, result, name, curve, line, looks[name])
                    else:
                        axes.plot(*line, color=ink, alpha=0.28, linewidth=0.9, zorder=1)
            first = curve is curves[0]
            direction = "higher" if curve.higher_is_better else "lower"
            symbol = _unit(result, curve).symbol
            words = ", ".join(word for word in (symbol, f"{direction} is better") if word)
            axes.set_title(f"{curve.label} ({words})", fontsize=10 if first else 8, loc="left")
            tidy(axes, ink, grid="both")
            if first:
                axes.set_xlabel(curve.x_label)
                ends = {
                    name: (float(end.at[-1]), float(end.value[-1]))
                    for name in names
                    if (end := lines.get((name, curve.prefix))) is not None
                }
                name_lines(axes, ends, {name: looks[name].colour for name in shown}, ink, height - 0.9)
            else:
                axes.tick_params(labelsize=8)

    labels = ", ".join(curve.label for curve in curves)
    words = f"{labels} over time of {', '.join(names)} on {result.label}"
    return make_picture(f"{result.slug}-over-time", words, draw, (10.4, height))


def caption(result: ScenarioResult) -> str:
    """Return the caption of the picture."""
    lines = "Interquartile mean over episodes of the value up to each time"
    if len(result.in_colour) == len(result.players):
        who = f"{lines}, with its 95 % band."
    else:
        best = result.focus[0].label
        who = (
            f"{lines}. In colour, with a 95 % band: the {N_BEST} best by {best}, {result.reference}, "
            "learned agents and privileged agents. All others are thin and grey."
        )
    who += " A line has points where at least half of the contender's episodes have the metric."
    if coinciding(result):
        who += f" The last panel has the paired differences of lines that coincide with {result.reference}'s."
    return who


def coinciding(result: ScenarioResult) -> list[str]:
    """Return the contenders in colour whose line in the first curve coincides with the reference's.

    Args:
        result: Results of one scenario.
    """
    curve = _first(result)
    if curve is None:
        return []
    found = {
        player.name: line
        for player in result.players
        if (line := line_of(result, player.name, curve)) is not None
    }
    base = found.get(result.reference)
    if base is None:
        return []
    values = np.concatenate([line.value for line in found.values()])
    least = COINCIDES * float(np.ptp(values))
    return [
        name
        for name, line in found.items()
        if name != result.reference
        and name in result.in_colour
        and np.array_equal(line.at, base.at)
        and float(np.abs(line.value - base.value).max()) <= least
    ]


def _first(result: ScenarioResult) -> Curve | None:
    curves = result.evaluation.curves
    return next((curve for curve in curves if len(curve.points(result.metric_names)) > 1), None)


def _differences(
    axes: Any, result: ScenarioResult, names: Sequence[str], looks: Mapping[str, Style], ink: str
) -> None:
    """Draw the paired differences of lines that coincide with the reference's, with 95 % bands."""
    curve = _first(result)
    assert curve is not None
    unit = _unit(result, curve)
    ends = {}
    for name in names:
        found = {
            at: difference
            for at, metric in curve.points(result.metric_names).items()
            if (difference := result.difference(name, result.reference, metric)) is not None
        }
        value, low, high = (
            [unit.shown(difference[part]) for difference in found.values()] for part in range(3)
        )
        axes.fill_between(list(found), low, high, color=looks[name].colour, alpha=0.13, linewidth=0.0)
        axes.plot(list(found), value, color=looks[name].colour, linewidth=1.4)
        ends[name] = (float(list(found)[-1]), float(value[-1]))
    axes.axhline(0.0, color=ink, linewidth=0.9, alpha=0.6)
    axes.set_title(f"{curve.label}: difference from {in_picture(result.reference)}", fontsize=8, loc="left")
    axes.tick_params(labelsize=8)
    tidy(axes, ink, grid="both")
    name_lines(axes, ends, {name: looks[name].colour for name in names}, ink, 1.0)


def _samples(result: ScenarioResult, player: str, curve: Curve) -> dict[int, tuple[FloatArray, list[int]]]:
    samples = {
        at: sample
        for at, metric in curve.points(result.metric_names).items()
        if (sample := result.sample(player, metric)) is not None
    }
    needed = ENOUGH_EPISODES * result.n_episodes(player)
    return {at: sample for at, sample in samples.items() if len(sample[1]) >= needed}


def _unit(result: ScenarioResult, curve: Curve) -> Unit:
    return result.unit(next(iter(curve.points(result.metric_names).values())))


def _panels(figure: Figure, number: int) -> list[Any]:
    if number == 1:
        return [figure.add_subplot()]
    grid = figure.add_gridspec(number - 1, 2, width_ratios=(1.8, 1.0))
    large = figure.add_subplot(grid[:, 0])
    small = [figure.add_subplot(grid[row, 1], sharex=large) for row in range(number - 1)]
    for axes in small[:-1]:
        axes.tick_params(labelbottom=False)
    return [large, *small]


def _coloured(axes: Any, result: ScenarioResult, name: str, curve: Curve, line: Line, look: Style) -> None:
    unit = _unit(result, curve)
    estimates = [statistics.estimate(sample[0]) for sample in _samples(result, name, curve).values()]
    low, high = ([unit.shown(one[end]) for one in estimates] for end in (1, 2))
    axes.fill_between(line.at, low, high, color=look.colour, alpha=0.13, linewidth=0.0, zorder=2)
    axes.plot(
        *line,
        color=look.colour,
        marker=look.marker,
        markerfacecolor=look.face,
        markersize=0.7 * look.size,
        linewidth=1.8,
        zorder=3,
    )
