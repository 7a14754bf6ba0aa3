"""Picture of a training job's trace: slowdowns of steps by rank, and the critical path of one step."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import (
    BACKWARD,
    BACKWARD_RECV,
    BETWEEN,
    FORWARD,
    FORWARD_RECV,
    LATE_START,
    THREAD,
    FloatArray,
    Operations,
    TrainingTrace,
)
from sysgym.emulator.training.replay import Replayed, replay
from sysgym.emulator.training.timing import gaps_s
from sysgym.emulator.training.what_if import WhatIf
from sysgym.scenarios.files import replacing


class _Style(NamedTuple):
    """Appearance of a bar of the timeline: its colour, place in its row, and layer."""

    colour: str
    top: float
    height: float
    layer: int


_PIPELINE = {
    "forward": _Style("#92c5de", -0.35, 0.7, 2),
    "backward": _Style("#2166ac", -0.35, 0.7, 2),
    "communication, optimizer": _Style("#bdbdbd", -0.125, 0.25, 1),
}
_OTHER_JOB = {
    BETWEEN: _Style("#d9d9d9", -0.36, 0.3, 1),
    "operators": _Style("#92c5de", -0.36, 0.3, 2),
    "computation": _Style("#2166ac", -0.06, 0.22, 2),
    "communication": _Style("#e08214", 0.16, 0.2, 2),
}
_CRITICAL = "#b2182b"
_MOST_RANKS_OF_A_STEP = 16
_MOST_OUTLINED = 200


def draw_trace(path: Path, trace: TrainingTrace, graph: Graph, what_if: WhatIf, step: int) -> None:
    """Write a picture with the slowdowns of ranks by step, and the timeline of one step.

    Args:
        path: Path of the PNG file.
        trace: The trace.
        graph: Dependencies of the trace's operations.
        what_if: What-if analysis of the trace.
        step: Index of the step whose timeline is drawn.
    """
    replayed = replay(graph, what_if.durations[step], np.maximum(gaps_s(trace, graph)[step], 0.0))
    figure = Figure(figsize=(10.0, 8.0), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, height_ratios=(1.0, 1.1))
    _heat_map(above, trace, what_if.rank_slowdowns())
    _timeline(below, trace, replayed, step)
    with replacing(path) as file:
        figure.savefig(file, dpi=110, format="png")


def _heat_map(axes: Axes, trace: TrainingTrace, slowdowns: FloatArray) -> None:
    lost_percent = 100.0 * (slowdowns - 1.0)
    image = axes.imshow(lost_percent, aspect="auto", cmap="magma_r", vmin=0.0, interpolation="nearest")
    bar = axes.figure.colorbar(image, ax=axes, pad=0.01)
    bar.set_label("longer step, %")
    axes.set_title(f"{trace.name}: longer steps if one rank alone had its stragglers")
    _label(axes.set_xticks, trace.steps)
    _label(axes.set_yticks, trace.operations.ranks)
    axes.set_xlabel("step")
    axes.set_ylabel("rank")


def _label(set_ticks: object, values: np.ndarray, most: int = 12) -> None:
    every = max(1, -(-len(values) // most))
    places = np.arange(0, len(values), every)
    set_ticks(places, [str(value) for value in values[places]])  # type: ignore[operator]


def _timeline(axes: Axes, trace: TrainingTrace, replayed: Replayed, step: int) -> None:
    operations = trace.operations
    on_path = np.unique(operations.rank[replayed.critical_path])
    others = np.setdiff1d(operations.ranks, on_path)
    shown = np.sort(np.concatenate([on_path, others])[:_MOST_RANKS_OF_A_STEP])
    styles = _PIPELINE if FORWARD in operations.kind else _OTHER_JOB
    label_of = np.array([_label_of(operations, one, styles) for one in range(len(operations))])
    drawn = ~np.isin(operations.kind, (FORWARD_RECV, BACKWARD_RECV, LATE_START))
    starts_ms, lengths_ms = 1e3 * replayed.start_s, 1e3 * (replayed.end_s - replayed.start_s)
    for row, rank in enumerate(shown):
        here = drawn & (operations.rank == rank)
        for label, style in styles.items():
            chosen = np.flatnonzero(here & (label_of == label))
            spans = list(zip(starts_ms[chosen].tolist(), lengths_ms[chosen].tolist(), strict=True))
            axes.broken_barh(
                spans, (row + style.top, style.height), facecolors=style.colour, edgecolor="white",
                linewidth=0.4 if len(chosen) < _MOST_OUTLINED else 0.0, zorder=style.layer,
            )  # fmt: skip
        critical = np.flatnonzero(here & replayed.critical)
        axes.hlines(
            np.full(len(critical), row + 0.42), starts_ms[critical], (starts_ms + lengths_ms)[critical],
            color=_CRITICAL, linewidth=2.5, zorder=3,
        )  # fmt: skip
    axes.set_yticks(range(len(shown)), [str(rank) for rank in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlim(0.0, 1e3 * replayed.step_s)
    axes.set_xlabel("time, ms")
    left_out = len(operations.ranks) - len(shown)
    axes.set_ylabel("rank" + (f" ({left_out} not shown)" if left_out else ""))
    axes.set_title(f"Step {trace.steps[step]}, replayed, with its critical path")
    present = [label for label in styles if label in label_of]
    patches = [Patch(color=styles[label].colour, label=label) for label in present]
    patches.append(Patch(color=_CRITICAL, label="critical path"))
    axes.figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False)


def _label_of(operations: Operations, one: int, styles: dict[str, _Style]) -> str:
    """Return the label of an operation's style."""
    kind = str(operations.kind[one])
    if styles is _PIPELINE:
        return {FORWARD: "forward", BACKWARD: "backward"}.get(kind, "communication, optimizer")
    if not operations.computes[one]:
        return "communication"
    if kind == BETWEEN:
        return BETWEEN
    return "operators" if str(operations.stream[one]).startswith(THREAD) else "computation"
