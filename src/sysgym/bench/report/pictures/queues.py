"""Picture of queues over time: a panel for each contender, with the reference in the background."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sysgym.bench.report.data.benchmark import ScenarioResult
from sysgym.bench.report.pictures.gallery import Shown
from sysgym.bench.report.pictures.plots import Style, make_picture, tidy
from sysgym.bench.report.texts import in_picture
from sysgym.bench.results import queues
from sysgym.bench.results.queues import QueueSeries
from sysgym.scenarios.units import unit_of

COLUMNS = 4
PANEL_IN = (2.4, 1.55)
"""Width and height of a panel, inches."""

COINCIDES = 0.02
"""Largest distance of two coinciding lines, relative to the longest queue."""


def queues_over_time(result: ScenarioResult, folder: Path, looks: Mapping[str, Style]) -> Shown | None:
    """Return the picture and its caption; None if no queue was stored.

    Args:
        result: Results of one scenario.
        folder: Results folder.
        looks: Contender -> style.
    """
    seed = result.seeds[0]
    found = {
        player.name: series
        for player in result.players
        if (row := result.row(player.name, seed)) is not None
        and (series := queues.read(folder, row)) is not None
    }
    if not found:
        return None
    values = [series.queue_bytes.max() for series in found.values()]
    time, size = (unit_of("x_s", [one.time_s[-1] for one in found.values()]), unit_of("x_bytes", values))
    reference = found.get(result.reference)
    levels = {
        words: level
        for words, key in (("buffer", "buffer_bytes"), ("marking threshold", "ecn_threshold_bytes"))
        if (level := _level(result, key)) is not None and level <= 1.5 * max(values)
    }
    columns = min(COLUMNS, len(found))
    rows = -(-len(found) // columns)

    def draw(figure: Figure, ink: str) -> None:
        cells = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, (name, series) in zip(cells.flat, found.items(), strict=False):
            if reference is not None and name != result.reference:
                axes.plot(*_shown(reference, time.size, size.size), color=ink, alpha=0.35, linewidth=0.9)
            axes.plot(*_shown(series, time.size, size.size), color=looks[name].colour, linewidth=1.4)
            for level, style in zip(levels.values(), (":", "--"), strict=False):
                axes.axhline(level / size.size, color=ink, linestyle=style, linewidth=0.9, alpha=0.7)
            same = reference is not None and name != result.reference and _coincide(series, reference)
            words = f"{in_picture(name, 26)}, as {result.reference}" if same else in_picture(name, 32)
            axes.set_title(words, fontsize=9, loc="left")
            axes.set_ylim(bottom=0.0)
            axes.tick_params(labelsize=8)
            tidy(axes, ink, grid="both")
        for axes in cells.flat[len(found) :]:
            axes.set_visible(False)
        figure.supxlabel(f"simulated time ({time.symbol})", fontsize=9)
        figure.supylabel(f"longest queue ({size.symbol})", fontsize=9)

    words = f"Queue over time of {', '.join(found)} on {result.label}"
    inches = (PANEL_IN[0] * max(columns, 2) + 0.4, PANEL_IN[1] * rows + 0.5)
    caption = (
        f"The longest queue of a switch port in the episode of seed {seed}, a panel for each contender"
        f"{f'; grey: {result.reference}' if reference is not None and len(found) > 1 else ''}."
    )
    if levels:
        lines = [f"{kind}: the {words}" for words, kind in zip(levels, ("dotted", "dashed"), strict=False)]
        caption += f" Horizontal lines, {'; '.join(lines)}."
    return make_picture(f"{result.slug}-queues", words, draw, inches), caption


def _shown(
    series: QueueSeries, time_s: float, size_bytes: float
) -> tuple[queues.FloatArray, queues.FloatArray]:
    return series.time_s / time_s, series.queue_bytes / size_bytes


def _coincide(one: QueueSeries, other: QueueSeries) -> bool:
    """Return whether two lines coincide in the picture."""
    there = np.interp(one.time_s, other.time_s, other.queue_bytes)
    highest = max(one.queue_bytes.max(), other.queue_bytes.max())
    return bool(np.abs(one.queue_bytes - there).max() <= COINCIDES * highest)


def _level(result: ScenarioResult, key: str) -> float | None:
    """Return a setting of the queues; None if it is absent or varies between episodes."""
    try:
        split = result.resolved["splits"][result.split]
        value = result.resolved["queue"][key]
        varies = any("queue" in name for name in (*split["vary"], *split["ranges"]))
    except (KeyError, TypeError):
        return None
    return float(value) if isinstance(value, int | float) and not varies else None
