"""Utilities common to all pictures: units, names, and figures as arrays."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import numpy as np

from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.emulator.accelerators.programs.patterns import Collective, Instruction
from sysgym.envs.placement.metrics import log_ratio

INK = "#202020"
FAINT = "#8c8c8c"
BOUND = "#c1121f"
"""Of the links that say how long something takes."""
GOOD = "#007a3d"

COLLECTIVE_NAMES = {
    Collective.ALL_REDUCE: "AllReduce",
    Collective.REDUCE_SCATTER: "ReduceScatter",
    Collective.ALL_GATHER: "AllGather",
    Collective.REDUCE: "Reduce",
    Collective.BROADCAST: "Broadcast",
}
# Okabe and Ito's palette, safe for colour-blind readers.
COLLECTIVE_COLOURS = {
    Collective.ALL_REDUCE: "#0072b2",
    Collective.REDUCE_SCATTER: "#e69f00",
    Collective.ALL_GATHER: "#009e73",
    Collective.REDUCE: "#d55e00",
    Collective.BROADCAST: "#cc79a7",
}
LEVEL_COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7")
"""Of levels, outermost first."""

GROUP_COLOURS = (
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f",
    "#a0cbe8", "#ffbe7d", "#8cd17d", "#ff9d9a", "#d4a6c8", "#3c8d87", "#b6992d", "#bab0ac",
)  # fmt: skip
"""Of reduction groups; their numbers say which where there are more."""

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def time_scale(value_s: float) -> tuple[float, str]:
    """Return the unit best suited to a time: its length in seconds, and its name."""
    return next(((scale, unit) for scale, unit in _TIMES if value_s >= scale), _TIMES[-1])


def time(value_s: float) -> str:
    """Return a time with its unit, three digits."""
    scale, unit = time_scale(value_s)
    return f"{_digits(value_s / scale)} {unit}"


def size(value_bytes: float) -> str:
    """Return a size with its unit, three digits."""
    scale, unit = next(((scale, unit) for scale, unit in _SIZES if value_bytes >= scale), _SIZES[-1])
    return f"{_digits(value_bytes / scale)} {unit}"


def bandwidth(value_bytes_per_s: float) -> str:
    """Return a bandwidth with its unit."""
    return f"{size(value_bytes_per_s)}/s"


def compared(time_s: float, to_s: float, name: str) -> str:
    """Return a comparison of two times in words: ``3.2 times as fast as NAME``."""
    log = log_ratio(to_s, time_s)
    if abs(log) < 5e-4:
        return f"as fast as {name}"
    return f"{_digits(float(np.exp(abs(log))))} times as {'fast' if log > 0 else 'slow'} as {name}"


def axes_words(axes: tuple[int, ...]) -> str:
    """Return axes in words: ``axes 4 x 16``."""
    return f"{'axes' if len(axes) > 1 else 'axis'} {' x '.join(map(str, axes))}"


def text_on(colour: str) -> str:
    """Return the colour of text that is legible on a colour."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else INK


def system(problem: PlacementProblem) -> str:
    """Return a system in words: ``4 nodes x 16 gpus (p2-a100)``."""
    levels = problem.hierarchy.levels
    words = " x ".join(f"{level.cardinality} {plural(level.name, level.cardinality)}" for level in levels)
    return f"{words} ({problem.hierarchy.name})"


def plural(noun: str, count: int) -> str:
    """Return a noun in the singular or plural for a number."""
    return noun if count == 1 else f"{noun}s"


def reduction(one: Reduction, axes: tuple[int, ...]) -> str:
    """Return a reduction in words: ``1.2 GB over axis 1 (16)``."""
    named = " and ".join(f"{axis} ({axes[axis]})" for axis in one.axes)
    return f"{size(one.size_bytes)} over {'axis' if len(one.axes) == 1 else 'axes'} {named}"


def instruction(one: Instruction, n_levels: int) -> str:
    """Return an instruction in words: ``inside: ReduceScatter``."""
    return f"{one.pattern.label(n_levels)}: {COLLECTIVE_NAMES[one.collective]}"


def wrapped(lines: Iterable[str], width: float, font_size: float) -> str:
    """Return lines wrapped to the width of a figure.

    Args:
        lines: Lines of text.
        width: Width of the figure, inches.
        font_size: Font size in points; a letter of matplotlib's font is about 0.58 of it wide.
    """
    most = int(72 * width / (0.58 * font_size))
    return "\n".join(part for line in lines for part in textwrap.wrap(line, most) or [""])


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"
