"""Picture of a placement: devices in the boxes of their levels, coloured by reduction group."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.matrices import Matrix, reduction_groups
from sysgym.emulator.accelerators.problem import PlacementProblem
from sysgym.envs.pictures import Picture, new_figure, pixels
from sysgym.envs.placement.metrics import Outcome
from sysgym.envs.placement.render.common import (
    BOUND,
    FAINT,
    GROUP_COLOURS,
    INK,
    axes_words,
    bandwidth,
    compared,
    plural,
    reduction,
    system,
    text_on,
    time,
    time_scale,
    wrapped,
)
from sysgym.envs.placement.tasks import PlacementTask

MOST_DRAWN = 1152
"""Largest number of devices drawn; beyond it, only the first instances of the outermost level are."""

MOST_STUBS = 8
LEAST_FONT = 5.0
"""Points; smaller text is left out."""

BAR_WIDTH = 30
HEIGHT = 7.2
"""Of a picture, inches."""

_GAP = 0.56
_STUB = 0.42
_EMPTY = "#dddddd"


@dataclass(frozen=True)
class PlacementScene:
    """Data to draw.

    Attributes:
        title: Name of the scenario.
        task: The problem and all its placements.
        chosen: Axis of each prime placed so far.
        matrix: Matrix of the factors placed so far.
        most_reductions: Largest number of reductions in any episode.
        outcome: Outcome of the episode; None while it is in progress.
    """

    title: str
    task: PlacementTask
    chosen: tuple[int, ...]
    matrix: Matrix
    most_reductions: int
    outcome: Outcome | None

    @property
    def problem(self) -> PlacementProblem:
        """The problem."""
        return self.task.problem

    @property
    def complete(self) -> bool:
        """Whether the placement is complete."""
        return len(self.chosen) == len(self.task.steps)

    @cached_property
    def link_times_s(self) -> NDArray[np.float64]:
        """Time of each reduction on the most loaded link of each level, [n_reductions, n_levels]."""
        return self.task.link_times_s(self.matrix)

    @cached_property
    def times_s(self) -> NDArray[np.float64]:
        """Time of each reduction, [n_reductions]."""
        return self.task.reduction_times_s(self.matrix)

    @property
    def heading(self) -> str:
        """One-line description of the problem."""
        sizes = axes_words(self.problem.axes)
        return f"{self.title}: {sizes} on {system(self.problem)}"

    @property
    def verdict(self) -> str:
        """One-line description of the result."""
        task = self.task
        if self.outcome is not None and not self.outcome.valid:
            return f"not valid: counts as the default, {time(self.outcome.time_s)}"
        if not self.complete:
            level, prime = task.steps[len(self.chosen)]
            name = self.problem.hierarchy.levels[level].name
            return (
                f"{len(self.chosen)} of {len(task.steps)} primes placed; next: a {prime} of the "
                f"{plural(name, 2)}; default {time(task.default_time_s)}, best {time(task.best_time_s)}"
            )
        time_s = task.time_s(self.matrix)
        default = compared(time_s, task.default_time_s, f"the default ({time(task.default_time_s)})")
        best = compared(time_s, task.best_time_s, f"the best ({time(task.best_time_s)})")
        return f"{time(time_s)}: {default}, {best}"

    def row(self, axis: int) -> str:
        """Return a one-line description of the placement of an axis."""
        parts = [
            f"{factor} {plural(level.name, factor)}"
            for factor, level in zip(self.matrix[axis], self.problem.hierarchy.levels, strict=True)
            if factor > 1
        ]
        left = self.problem.axes[axis] // math.prod(self.matrix[axis])
        parts += [f"{left} not placed yet"] if left > 1 else []
        return f"axis {axis} ({self.problem.axes[axis]}): {' x '.join(parts) or 'one device'}"


def placement_text(scene: PlacementScene) -> str:
    """Return a few lines: the problem, the result, the placement of axes, and the times on links."""
    problem = scene.problem
    lines = [scene.heading, f"  {scene.verdict}"]
    lines += [f"  {scene.row(axis)}" for axis in range(problem.n_axes)]
    for index, one in enumerate(problem.reductions):
        if not scene.complete:
            lines.append(f"reduction {index + 1}, {reduction(one, problem.axes)}")
            continue
        groups = reduction_groups(problem.hierarchy.cardinalities, scene.matrix, one.axes)
        lines.append(
            f"reduction {index + 1}, {reduction(one, problem.axes)}: {time(float(scene.times_s[index]))}, "
            f"{_groups(groups)}"
        )
        longest_s = float(scene.link_times_s[index].max())
        for level, link_s in zip(problem.hierarchy.levels, scene.link_times_s[index].tolist(), strict=True):
            full = round(link_s / longest_s * BAR_WIDTH) if longest_s else 0
            words = time(link_s) if link_s else "not used"
            lines.append(f"  {_link(level):<32} |{'█' * full:<{BAR_WIDTH}}| {words:>8}")
    return "\n".join(lines) + "\n"


def placement_picture(scene: PlacementScene) -> Picture:
    """Return a picture, shape (height, width, 3): for every reduction the devices and the links below.

    The size is the same in all episodes; boxes are arranged so that they fill it.
    """
    problem = scene.problem
    count = len(problem.reductions)
    n_links = problem.hierarchy.n_levels
    width = max(8.6, 4.7 * scene.most_reductions)
    drawn_height = HEIGHT - 2.45 - 0.27 * n_links
    boxes = _Boxes(problem, 0.86 * width / count / drawn_height)
    figure = new_figure(width, HEIGHT)
    rows = ";   ".join(scene.row(axis) for axis in range(problem.n_axes))
    figure.suptitle(wrapped([scene.heading, scene.verdict], width, 11), fontsize=11)
    panels = figure.subplots(2, count, squeeze=False, height_ratios=(drawn_height, 0.3 + 0.27 * n_links))
    most_groups = 0
    for index, one in enumerate(problem.reductions):
        above, below = panels[:, index]
        groups = None
        title = reduction(one, problem.axes)
        if scene.complete:
            groups = reduction_groups(problem.hierarchy.cardinalities, scene.matrix, one.axes)
            most_groups = max(most_groups, len(groups))
            title += f"\n{time(float(scene.times_s[index]))}, {_groups(groups)}"
        above.set_title(title, fontsize=10)
        link_s = scene.link_times_s[index] if scene.complete else np.zeros(n_links)
        _draw_devices(above, boxes, groups, link_s, 100 * width / count)
        _draw_links(below, problem, link_s, named=index == 0, known=scene.complete)
    figure.supxlabel(wrapped([rows, *_footnotes(boxes, most_groups)], width, 9), fontsize=9)
    return pixels(figure)


class _Boxes:
    """Positions of devices and the boxes around them, in units of the width of a device.

    Args:
        problem: The problem.
        aspect: Width over height of the area that the boxes should fill.
    """

    def __init__(self, problem: PlacementProblem, aspect: float = 1.3) -> None:
        levels = problem.hierarchy.levels
        self.levels = [index for index, level in enumerate(levels) if level.cardinality > 1] or [
            len(levels) - 1
        ]
        self.shown = list(problem.hierarchy.cardinalities)
        self.left_out = 0
        outermost = self.levels[0]
        inside = problem.hierarchy.devices_inside(outermost)
        if problem.hierarchy.n_devices > MOST_DRAWN:
            self.shown[outermost] = max(1, MOST_DRAWN // inside)
            self.left_out = levels[outermost].cardinality - self.shown[outermost]
        self.names = [level.name for level in levels]
        self.outermost_name = levels[outermost].name
        self.inside = [problem.hierarchy.devices_inside(index) for index in range(len(levels))]
        self.uplinks = [level.uplinks for level in levels]
        # (level, first device, x, y, width, height) of every instance; y grows downwards.
        self.instances: list[tuple[int, int, float, float, float, float]] = []
        self._aspect = aspect
        self.width, self.height = self._size(0)
        self._place(0, 0, 0.0, 0.0)

    def _size(self, depth: int) -> tuple[float, float]:
        """Return the size of the instances of all levels from a depth on, side by side."""
        if depth == len(self.levels):
            return 0.86, 0.86
        width, height = self._box(depth)
        columns, rows = self._grid(depth)
        gap = self._gap(depth)
        return columns * width + (columns - 1) * gap, rows * height + (rows - 1) * gap

    def _box(self, depth: int) -> tuple[float, float]:
        """Return the size of one instance of a level."""
        width, height = self._size(depth + 1)
        innermost = depth == len(self.levels) - 1
        return (width, height) if innermost else (width + 2 * _GAP, height + 1.7 * _GAP + _STUB)

    def _gap(self, depth: int) -> float:
        return 0.14 if depth == len(self.levels) - 1 else _GAP

    def _grid(self, depth: int) -> tuple[int, int]:
        count = self.shown[self.levels[depth]]
        width, height = self._box(depth)
        # Near the aspect, and without an incomplete row if possible.
        wanted = max(1.0, min(float(count), math.sqrt(self._aspect * count * height / width)))
        divisors = [one for one in range(1, count + 1) if count % one == 0]
        columns = min(divisors, key=lambda one: abs(math.log(one / wanted)))
        if abs(math.log(columns / wanted)) > math.log(2.1):
            columns = round(wanted)
        return columns, -(-count // columns)

    def _place(self, depth: int, first: int, x: float, y: float) -> None:
        if depth == len(self.levels):
            return
        level = self.levels[depth]
        columns, _ = self._grid(depth)
        width, height = self._box(depth)
        gap = self._gap(depth)
        for index in range(self.shown[level]):
            left = x + index % columns * (width + gap)
            top = y + index // columns * (height + gap)
            device = first + index * self.inside[level]
            self.instances.append((level, device, left, top, width, height))
            if depth < len(self.levels) - 1:
                self._place(depth + 1, device, left + _GAP, top + _GAP + _STUB)


def _draw_devices(
    axes: Any,
    boxes: _Boxes,
    groups: NDArray[np.int32] | None,
    link_s: NDArray[np.float64],
    width_pixels: float,
) -> None:
    from matplotlib.patches import FancyBboxPatch, Rectangle

    group_of = {}
    if groups is not None:
        group_of = {int(device): number for number, members in enumerate(groups) for device in members}
    longest_s = float(link_s.max()) or 1.0
    # Size of a device's square in points, for the number in it.
    points = 0.86 * min(width_pixels / (boxes.width + 2 * _GAP), 600 / (boxes.height + 1)) * 72 / 100
    font_size = min(0.42 * points, 11.0)
    for level, device, x, y, width, height in boxes.instances:
        if level != boxes.levels[-1]:
            share = float(link_s[level]) / longest_s
            body = FancyBboxPatch(
                (x, y + _STUB), width, height - _STUB, boxstyle="round,pad=0,rounding_size=0.25",
                facecolor="#f7f7f7", edgecolor=FAINT, linewidth=1.0,
            )  # fmt: skip
            axes.add_patch(body)
            stubs = min(boxes.uplinks[level], MOST_STUBS)
            thick = min(0.5, 0.6 * width / stubs)
            for stub in range(stubs):
                middle = x + (stub + 0.5) * width / stubs
                uplink = Rectangle(
                    (middle - thick / 2, y),
                    thick,
                    _STUB,
                    facecolor=_heat(share),
                    edgecolor=FAINT,
                    linewidth=0.5,
                )
                axes.add_patch(uplink)
            label_size = min(0.34 * points, 8.5)
            if label_size >= LEAST_FONT:
                name = f"{boxes.names[level]} {device // boxes.inside[level] % boxes.shown[level]}"
                axes.text(x + _GAP, y + _STUB + 0.5 * _GAP, name, va="center", fontsize=label_size, color=INK)
            continue
        group = group_of.get(device)
        colour = _EMPTY if group is None or group >= len(GROUP_COLOURS) else GROUP_COLOURS[group]
        axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, linewidth=0))
        if group is not None and font_size >= LEAST_FONT:
            axes.text(
                x + width / 2, y + height / 2, str(group), ha="center", va="center", fontsize=font_size,
                color=text_on(colour),
            )  # fmt: skip
    axes.set_xlim(-_GAP, boxes.width + _GAP)
    axes.set_ylim(boxes.height + 0.3, -0.3)
    axes.set_aspect("equal")
    axes.axis("off")


def _draw_links(
    axes: Any, problem: PlacementProblem, link_s: NDArray[np.float64], *, named: bool, known: bool
) -> None:
    scale, unit = time_scale(float(link_s.max()) or 1e-3)
    longest = float(link_s.max()) / scale or 1.0
    for row, one_s in enumerate(link_s.tolist()):
        bound = one_s > 0 and one_s == link_s.max()
        axes.barh(row, one_s / scale, height=0.66, color=_heat(one_s / scale / longest))
        axes.text(
            one_s / scale + 0.02 * longest, row, _words(one_s, known=known), va="center", fontsize=9,
            color=BOUND if bound else INK,
        )  # fmt: skip
    labels = [_link(level) for level in problem.hierarchy.levels] if named else [""] * len(link_s)
    axes.set_yticks(range(len(link_s)), labels, fontsize=9)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(link_s) - 0.4, -0.6)
    axes.set_xlim(0.0, 1.3 * longest)
    axes.set_xlabel(f"time of the fullest link of each level ({unit})", fontsize=9)
    axes.locator_params(axis="x", nbins=5)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _footnotes(boxes: _Boxes, most_groups: int) -> list[str]:
    note = "devices of one colour and number reduce with each other" if most_groups else "nothing reduces yet"
    if most_groups > len(GROUP_COLOURS):
        note += f" (of many groups the first {len(GROUP_COLOURS)} have a colour)"
    if boxes.left_out:
        note += f"; {boxes.left_out} more {plural(boxes.outermost_name, boxes.left_out)} not drawn"
    if len(boxes.levels) == 1:
        return [note]
    return [note, "bars on a box: its uplinks, the redder the longer they take"]


def _groups(groups: NDArray[np.int32]) -> str:
    count, size = groups.shape
    return f"{count} {plural('group', count)} of {size} {plural('device', size)}"


def _link(level: Any) -> str:
    number = f"{level.uplinks} x " if level.uplinks > 1 else ""
    return f"{level.name}: {number}{bandwidth(level.bandwidth_bytes_per_s)}"


def _words(link_s: float, *, known: bool) -> str:
    return "not known yet" if not known else time(link_s) if link_s else "not used"


def _heat(share: float) -> tuple[float, float, float]:
    """Return a colour from light grey to red."""
    low, high = (0.87, 0.87, 0.87), (0.757, 0.071, 0.122)
    weight = math.sqrt(max(share, 0.0))
    red, green, blue = (a + weight * (b - a) for a, b in zip(low, high, strict=True))
    return red, green, blue
