"""Picture of laws on random links: shares beside other laws, and fairness among own flows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sysgym.bench.report.pictures.plots import Picture, make_picture, tidy
from sysgym.bench.report.texts import in_picture
from sysgym.studies.random_links.tables import (
    FAIR,
    JAIN_FAIR,
    JAIN_LESS,
    STARVED,
    TAKES_ALL,
    Array,
    LinkRows,
)

PANEL_IN, ROW_IN = 2.0, 0.3
NARROW = 3
"""Number of panels up to which legends have one column."""

LEAST_WRITTEN = 0.15
"""Minimum share of the links for which a part of a bar has room for a number."""

GOOD = "#3b5a6d"
NUMBER: dict[str, Any] = {"ha": "center", "va": "center", "color": "#ffffff", "fontsize": 8}


class Part(NamedTuple):
    """Part of a bar: links with a value between this lower bound and that of the next part.

    Attributes:
        label: Text in the legend.
        least: Lower bound, inclusive.
        colour: Colour.
    """

    label: str
    least: float
    colour: str


# Orange: less than a fair share; violet: more. Colour-blind safe, as in the heat map of neighbours.
SHARES = (
    Part(f"starved (below {STARVED:g})", -np.inf, "#b35806"),
    Part("less", STARVED, "#fdb863"),
    Part(f"fair share ({FAIR[0]:.2f} to {FAIR[1]:.2f})", FAIR[0], GOOD),
    Part("more", np.nextafter(FAIR[1], 2.0), "#b2abd2"),
    Part(f"nearly all (above {TAKES_ALL:g})", np.nextafter(TAKES_ALL, 2.0), "#542788"),
)
INDICES = (
    Part(f"below {JAIN_LESS:g}", -np.inf, "#c9c9c9"),
    Part(f"{JAIN_LESS:g} or more", JAIN_LESS, "#8fa9b8"),
    Part(f"Jain's index {JAIN_FAIR:g} or more", JAIN_FAIR, GOOD),
)


def draw(found: LinkRows) -> Picture:
    """Draw a panel of bars for each neighbour, and one for own flows."""
    beside = [other for other in found.beside if any(len(found.shares(law, other)) for law in found.laws)]
    crowds = any(len(found.jain(law)) for law in found.laws)
    n = len(beside) + crowds
    columns = len(SHARES) if n > NARROW else 1

    def paint(figure: Figure, ink: str) -> None:
        panels = list(figure.subplots(1, n, sharey=True, squeeze=False)[0])
        for axes, other in zip(panels, beside, strict=False):
            _draw_bars(axes, [found.shares(law, other) for law in found.laws], SHARES)
            axes.set_title(f"beside {in_picture(other)}", fontsize=10)
        if crowds:
            _draw_bars(panels[-1], [found.jain(law) for law in found.laws], INDICES)
            panels[-1].set_title("among own flows", fontsize=10)
        for axes in panels:
            axes.set_xlim(0.0, 1.0)
            axes.set_xticks([0.0, 0.5, 1.0], ["0", "50", "100"])
            axes.set_xlabel("% of the links")
            tidy(axes, ink, grid="x")
            axes.tick_params(axis="y", length=0)
        panels[0].set_yticks(range(len(found.laws)), [in_picture(law) for law in found.laws])
        panels[0].invert_yaxis()
        if beside:
            figure.legend(handles=_handles(SHARES), loc="outside upper left", ncols=columns, frameon=False)
        if crowds:
            figure.legend(handles=_handles(INDICES), loc="outside lower right", ncols=columns, frameon=False)

    names = ", ".join(found.laws)
    words = f"Parts of the links on which {names} have a fair share beside {', '.join(beside) or 'none'}"
    height_in = 1.5 + ROW_IN * len(found.laws) + (0.0 if n > NARROW else 1.4)
    return make_picture("links", words, paint, (1.2 + PANEL_IN * max(n, NARROW), height_in))


def _handles(parts: Sequence[Part]) -> list[Patch]:
    return [Patch(color=part.colour, label=part.label) for part in parts]


def _draw_bars(axes: Axes, values: Sequence[Array], parts: Sequence[Part]) -> None:
    bounds = [part.least for part in parts]
    for height, some in enumerate(values):
        if not len(some):
            axes.text(0.02, height, "–", va="center")
            continue
        of_part = np.searchsorted(bounds, some, side="right") - 1
        begin = 0.0
        for number, part in enumerate(parts):
            width = float((of_part == number).mean())
            axes.barh(height, width, left=begin, color=part.colour, height=0.72, linewidth=0)
            if width >= LEAST_WRITTEN and part.colour == GOOD:
                axes.text(begin + width / 2, height, f"{width:.0%}", **NUMBER)
            begin += width
