"""Picture of laws on random networks: scores, and slowdowns by size against DCTCP's."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from sysgym.bench.report.pictures.plots import COLOURS, MARKERS, Picture, make_picture, tidy
from sysgym.bench.report.texts import in_picture
from sysgym.studies.random_networks.comparison import (
    BASELINE,
    QUANTILES,
    RIVAL,
    SIZES,
    Comparison,
    in_percent,
)

PANELS_IN = (11.0, 3.9)
SPREAD = 0.5
"""Width over which the points of one flow size are spread; sizes are 1 apart."""


def draw(found: Comparison) -> Picture:
    """Draw three panels: scores, median slowdowns and p99 slowdowns."""

    def paint(figure: Figure, ink: str) -> None:
        scores, *slowdowns = figure.subplots(1, 3, width_ratios=(1.1, 1.0, 1.0))
        _draw_scores(scores, found)
        for axes, (quantile, words) in zip(slowdowns, QUANTILES.items(), strict=True):
            _draw_slowdowns(axes, found, quantile)
            axes.set_title(f"FCT slowdown, {words}", fontsize=10)
            tidy(axes, ink, grid="y")
        slowdowns[0].set_ylabel(f"change against {BASELINE}")
        tidy(scores, ink, grid="x")
        handles, labels = slowdowns[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), frameon=False)

    words = f"Scores less {RIVAL}'s of {', '.join(found.powers)}, and slowdowns against {BASELINE}'s by size"
    return make_picture("networks", words, paint, PANELS_IN)


def _draw_scores(axes: Axes, found: Comparison) -> None:
    laws = sorted((law for law in found.powers if law != RIVAL), key=lambda law: found.powers[law].mean())
    for height, law in enumerate(laws):
        lead = found.lead(law)
        axes.errorbar(
            lead.value,
            height,
            xerr=[[lead.value - lead.low], [lead.high - lead.value]],
            color=_colour(found, law),
            marker="o",
            markersize=4.5,
            elinewidth=1.3,
        )
    axes.axvline(0.0, color="#888888", linewidth=1.0)
    axes.set_yticks(range(len(laws)), [in_picture(law) for law in laws])
    axes.set_xlabel(f"score less {RIVAL}'s (1: twice the power)")


def _draw_slowdowns(axes: Axes, found: Comparison, quantile: str) -> None:
    laws = found.shown
    for number, law in enumerate(laws):
        places, changes = [], []
        for place, size in enumerate(SIZES):
            logarithms = found.changes(law, f"fct_slowdown_{quantile}{size}")
            if len(logarithms):
                places.append(place + SPREAD * ((number + 0.5) / len(laws) - 0.5))
                changes.append(in_percent(logarithms))
        axes.errorbar(
            places,
            [one.value for one in changes],
            yerr=[[one.value - one.low for one in changes], [one.high - one.value for one in changes]],
            label=in_picture(law),
            color=_colour(found, law),
            marker=MARKERS[number % len(MARKERS)],
            linestyle="none",
            markersize=4.5,
            elinewidth=1.1,
        )
    axes.axhline(0.0, color="#888888", linewidth=1.0)
    labels = [words.replace(" and more", "+") for words in SIZES.values()]
    axes.set_xticks(range(len(labels)), labels, rotation=30, ha="right", rotation_mode="anchor")
    axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))


def _colour(found: Comparison, law: str) -> str:
    shown = found.shown
    return COLOURS[shown.index(law) % len(COLOURS)] if law in shown else "#777777"
