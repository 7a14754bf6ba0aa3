"""Plots of a report, each drawn for the page (SVG, in the page's text colour) and as a file (PNG)."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from sysgym.bench.report.data.benchmark import Player, ScenarioResult
from sysgym.bench.report.pictures import svg
from sysgym.bench.report.pictures.labels import name_points
from sysgym.bench.report.texts import in_picture
from sysgym.bench.statistics import Interval
from sysgym.scenarios.family import Metric
from sysgym.scenarios.units import Unit, significant

# The palette follows that of Okabe and Ito for all kinds of colour vision, without black and yellow, which
# are invisible on one of the backgrounds, and with darker versions of pale colours. Contenders also differ in
# their markers. Each colour has a contrast of at least 3:1 to the page's light and dark backgrounds, which is
# required for lines. Texts require a higher contrast and are written in the text colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#C466A0", "#B07A00", "#2B95CC", "#8C6BB1", "#9A5B2C")
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "p")
REFERENCE_COLOUR = "#808080"
REFERENCE_MARKER = "*"

INK_ON_PAPER = "#222222"

PNG_DPI = 150.0

LOG_FROM = 20.0
"""Ratio of the largest to the smallest value from which a scale is logarithmic."""


@dataclass(frozen=True)
class Style:
    """Colour and marker of one contender in all pictures."""

    colour: str
    marker: str
    filled: bool = True

    @property
    def face(self) -> str:
        """Colour inside the marker."""
        return self.colour if self.filled else "none"

    @property
    def size(self) -> int:
        """Size of the marker; the star looks smaller than it is."""
        return 10 if self.marker == REFERENCE_MARKER else 7


@dataclass(frozen=True)
class Picture:
    """Picture in two formats.

    Attributes:
        name: File stem.
        description: Alternative text.
        svg: SVG for the page, with text in the page's colour and font.
        png: PNG for files, dark on white.
    """

    name: str
    description: str
    svg: str
    png: bytes


def styles(players: Sequence[Player], important: Iterable[str] = ()) -> dict[str, Style]:
    """Return the style of every contender, by name; privileged references are grey stars.

    Args:
        players: All contenders.
        important: Contenders that get unique colours with filled markers if there are more contenders than
            colours; the other contenders repeat these colours with different, empty markers.
    """
    found = {}
    names = [player.name for player in players if not player.privileged]
    if len(names) > len(COLOURS):
        first = set(important)
        names.sort(key=lambda name: name not in first)
    for index, name in enumerate(names):
        again, colour = divmod(index, len(COLOURS))
        found[name] = Style(COLOURS[colour], MARKERS[(colour + again) % len(MARKERS)], filled=again == 0)
    for player in players:
        if player.privileged:
            found[player.name] = Style(REFERENCE_COLOUR, REFERENCE_MARKER)
    return found


def tradeoff(result: ScenarioResult, looks: dict[str, Style]) -> Picture | None:
    """Draw the family's benefit against its cost; return None if fewer than two contenders have both."""
    names = _with_tradeoff(result)
    if len(names) < 2:
        return None

    def draw(figure: Figure, ink: str) -> None:
        axes = figure.add_subplot()
        draw_tradeoff(axes, result, looks, ink)
        tidy(axes, ink, grid="both")
        name_points(axes, shown_points(result), result.in_colour, ink)

    evaluation = result.evaluation
    words = (
        f"{evaluation.benefit.label} against {evaluation.cost.label} of {', '.join(names)} on {result.label}"
    )
    size = (8.0, max(3.9, 0.7 + 0.205 * len(names)))
    return make_picture(f"{result.slug}-tradeoff", words, draw, size)


def tradeoff_caption(result: ScenarioResult) -> str:
    """Return the caption of the picture of benefit against cost."""
    benefit, cost = result.evaluation.benefit.label, result.evaluation.cost.label
    words = (
        f"{benefit} against {cost[:1].lower()}{cost[1:]}: up and to the left is better. Bars are 95 % "
        "intervals"
    )
    if len(_front_of(result)) > 1:
        words += "; the dashed line joins competitors that no other beats in both"
    return f"{words}."


def draw_tradeoff(axes: Any, result: ScenarioResult, looks: dict[str, Style], ink: str) -> None:
    """Draw the family's benefit against its cost, and the Pareto front.

    Args:
        axes: Matplotlib axes.
        result: Results of one scenario.
        looks: Contender -> style.
        ink: Colour of the front.
    """
    cost, benefit = result.evaluation.cost, result.evaluation.benefit
    across, up = result.unit(cost.name), result.unit(benefit.name)
    points = _points(result)
    front = _front_of(result)
    if len(front) > 1:
        axes.step(
            [across.shown(x) for x, _ in front],
            [up.shown(y) for _, y in front],
            where="post",
            color=ink,
            alpha=0.35,
            linewidth=1.0,
            linestyle="--",
            zorder=1,
            label="not beaten in both",
        )
    shown = result.in_colour
    for name, (x, y) in points.items():
        look, strong = looks[name], name in shown
        marks = axes.errorbar(
            across.shown(x.value),
            up.shown(y.value),
            xerr=[[across.shown(x.value - x.low)], [across.shown(x.high - x.value)]],
            yerr=[[up.shown(y.value - y.low)], [up.shown(y.high - y.value)]],
            fmt=look.marker,
            color=look.colour,
            markerfacecolor=look.face,
            markersize=look.size,
            elinewidth=1.4 if strong else 0.8,
            capsize=2.5 if strong else 0.0,
            label=name,
            zorder=3 if strong else 2,
        )
        for bar in marks[2]:
            bar.set_alpha(1.0 if strong else 0.35)
    _scale(axes, "x", [x.value for x, _ in points.values()])
    axes.set_xlabel(_axis(cost, across))
    axes.set_ylabel(_axis(benefit, up))
    axes.margins(x=0.08, y=0.12)


def shown_points(result: ScenarioResult) -> dict[str, tuple[float, float]]:
    """Return the position of every contender in the plot of benefit against cost, in displayed units."""
    across, up = result.unit(result.evaluation.cost.name), result.unit(result.evaluation.benefit.name)
    return {name: (across.shown(x.value), up.shown(y.value)) for name, (x, y) in _points(result).items()}


def _points(result: ScenarioResult) -> dict[str, tuple[Interval, Interval]]:
    """Return cost and benefit of every contender that has both."""
    cost, benefit = result.evaluation.cost.name, result.evaluation.benefit.name
    return {
        name: (result.scores[name, cost].estimate, result.scores[name, benefit].estimate)
        for name in _with_tradeoff(result)
    }


def _front_of(result: ScenarioResult) -> list[tuple[float, float]]:
    """Return the Pareto-optimal points of the competitors, by ascending cost."""
    competing = {player.name for player in result.players if not player.privileged}
    points = _points(result).items()
    return _pareto_front([(x.value, y.value) for name, (x, y) in points if name in competing])


def _axis(metric: Metric, unit: Unit) -> str:
    direction = "higher" if metric.higher_is_better else "lower"
    symbol = f" ({unit.symbol})" if unit.symbol else ""
    return in_picture(f"{metric.label}{symbol}, {direction} is better", 48, lines=3)


def _with_tradeoff(result: ScenarioResult) -> list[str]:
    """Return the contenders that have both benefit and cost."""
    cost, benefit = result.evaluation.cost.name, result.evaluation.benefit.name
    return [
        player.name
        for player in result.players
        if (player.name, cost) in result.scores and (player.name, benefit) in result.scores
    ]


def dots(result: ScenarioResult, metrics: Sequence[Metric], looks: dict[str, Style]) -> Picture | None:
    """Draw a panel for each metric, a row for each contender: episodes as ticks, average with interval."""
    metrics = [metric for metric in metrics if any(key == metric.name for _, key in result.scores)]
    if not metrics:
        return None
    names = [player.name for player in result.players][::-1]

    def draw(figure: Figure, ink: str) -> None:
        panels = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
        for axes, metric in zip(panels, metrics, strict=True):
            unit = result.unit(metric.name)
            for height, name in enumerate(names):
                score, sample = result.scores.get((name, metric.name)), result.sample(name, metric.name)
                if score is None or sample is None:
                    continue
                look, values = looks[name], unit.shown(1.0) * sample[0].ravel()
                axes.plot(
                    values, np.full(len(values), height), "|", color=look.colour, alpha=0.4, markersize=7
                )
                estimate = score.estimate
                axes.plot(
                    [unit.shown(estimate.low), unit.shown(estimate.high)],
                    [height, height],
                    color=look.colour,
                    linewidth=2.2,
                    solid_capstyle="butt",
                )
                axes.plot(
                    unit.shown(estimate.value),
                    height,
                    look.marker,
                    color=look.colour,
                    markerfacecolor=look.face,
                    markersize=look.size,
                )
            estimates = [
                score.estimate.value for (_, key), score in result.scores.items() if key == metric.name
            ]
            _scale(axes, "x", estimates)
            symbol = f" ({unit.symbol})" if unit.symbol else ""
            direction = "higher" if metric.higher_is_better else "lower"
            axes.set_xlabel(f"{in_picture(metric.label + symbol, 24, lines=3)}\n{direction} is better")
            tidy(axes, ink, grid="x")
        panels[0].set_yticks(range(len(names)), [in_picture(name) for name in names])
        panels[0].set_ylim(-0.6, len(names) - 0.4)

    words = f"{', '.join(metric.label for metric in metrics)} of {', '.join(names[::-1])} on {result.label}"
    return make_picture(f"{result.slug}-metrics", words, draw, (9.2, 1.05 + 0.34 * len(names)))


def _pareto_front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the Pareto-optimal points, with low cost (first value) and high benefit, by ascending cost."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or y > front[-1][1]:
            front.append((x, y))
    return front


def _scale(axes: Any, which: str, values: Sequence[float]) -> None:
    positive = [value for value in values if value > 0.0]
    if len(positive) < len(values) or not positive or max(positive) < LOG_FROM * min(positive):
        return
    log_scale(axes, which, wide=max(positive) >= 1e3 * min(positive))


def log_scale(axes: Any, which: str, *, wide: bool) -> None:
    """Make an axis logarithmic, with plain numbers at its ticks.

    Args:
        axes: Matplotlib axes.
        which: ``"x"`` or ``"y"``.
        wide: Whether its range is so wide that powers of ten are enough ticks.
    """
    axis = getattr(axes, f"{which}axis")
    getattr(axes, f"set_{which}scale")("log")
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 3.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: significant(value, 1)))
    axis.set_minor_formatter(NullFormatter())


def tidy(axes: Any, ink: str, *, grid: str) -> None:
    """Draw a faint grid, and remove the frame except for the axes."""
    axes.grid(axis=grid, color=ink, alpha=0.14, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_facecolor("none")


def make_picture(
    name: str, description: str, draw: Callable[[Figure, str], None], size: tuple[float, float]
) -> Picture:
    """Draw a picture in both formats.

    Args:
        name: File stem; a slug.
        description: Alternative text.
        draw: Function that draws into a figure with a given text colour.
        size: Width and height, inches.
    """
    with warnings.catch_warnings():
        # Names may have letters that the font of the files lacks; the page shows them all.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from")
        return Picture(name, description, _svg(name, description, draw, size), _png(draw, size))


def _png(draw: Callable[[Figure, str], None], size: tuple[float, float]) -> bytes:
    with mpl.rc_context(_settings(INK_ON_PAPER)):
        figure = Figure(figsize=size, dpi=PNG_DPI, layout="constrained", facecolor="white")
        draw(figure, INK_ON_PAPER)
        buffer = io.BytesIO()
        FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
        return buffer.getvalue()


def _svg(name: str, description: str, draw: Callable[[Figure, str], None], size: tuple[float, float]) -> str:
    settings = {**_settings(svg.INK), "svg.fonttype": "none", "svg.hashsalt": name}
    with mpl.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained", facecolor="none")
        draw(figure, svg.INK)
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return svg.part_of_page(
        buffer.getvalue(), prefix=name, description=description, width_px=size[0] * 72.0 * 1.25
    )


def _settings(ink: str) -> Any:
    return {
        "font.size": 10.0,
        "font.family": ["DejaVu Sans"],
        "text.parse_math": False,  # a dollar sign in a name is no formula
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.edgecolor": ink,
        "axes.titlecolor": ink,
        "xtick.color": ink,
        "ytick.color": ink,
        "figure.dpi": 72.0,
    }
