"""Picture of the shares of laws beside each other: a heat map with a row for each law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from sysgym.bench.report.pictures.plots import Picture, make_picture
from sysgym.bench.report.texts import in_picture
from sysgym.bench.statistics import Interval

CELL_IN = (0.72, 0.46)
COLOURS = "PuOr"
"""Orange: less than a fair share; violet: more. Colour-blind safe."""


def draw(laws: Sequence[str], shares: Mapping[tuple[str, str], Interval]) -> Picture:
    """Draw a heat map of the share of the row's law beside the column's law.

    Args:
        laws: Names of the laws.
        shares: Share by (law, neighbour), where 1 is fair and 2 everything.
    """
    n = len(laws)
    values = np.full((n, n), np.nan)
    for (law, other), share in shares.items():
        values[laws.index(law), laws.index(other)] = share.value
    shown = [in_picture(name) for name in laws]

    def paint(figure: Figure, ink: str) -> None:
        axes = figure.add_subplot()
        colours, scale = mpl.colormaps[COLOURS], Normalize(0.0, 2.0, clip=True)
        mesh = axes.pcolormesh(
            np.ma.masked_invalid(values), cmap=colours, norm=scale, edgecolors="white", linewidth=1.5
        )
        for row, column in zip(*np.nonzero(np.isfinite(values)), strict=True):
            share = values[row, column]
            dark = abs(share - 1.0) > 0.6
            axes.text(
                column + 0.5,
                row + 0.5,
                f"{share:.2f}",
                ha="center",
                va="center",
                color="#ffffff" if dark else "#111111",
            )
        axes.set_xticks(np.arange(n) + 0.5, shown, rotation=35, ha="right", rotation_mode="anchor")
        axes.set_yticks(np.arange(n) + 0.5, shown)
        axes.set_xlabel("beside")
        axes.set_ylabel("share of")
        axes.invert_yaxis()
        axes.set_aspect(CELL_IN[1] / CELL_IN[0])
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
        bar = figure.colorbar(mesh, ax=axes, shrink=0.8, pad=0.02)
        bar.set_ticks([0.0, 0.5, 1.0, 1.5, 2.0], labels=["0", "half of fair", "1 = fair", "1.5", "2 = all"])
        bar.outline.set_visible(False)
        if bar.solids is not None:
            bar.solids.set(rasterized=False, edgecolor="face")

    label_in = max(map(len, shown)) * 0.085
    size = (label_in + CELL_IN[0] * n + 2.0, 0.75 * label_in + CELL_IN[1] * n + 0.9)
    words = f"Map of shares: {', '.join(laws)}, each beside each of the others"
    return make_picture("neighbours", words, paint, size)
