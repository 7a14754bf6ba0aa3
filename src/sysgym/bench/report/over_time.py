"""The picture of what changes during an episode: a line for each contender, a few in colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from sysgym.bench import statistics
from sysgym.bench.families import Curve
from sysgym.bench.report.plots import Picture, Style, make_picture, tidy
from sysgym.bench.report.study import N_BEST, Contest
from sysgym.bench.statistics import FloatArray
from sysgym.bench.units import Unit

ENOUGH_EPISODES = 0.5
"""Share of a contender's episodes that need to have a metric for a point of its line."""

NAME_IN = 0.165
"""Height of a line's name, inches."""


class Line(NamedTuple):
    """One contender's line: interquartile means over episodes, shape (n_points,)."""

    at: FloatArray
    value: FloatArray


def line_of(contest: Contest, player: str, curve: Curve) -> Line | None:
    """Return a contender's line, in the unit that is shown; None where no point has enough episodes."""
    unit = _unit(contest, curve)
    found = [
        (float(at), unit.shown(float(statistics.iqm(sample[0].ravel()))))
        for at, sample in _samples(contest, player, curve).items()
    ]
    return Line(*np.array(found).T) if found else None


def over_time(contest: Contest, looks: Mapping[str, Style]) -> Picture | None:
    """All curves of the family; the first one large, with names at the ends of its lines.

    Args:
        contest: One scenario.
        looks: Style of every contender.

    Returns:
        The picture; None where the family or the rows have no curves.
    """
    curves = [curve for curve in contest.family.curves if len(curve.points(contest.metric_names)) > 1]
    lines = {
        (player.name, curve.prefix): line
        for curve in curves
        for player in contest.players
        if (line := line_of(contest, player.name, curve)) is not None
    }
    if not lines:
        return None
    names = [player.name for player in contest.players]
    shown = contest.in_colour
    height = max(4.2, 0.9 + NAME_IN * len(names))

    def draw(figure: Figure, ink: str) -> None:
        for axes, curve in zip(_panels(figure, len(curves)), curves, strict=True):
            for name in sorted(names, key=lambda name: name in shown):
                if (name, curve.prefix) in lines:
                    line = lines[name, curve.prefix]
                    if name in shown:
                        _coloured(axes, contest, name, curve, line, looks[name])
                    else:
                        axes.plot(*line, color=ink, alpha=0.28, linewidth=0.9, zorder=1)
            first = curve is curves[0]
            direction = "higher" if curve.higher_is_better else "lower"
            symbol = _unit(contest, curve).symbol
            words = ", ".join(word for word in (symbol, f"{direction} is better") if word)
            axes.set_title(f"{curve.label} ({words})", fontsize=10 if first else 8, loc="left")
            tidy(axes, ink, grid="both")
            if first:
                axes.set_xlabel(curve.x_label)
                ends = {name: lines[name, curve.prefix] for name in names if (name, curve.prefix) in lines}
                _name_lines(axes, ends, shown, looks, ink, NAME_IN / (height - 0.9))
            else:
                axes.tick_params(labelsize=8)

    labels = ", ".join(curve.label for curve in curves)
    words = f"{labels} over time of {', '.join(names)} on {contest.label}"
    return make_picture(f"{contest.name}-{contest.split}-over-time", words, draw, (10.4, height))


def caption(contest: Contest) -> str:
    """Return what stands below the picture."""
    lines = "Interquartile mean over episodes of what was reached up to then"
    if len(contest.in_colour) == len(contest.players):
        who = f"{lines}, with its 95 % band."
    else:
        best = contest.focus[0].label
        who = (
            f"{lines}. In colour, with a 95 % band: the {N_BEST} best by {best}, {contest.reference}, what "
            "was learned and upper bounds. All others are thin and grey."
        )
    return f"{who} A line has points where at least half of the contender's episodes have the metric."


def _samples(contest: Contest, player: str, curve: Curve) -> dict[int, tuple[FloatArray, list[int]]]:
    samples = {
        at: sample
        for at, metric in curve.points(contest.metric_names).items()
        if (sample := contest.sample(player, metric)) is not None
    }
    needed = ENOUGH_EPISODES * contest.n_episodes(player)
    return {at: sample for at, sample in samples.items() if len(sample[1]) >= needed}


def _unit(contest: Contest, curve: Curve) -> Unit:
    return contest.unit(next(iter(curve.points(contest.metric_names).values())))


def _panels(figure: Figure, number: int) -> list[Any]:
    if number == 1:
        return [figure.add_subplot()]
    grid = figure.add_gridspec(number - 1, 2, width_ratios=(1.8, 1.0))
    large = figure.add_subplot(grid[:, 0])
    small = [figure.add_subplot(grid[row, 1], sharex=large) for row in range(number - 1)]
    for axes in small[:-1]:
        axes.tick_params(labelbottom=False)
    return [large, *small]


def _coloured(axes: Any, contest: Contest, name: str, curve: Curve, line: Line, look: Style) -> None:
    unit = _unit(contest, curve)
    estimates = [statistics.estimate(sample[0]) for sample in _samples(contest, name, curve).values()]
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


def _name_lines(
    axes: Any,
    lines: Mapping[str, Line],
    shown: Sequence[str],
    looks: Mapping[str, Style],
    ink: str,
    room: float,
) -> None:
    """Write every name to the right of its line's end, as near as the other names let it stand.

    Args:
        axes: Of matplotlib; its limits are fixed by this.
        lines: Contender -> its line.
        shown: Who is in colour.
        looks: Style of every contender.
        ink: Colour of the others.
        room: Height that a name needs, as a share of the panel's.
    """
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    left, right = axes.get_xlim()
    axes.set_xlim(left, right)
    ends = {
        name: ((line.at[-1] - left) / (right - left), (line.value[-1] - low) / (high - low))
        for name, line in lines.items()
    }
    order = sorted(ends, key=lambda name: (ends[name][1], name))
    heights = spread([ends[name][1] for name in order], room)
    for name, height in zip(order, heights, strict=True):
        colour, strong = (looks[name].colour, True) if name in shown else (ink, False)
        axes.annotate(
            name,
            xy=ends[name],
            xytext=(1.08, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=colour,
            alpha=1.0 if strong else 0.65,
            fontsize=9 if strong else 8,
            fontweight="bold" if strong else "normal",
            verticalalignment="center",
            arrowprops={
                "arrowstyle": "-",
                "relpos": (0.0, 0.5),
                "color": colour,
                "alpha": 0.4,
                "linewidth": 0.7,
                "shrinkA": 1.0,
                "shrinkB": 1.0,
            },
        )


def spread(heights: Sequence[float], room: float) -> list[float]:
    """Return heights of names: each as near to where it belongs as it can be, ``room`` apart, within 0 and 1.

    Args:
        heights: Where they belong, rising.
        room: Height of one; there is room for all.
    """
    # Names that would overlap form a block, which stands where the mean of its members belongs.
    blocks: list[tuple[float, int]] = []  # lowest member's height, number of members
    for wanted in heights:
        low, number = wanted, 1
        low = min(max(low, 0.0), 1.0)
        while blocks and blocks[-1][0] + blocks[-1][1] * room > low:
            below, below_number = blocks.pop()
            # The members' wishes for the lowest one's place, averaged.
            low = (below * below_number + (low - below_number * room) * number) / (below_number + number)
            number += below_number
            low = max(min(low, 1.0 - (number - 1) * room), 0.0)
        blocks.append((low, number))
    return [low + index * room for low, number in blocks for index in range(number)]
