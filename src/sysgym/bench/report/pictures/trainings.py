"""Picture of training curves: a panel for each scenario, a line for each training in its agent's colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sysgym.bench.report.data.curves import Curve
from sysgym.bench.report.pictures.labels import name_lines
from sysgym.bench.report.pictures.plots import COLOURS, MARKERS, Picture, Style, make_picture, tidy
from sysgym.bench.report.texts import in_picture

COLUMNS = 3
PANEL_IN = (4.6, 3.2)
"""Width and height of a panel, inches."""

POINTS = 101


def training_curves(
    curves: Sequence[Curve], looks: Mapping[str, Style], scenarios: Mapping[str, str]
) -> Picture | None:
    """Draw the return of training episodes over environment steps; None without trainings.

    Thin lines are trainings; a thick line is the median of an agent's trainings if it has several.

    Args:
        curves: Curves of all trainings.
        looks: Contender -> style.
        scenarios: Digest of a scenario -> name.
    """
    panels: dict[str, dict[str, list[Curve]]] = {}
    for curve in curves:
        panels.setdefault(curve.scenario(scenarios), {}).setdefault(curve.agent, []).append(curve)
    if not panels:
        return None
    columns = min(len(panels), COLUMNS)
    rows = -(-len(panels) // columns)

    def draw(figure: Figure, ink: str) -> None:
        cells = figure.subplots(rows, columns, squeeze=False)
        for axes, (scenario, agents) in zip(cells.flat, panels.items(), strict=False):
            ends: dict[str, tuple[float, float]] = {}
            colours: dict[str, str] = {}
            for index, (agent, trainings) in enumerate(agents.items()):
                look = looks.get(agent, Style(COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]))
                colours[agent] = look.colour
                ends[agent] = _draw_agent(axes, trainings, look)
            axes.set_title(in_picture(scenario), fontsize=10, loc="left")
            axes.set_xlim(left=0.0)
            axes.set_xlabel("environment steps (thousands)")
            tidy(axes, ink, grid="both")
            name_lines(axes, ends, colours, ink, PANEL_IN[1] - 0.9)
        for axes in cells[:, 0]:
            axes.set_ylabel("episode return")
        for axes in cells.flat[len(panels) :]:
            axes.set_visible(False)

    names = ", ".join(dict.fromkeys(curve.agent for curve in curves))
    words = f"Training curves of {names} on {', '.join(panels)}"
    return make_picture("training", words, draw, (PANEL_IN[0] * columns, PANEL_IN[1] * rows))


def caption(curves: Sequence[Curve]) -> str:
    """Return the caption of the picture."""
    words = "Return of training episodes with exploration, mean of the last 20, a panel for each scenario."
    agents = [curve.agent for curve in curves]
    if len(set(agents)) < len(agents):
        words += " Thin: one training each; thick: the median of an agent's trainings on the scenario."
    return words


def _draw_agent(axes: Any, trainings: Sequence[Curve], look: Style) -> tuple[float, float]:
    """Draw an agent's trainings and return the end of its line."""
    several = len(trainings) > 1
    for curve in trainings:
        axes.plot(
            curve.steps / 1e3,
            curve.mean_return,
            color=look.colour,
            linewidth=0.8 if several else 1.9,
            alpha=0.55 if several else 1.0,
        )
    if not several:
        return float(trainings[0].steps[-1] / 1e3), float(trainings[0].mean_return[-1])
    first = max(float(curve.steps[0]) for curve in trainings)
    last = max(float(curve.steps[-1]) for curve in trainings)
    steps = np.linspace(first, last, POINTS)
    values = [np.interp(steps, curve.steps, curve.mean_return, right=np.nan) for curve in trainings]
    middle = np.nanmedian(values, axis=0)
    axes.plot(steps / 1e3, middle, color=look.colour, linewidth=2.2)
    return float(steps[-1] / 1e3), float(middle[-1])
