"""Heat map of the generalisation matrix: scenarios of training by scenarios of test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from sysgym.bench import statistics
from sysgym.bench.matrix import Matrix, player_name
from sysgym.bench.report.data.benchmark import RETURN, BenchmarkResult, ScenarioResult
from sysgym.bench.report.pictures.plots import Picture, make_picture
from sysgym.bench.report.texts import in_picture
from sysgym.bench.statistics import FloatArray, Interval
from sysgym.bench.surveys import Page

PAGE = "Generalisation: trained on (rows), tested on (columns)"
NO_FIT = "·"
UNKNOWN = "?"
CELL_IN = (0.98, 0.52)
COLOURS = "PuOr"
"""Matplotlib's colour map after ColorBrewer: orange below 0, white, violet up to 1; colour-blind safe."""


@dataclass(frozen=True)
class Scores:
    """Scores of a generalisation matrix.

    Attributes:
        matrix: The planned matrix.
        cells: (trained on, tested on) -> score with its interval; None if bound and floor are too close to
            define a scale. Pairs that do not fit or were not run are omitted.
    """

    matrix: Matrix
    cells: dict[tuple[str, str], Interval | None]

    def text(self, trained_on: str, played: str, *, interval: bool = False) -> str:
        """Return the text of a cell."""
        if (trained_on, played) not in self.cells:
            return NO_FIT
        score = self.cells[trained_on, played]
        if score is None:
            return UNKNOWN
        text = number(score.value)
        return f"{text} [{number(score.low)}, {number(score.high)}]" if interval else text


def number(value: float) -> str:
    """Return a score with two decimals, or with none from 10 on."""
    text = f"{value:.2f}" if abs(value) < 10.0 else f"{value:.0f}"
    return text.replace("-0.00", "0.00").replace("-", "−")


def scores_of(benchmark: BenchmarkResult) -> Scores | None:
    """Return the scores of a benchmark's matrix; None if it has no matrix or no scores."""
    matrix = benchmark.matrix
    if matrix is None:
        return None
    results = {result.name: result for result in benchmark.results if result.split == matrix.split}
    cells: dict[tuple[str, str], Interval | None] = {}
    for trained_on in matrix.scenarios:
        for played in matrix.scenarios:
            samples = _samples(matrix, results.get(played), trained_on)
            if samples is not None:
                cells[trained_on, played] = statistics.normalised(*samples)
    return Scores(matrix, cells) if cells else None


def _samples(
    matrix: Matrix, result: ScenarioResult | None, trained_on: str
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return the values of the policies, the floor and the bound on their common seeds."""
    if result is None:
        return None
    names = (player_name(matrix.agent, trained_on), matrix.floor, matrix.bound)
    found = [sample for name in names if (sample := result.sample(name, matrix.score)) is not None]
    if len(found) < len(names):
        return None
    common = sorted(set.intersection(*(set(seeds) for _, seeds in found)))
    if not common:
        return None
    ours, floor, bound = (values[:, [seeds.index(seed) for seed in common]] for values, seeds in found)
    return ours, floor, bound


def draw(scores: Scores) -> Picture:
    """Draw the heat map: a row for each scenario of training, a column for each scenario of test."""
    names, n = scores.matrix.scenarios, len(scores.matrix.scenarios)
    values = np.full((n, n), np.nan)
    for (trained_on, played), score in scores.cells.items():
        if score is not None:
            values[names.index(trained_on), names.index(played)] = score.value

    shown = [in_picture(name) for name in names]

    def paint(figure: Figure, ink: str) -> None:
        axes = figure.add_subplot()
        colours, scale = mpl.colormaps[COLOURS], Normalize(-1.0, 1.0, clip=True)
        mesh = axes.pcolormesh(
            np.ma.masked_invalid(values), cmap=colours, norm=scale, edgecolors="white", linewidth=1.5
        )
        for row, trained_on in enumerate(names):
            for column, played in enumerate(names):
                text = scores.text(trained_on, played)
                inside = ink
                if np.isfinite(values[row, column]):
                    inside = _readable(colours(scale(values[row, column])))
                axes.text(
                    column + 0.5,
                    row + 0.5,
                    text,
                    ha="center",
                    va="center",
                    color=inside,
                    fontsize=11,
                    fontweight="bold" if row == column else "normal",
                )
            axes.add_patch(
                Rectangle((row + 0.03, row + 0.03), 0.94, 0.94, fill=False, color=ink, linewidth=1.6)
            )
        axes.set_xticks(np.arange(n) + 0.5, shown, rotation=35, ha="right", rotation_mode="anchor")
        axes.set_yticks(np.arange(n) + 0.5, shown)
        axes.set_xlabel("tested on (held-out episodes)")
        axes.set_ylabel("trained on")
        axes.invert_yaxis()
        axes.set_aspect(CELL_IN[1] / CELL_IN[0])
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
        bar = figure.colorbar(mesh, ax=axes, shrink=0.8, pad=0.02, extend="both")
        bar.set_ticks(
            [-1.0, 0.0, 1.0], labels=["−1", f"0 = {scores.matrix.floor}", f"1 = {scores.matrix.bound}"]
        )
        bar.outline.set_visible(False)
        if bar.solids is not None:
            bar.solids.set(rasterized=False, edgecolor="face")  # a self-contained page has no bitmaps

    label = max(map(len, shown)) * 0.085
    size = (label + CELL_IN[0] * n + 1.9, 0.75 * label + CELL_IN[1] * n + 0.9)
    words = f"Heat map: {scores.matrix.agent} trained on one of {', '.join(names)} and tested on each of them"
    return make_picture("generalisation", words, paint, size)


def _readable(colour: Any) -> str:
    red, green, blue = colour[:3]
    return "#111111" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.55 else "#ffffff"


def what(scores: Scores) -> str:
    """Return an explanation of the scores."""
    matrix = scores.matrix
    measure = "mean return" if matrix.score == RETURN else f"mean {matrix.score}"
    text = (
        f"Policies of {matrix.agent}, trained on the scenario of the row and tested on held-out episodes of "
        f"the column's. The score is the position of the {measure} between {matrix.floor} (0) and "
        f"{matrix.bound} (1) on the same seeds; below 0 is worse than {matrix.floor}."
    )
    if len(scores.cells) < len(matrix.scenarios) ** 2:
        text += f" {NO_FIT}: the policy does not fit, because the observation has another form."
    if None in scores.cells.values():
        text += f" {UNKNOWN}: {matrix.floor} and {matrix.bound} are too close to define a scale."
    return text


def caption(scores: Scores) -> str:
    """Return the caption of the picture."""
    floor, bound = scores.matrix.floor, scores.matrix.bound
    return (
        f"The same scores in colour, violet towards {bound}, orange below {floor}. "
        "Framed: trained and tested on the same scenario."
    )


def page(scores: Scores) -> Page:
    """Return the matrix as a table, with intervals."""
    names = scores.matrix.scenarios
    rows = tuple(
        (trained_on, *(scores.text(trained_on, played, interval=True) for played in names))
        for trained_on in names
    )
    text = f"{what(scores)} In brackets: 95 % intervals over trainings and episodes."
    return Page(PAGE, text, ("trained on", *names), rows)
