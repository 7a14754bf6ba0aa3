"""Heat map of the generalisation matrix: scenarios of training by scenarios of test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

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
GAP = 0.3
"""Distance between the rows of policies and those of rules, in cells."""

COLOURS = "PuOr"
"""Matplotlib's colour map after ColorBrewer, colour-blind safe: orange below 0, white at 0, violet above."""


@dataclass(frozen=True)
class Scores:
    """Scores of a generalisation matrix.

    Attributes:
        matrix: The planned matrix.
        cells: (trained on, tested on) -> score with its interval; None if bound and floor are too close to
            define a scale. Pairs that do not fit or were not run are omitted.
        rules: (rule, tested on) -> score of one of the matrix's other contenders, in the same form.
    """

    matrix: Matrix
    cells: dict[tuple[str, str], Interval | None]
    rules: dict[tuple[str, str], Interval | None] = field(default_factory=dict)

    def rows(self) -> list[tuple[str, list[Interval | Literal["absent"] | None]]]:
        """Return the rows of the table: those of the policies, then those of the rules."""
        matrix = self.matrix
        return [
            (name, [cells.get((name, played), "absent") for played in matrix.scenarios])
            for names, cells in ((matrix.scenarios, self.cells), (matrix.rules, self.rules))
            for name in names
        ]


def text_of(score: Interval | Literal["absent"] | None, *, interval: bool = False) -> str:
    """Return the text of a cell."""
    if score == "absent":
        return NO_FIT
    if score is None:
        return UNKNOWN
    assert isinstance(score, Interval)
    text = number(score.value)
    return f"{text} [{number(score.low)}, {number(score.high)}]" if interval else text


def number(value: float) -> str:
    """Return a score as text with two decimals, or with none if its magnitude is at least 10."""
    text = f"{value:.2f}" if abs(value) < 10.0 else f"{value:.0f}"
    return text.replace("-0.00", "0.00").replace("-", "−")


def scores_of(benchmark: BenchmarkResult) -> Scores | None:
    """Return the scores of a benchmark's matrix; None if it has no matrix or no scores."""
    matrix = benchmark.matrix
    if matrix is None:
        return None
    results = {result.name: result for result in benchmark.results if result.split == matrix.split}
    players = {trained_on: player_name(matrix.agent, trained_on) for trained_on in matrix.scenarios}

    def of(player: str, played: str) -> Iterator[Interval | None]:
        samples = _samples(matrix, results.get(played), player)
        if samples is not None:
            yield statistics.normalised(*samples)

    cells = {
        (trained_on, played): score
        for trained_on, player in players.items()
        for played in matrix.scenarios
        for score in of(player, played)
    }
    rules = {
        (rule, played): score
        for rule in matrix.rules
        for played in matrix.scenarios
        for score in of(rule, played)
    }
    return Scores(matrix, cells, rules) if cells else None


def _samples(
    matrix: Matrix, result: ScenarioResult | None, player: str
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return the values of a contender, the floor and the bound on their common seeds."""
    if result is None:
        return None
    names = (player, matrix.floor, matrix.bound)
    found = [sample for name in names if (sample := result.sample(name, matrix.score)) is not None]
    if len(found) < len(names):
        return None
    common = sorted(set.intersection(*(set(seeds) for _, seeds in found)))
    if not common:
        return None
    ours, floor, bound = (values[:, [seeds.index(seed) for seed in common]] for values, seeds in found)
    return ours, floor, bound


def draw(scores: Scores) -> Picture:
    """Draw the heat map: a row for each scenario of training and each rule, a column for each of test."""
    names, n = scores.matrix.scenarios, len(scores.matrix.scenarios)
    rows = scores.rows()
    # A gap separates the rules from the policies.
    heights = [place + (GAP if place >= n else 0.0) for place in range(len(rows))]
    shown, of_rows = ([in_picture(name) for name in some] for some in (names, [name for name, _ in rows]))

    def paint(figure: Figure, ink: str) -> None:
        axes = figure.add_subplot()
        colours, scale = mpl.colormaps[COLOURS], Normalize(-1.0, 1.0, clip=True)
        for place, ((_, cells), top) in enumerate(zip(rows, heights, strict=True)):
            values = [[score.value if isinstance(score, Interval) else np.nan for score in cells]]
            mesh = axes.pcolormesh(
                np.arange(n + 1.0),
                [top, top + 1.0],
                np.ma.masked_invalid(values),
                cmap=colours,
                norm=scale,
                edgecolors="white",
                linewidth=1.5,
                rasterized=False,
            )
            for column, score in enumerate(cells):
                known = isinstance(score, Interval)
                inside = _readable(colours(scale(values[0][column]))) if known else ink
                axes.text(
                    column + 0.5,
                    top + 0.5,
                    text_of(score),
                    ha="center",
                    va="center",
                    color=inside,
                    fontsize=11,
                    fontweight="bold" if place == column else "normal",
                )
            if place < n:
                axes.add_patch(
                    Rectangle((place + 0.03, top + 0.03), 0.94, 0.94, fill=False, color=ink, linewidth=1.6)
                )
        axes.set_xticks(np.arange(n) + 0.5, shown, rotation=35, ha="right", rotation_mode="anchor")
        axes.set_yticks(np.array(heights) + 0.5, of_rows)
        axes.set_xlabel("tested on (held-out episodes)")
        axes.set_ylabel("trained on; below: rules" if scores.matrix.rules else "trained on")
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

    label = max(map(len, [*shown, *of_rows])) * 0.085
    size = (label + CELL_IN[0] * n + 1.9, 0.75 * label + CELL_IN[1] * (heights[-1] + 1) + 0.9)
    words = f"Heat map: {scores.matrix.agent} trained on one of {', '.join(names)} and tested on each of them"
    if scores.matrix.rules:
        words += f"; below, {', '.join(scores.matrix.rules)}"
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
        text += f" {NO_FIT}: the policy does not fit, because the environment or its observation is another."
    if scores.matrix.rules:
        text += f" Below: {', '.join(scores.matrix.rules)}, which are the same everywhere."
    if None in {*scores.cells.values(), *scores.rules.values()}:
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
    rows = tuple((name, *(text_of(score, interval=True) for score in cells)) for name, cells in scores.rows())
    text = f"{what(scores)} In brackets: 95 % intervals over trainings and episodes."
    return Page(PAGE, text, ("trained on", *names), rows)
