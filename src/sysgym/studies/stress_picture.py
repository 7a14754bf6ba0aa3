"""Picture of a stress study: the headline metric over the strength of every kind of disturbance."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from sysgym.bench.report.pictures.plots import COLOURS, MARKERS, Picture, make_picture, tidy
from sysgym.bench.report.texts import in_picture
from sysgym.studies.stress import Stress, Values, sweeps

PANEL_IN = (3.6, 2.9)
MOST_COLUMNS = 3
SPREAD = 0.02
"""Distance between the points of neighbouring contenders, relative to the range of strengths."""
LABEL_WIDTH = 42
"""Maximum number of characters in a line of an axis label."""


def draw(stress: Stress, rows: Sequence[Mapping[str, Any]]) -> Picture | None:
    """Draw a panel for every kind of disturbance; None if no condition has a strength.

    Args:
        stress: Settings of the study.
        rows: Rows from :func:`~sysgym.studies.kept_rows.run_kept`.
    """
    kinds, values = list(sweeps(stress)), Values(stress, rows)
    if not kinds:
        return None
    n_columns = min(len(kinds), MOST_COLUMNS)
    n_rows = math.ceil(len(kinds) / n_columns)

    def paint(figure: Figure, ink: str) -> None:
        every = figure.subplots(n_rows, n_columns, squeeze=False)
        for place, axes in enumerate(every.ravel()):
            if place >= len(kinds):
                axes.set_visible(False)
                continue
            sweep = kinds[place]
            span = max(sweep.strengths) - min(sweep.strengths) or 1.0
            for number, contender in enumerate(stress.contenders):
                means = [values.mean(values.headline, number, condition) for condition in sweep.places]
                shift = SPREAD * span * (number - (len(stress.contenders) - 1) / 2)
                heights = [one.value for one in means]
                axes.errorbar(
                    [strength + shift for strength in sweep.strengths],
                    heights,
                    yerr=[
                        [max(one.value - one.low, 0.0) for one in means],
                        [max(one.high - one.value, 0.0) for one in means],
                    ],
                    label=in_picture(contender.name) if place == 0 else None,
                    color=COLOURS[number % len(COLOURS)],
                    marker=MARKERS[number % len(MARKERS)],
                    linestyle="-" if contender.learned else "--",
                    markersize=4.5,
                    linewidth=1.5,
                    elinewidth=1.0,
                )
            axes.set_xticks(sweep.strengths, [f"{strength:g}" for strength in sweep.strengths])
            axes.set_xlabel("\n".join(textwrap.wrap(sweep.axis, LABEL_WIDTH)))
            if place % n_columns == 0:
                axes.set_ylabel(values.heading(values.headline))
            tidy(axes, ink, grid="y")
        figure.legend(
            loc="outside upper left", ncols=min(len(stress.contenders), 2 * n_columns), frameon=False
        )

    size = (PANEL_IN[0] * n_columns + 0.5, PANEL_IN[1] * n_rows + 0.6)
    names = ", ".join(contender.name for contender in stress.contenders)
    words = f"{values.heading(values.headline)} of {names} over {'; '.join(one.axis for one in kinds)}"
    return make_picture("stress", words, paint, size)
