"""Names of lines and points in pictures, written beside them instead of in a legend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.transforms import Bbox

from sysgym.bench.report.texts import in_picture

NAME_IN = 0.165
"""Height of a line's name, inches."""

BESIDE = 1.06
"""Horizontal position at which names begin, in widths of the panel."""


def name_lines(
    axes: Any,
    ends: Mapping[str, tuple[float, float]],
    colours: Mapping[str, str],
    ink: str,
    height_in: float,
) -> None:
    """Write every name to the right of its line's end, as near as the other names allow.

    Names are written in the text colour, for contrast, and connected to the line's end in the line's colour.

    Args:
        axes: Matplotlib axes; this function fixes their limits.
        ends: Name -> end of its line, data coordinates.
        colours: Name -> colour of its line; names without a colour are in the background.
        ink: Colour of texts.
        height_in: Height of the panel, inches.
    """
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    left, right = axes.get_xlim()
    axes.set_xlim(left, right)
    places = {name: ((x - left) / (right - left), (y - low) / (high - low)) for name, (x, y) in ends.items()}
    order = sorted(places, key=lambda name: (places[name][1], name))
    heights = spread([places[name][1] for name in order], NAME_IN / height_in)
    for name, height in zip(order, heights, strict=True):
        strong = name in colours
        axes.annotate(
            in_picture(name),
            xy=places[name],
            xytext=(BESIDE, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=ink,
            fontsize=9 if strong else 8,
            fontweight="bold" if strong and len(colours) < len(ends) else "normal",
            verticalalignment="center",
            arrowprops={
                "arrowstyle": "-",
                "relpos": (0.0, 0.5),
                "color": colours.get(name, ink),
                "alpha": 0.8 if strong else 0.35,
                "linewidth": 1.1 if strong else 0.7,
                "shrinkA": 1.0,
                "shrinkB": 1.0,
            },
        )


def spread(heights: Sequence[float], room: float) -> list[float]:
    """Return heights of names in [0, 1], at least ``room`` apart and as near to the desired ones as possible.

    Args:
        heights: Desired heights, ascending.
        room: Height of one name; all names must fit.
    """
    # Names that would overlap form a block, which is placed at the mean of its members' desired heights.
    blocks: list[tuple[float, int]] = []  # lowest member's height, number of members
    for wanted in heights:
        low, number = wanted, 1
        low = min(max(low, 0.0), 1.0)
        while blocks and blocks[-1][0] + blocks[-1][1] * room > low:
            below, below_number = blocks.pop()
            # Mean over the members of the lowest position that would put each at its desired height.
            low = (below * below_number + (low - below_number * room) * number) / (below_number + number)
            number += below_number
            low = max(min(low, 1.0 - (number - 1) * room), 0.0)
        blocks.append((low, number))
    return [low + index * room for low, number in blocks for index in range(number)]


NEAR_PT = (9.0, 15.0, 24.0, 36.0, 52.0)
"""Distances from a point at which its name may be placed, in typographic points."""

DIRECTIONS = (
    (1.0, 0.35), (-1.0, 0.35), (1.0, -0.9), (-1.0, -0.9), (0.0, 1.0), (0.0, -1.2), (1.0, 1.2), (-1.0, 1.2),
)  # fmt: skip
"""Positions of a name relative to its point, the preferred first."""

CLEARLY_FARTHER = 1.5
"""Minimum ratio of distances for which a name clearly belongs to the nearer of two points."""


def name_points(
    axes: Any, points: Mapping[str, tuple[float, float]], strong: Sequence[str], ink: str
) -> None:
    """Write every name beside its point, where possible without covering other names or points.

    Positions that are nearer to another point than to the name's own are avoided, and so are positions that
    are about as near to both. A name far from its point is connected to the point by a line.

    Args:
        axes: Matplotlib axes with everything else drawn and final limits.
        points: Name -> position of the point, data coordinates.
        strong: Names to place first, in larger letters.
        ink: Colour of texts.
    """
    figure = axes.figure
    figure.draw_without_rendering()  # determines the sizes in pixels
    per_point = figure.dpi / 72.0
    places = {name: axes.transData.transform(point) for name, point in points.items()}
    mark = 8.0 * per_point
    taken = [Bbox.from_bounds(x - 0.5 * mark, y - 0.5 * mark, mark, mark) for x, y in places.values()]
    room = axes.get_window_extent()
    for name in sorted(points, key=lambda name: (name not in strong, -places[name][1], name)):
        size = 9.0 if name in strong else 8.0
        written = axes.annotate(
            in_picture(name),
            points[name],
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=size,
            color=ink,
        )
        written.set_in_layout(False)
        box = written.get_window_extent()
        x, y = places[name]
        candidates = list(_candidates(x, y, box.width, box.height, per_point))
        others = [place for other, place in places.items() if other != name]
        costs = [_covered(one, taken, room) for one in candidates]
        for index, candidate in enumerate(candidates):
            ratio = CLEARLY_FARTHER if index < len(DIRECTIONS) else 1.0  # more distant positions get a line
            if any(_gap(candidate, *other) < ratio * _gap(candidate, x, y) for other in others):
                costs[index] += box.width * box.height
        offset = costs.index(min(costs))
        chosen = candidates[offset]
        written.set_position(((chosen.x0 - x) / per_point, (chosen.y0 - y) / per_point))
        taken.append(chosen)
        if offset >= len(DIRECTIONS):
            near = (min(max(x, chosen.x0), chosen.x1), min(max(y, chosen.y0), chosen.y1))
            ends = axes.transData.inverted().transform([(x, y), near])
            axes.plot(ends[:, 0], ends[:, 1], color=ink, alpha=0.5, linewidth=0.7, zorder=1.5)


def _candidates(x: float, y: float, width: float, height: float, per_point: float) -> Iterator[Bbox]:
    """Yield boxes around a point, the nearest first."""
    for distance in NEAR_PT:
        for right, up in DIRECTIONS:
            step = distance * per_point
            left = x + right * step - (0.0 if right > 0.0 else width if right < 0.0 else 0.5 * width)
            yield Bbox.from_bounds(left, y + up * step - 0.4 * height, width, height)


def _gap(box: Bbox, x: float, y: float) -> float:
    """Return the distance of a point from a box, pixels."""
    return float(np.hypot(max(box.x0 - x, x - box.x1, 0.0), max(box.y0 - y, y - box.y1, 0.0)))


def _covered(box: Bbox, taken: Sequence[Bbox], room: Bbox) -> float:
    """Return the area of other boxes that a box covers, plus four times its area outside the room."""
    outside = box.width * box.height - _overlap(box, room)
    return sum(_overlap(box, one) for one in taken) + 4.0 * round(outside, 3)


def _overlap(one: Bbox, other: Bbox) -> float:
    """Return the common area of two boxes, square pixels."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return width * height if width > 0.0 and height > 0.0 else 0.0
