"""Names beside points: no name is nearer to another point than to its own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sysgym.bench.report.pictures.labels import _gap, name_points

NEAR = {"reno": (310.0, 9.73), "cubic": (327.0, 9.73), "dctcp": (5.0, 9.7)}


@pytest.mark.parametrize(
    "points", [NEAR, {**NEAR, "bbr": (318.0, 9.72)}, {**NEAR, "newvegas": (170.0, 9.73)}]
)
def test_a_name_is_nearest_to_its_own_point(points: Mapping[str, tuple[float, float]]) -> None:
    figure = Figure(figsize=(8.0, 3.9), dpi=150.0, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_xscale("log")
    axes.scatter(*np.array(list(points.values())).T)
    axes.margins(x=0.08, y=0.12)
    name_points(axes, points, (), "black")
    figure.draw_without_rendering()
    places = {name: axes.transData.transform(point) for name, point in points.items()}
    for written in axes.texts:
        box = written.get_window_extent()
        gaps = {name: _gap(box, *place) for name, place in places.items()}
        assert min(gaps, key=gaps.__getitem__) == written.get_text()
