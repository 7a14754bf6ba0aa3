"""Picture of laws on random links: shares beside each other law, and Jain's index among own flows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from sysgym.bench.report.pictures.plots import COLOURS, Picture, make_picture, tidy
from sysgym.bench.report.texts import in_picture
from sysgym.studies.random_links.tables import FAIR, JAIN, Array, Shares

PANEL_IN = 2.3, 2.9
FAIR_COLOUR = "#888888"
LINES = "-", "--", ":"


def draw(found: Shares) -> Picture:
    """Draw a panel for each neighbour and one for own flows: distributions of shares and of Jain's index."""
    beside = [other for other in found.beside if any(len(found.shares(law, other)) for law in found.laws)]
    crowds = any(len(found.jain(law)) for law in found.laws)
    n = len(beside) + crowds

    def paint(figure: Figure, ink: str) -> None:
        panels = list(figure.subplots(1, n, sharey=True, squeeze=False)[0])
        for axes, other in zip(panels, beside, strict=False):
            axes.axvspan(*FAIR, color=FAIR_COLOUR, alpha=0.18, linewidth=0)
            for law, style in _styles(found).items():
                _draw_distribution(axes, found.shares(law, other), style)
            axes.set_title(f"beside {in_picture(other)}", fontsize=10)
            axes.set_xlabel("share (1: fair)")
            axes.set_xlim(-0.04, 2.04)
        if crowds:
            axes = panels[-1]
            axes.axvspan(JAIN[0], 1.0, color=FAIR_COLOUR, alpha=0.18, linewidth=0)
            for law, style in _styles(found).items():
                _draw_distribution(axes, found.jain(law), style)
            axes.set_title("own flows", fontsize=10)
            axes.set_xlabel("Jain's index")
            axes.set_xlim(0.78, 1.005)
        for axes in panels:
            axes.set_ylim(-0.02, 1.02)
            axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            tidy(axes, ink, grid="y")
        panels[0].set_ylabel("links with this or less")
        handles: list[Artist] = [
            Line2D([], [], **style, label=in_picture(law)) for law, style in _styles(found).items()
        ]
        handles.append(Patch(color=FAIR_COLOUR, alpha=0.18, linewidth=0, label="fair"))
        figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), frameon=False)

    words = (
        f"Shares of {', '.join(found.laws)} on links drawn at random, beside {', '.join(beside) or 'none'}"
    )
    return make_picture("links", words, paint, (PANEL_IN[0] * max(n, 2), PANEL_IN[1]))


def _styles(found: Shares) -> dict[str, dict[str, Any]]:
    """Return how each law's lines are drawn: colours first, then dashes."""
    styles = [{"color": colour, "linestyle": line} for line in LINES for colour in COLOURS]
    return dict(zip(found.laws, cycle(styles), strict=False))


def _draw_distribution(axes: Axes, values: Array, style: Mapping[str, Any]) -> None:
    if len(values):
        ordered = np.sort(values)
        heights = np.arange(1, len(ordered) + 1) / len(ordered)
        # The line begins at the bottom, left of the least value.
        axes.step(np.r_[ordered[0], ordered], np.r_[0.0, heights], where="post", **style)
