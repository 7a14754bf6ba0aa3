"""Picture of a training job's trace: who slows its steps down, and the critical path of one of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import (
    BACKWARD,
    BACKWARD_RECV,
    FORWARD,
    FORWARD_RECV,
    FloatArray,
    TrainingTrace,
)
from sysgym.emulator.training.replay import Replayed, replay
from sysgym.emulator.training.timing import gaps_s
from sysgym.emulator.training.what_if import WhatIf
from sysgym.scenarios.files import replacing

_FORWARD, _BACKWARD, _OTHER = "#92c5de", "#2166ac", "#bdbdbd"
_CRITICAL = "#b2182b"
_MOST_RANKS_OF_A_STEP = 16


def draw_trace(path: Path, trace: TrainingTrace, graph: Graph, what_if: WhatIf, step: int) -> None:
    """Write a picture with the slowdowns of ranks by step, and the timeline of one step.

    Args:
        path: The file, PNG.
        trace: The trace.
        graph: Dependencies of its operations.
        what_if: Its analysis.
        step: Place of the step whose timeline is drawn.
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
    row_of = {int(rank): row for row, rank in enumerate(shown)}
    critical = replayed.critical
    for one in range(len(operations)):
        kind = str(operations.kind[one])
        if kind in (FORWARD_RECV, BACKWARD_RECV) or int(operations.rank[one]) not in row_of:
            continue
        start_ms, end_ms = 1e3 * replayed.start_s[one], 1e3 * replayed.end_s[one]
        colour = {FORWARD: _FORWARD, BACKWARD: _BACKWARD}.get(kind, _OTHER)
        row, computes = row_of[int(operations.rank[one])], colour != _OTHER
        axes.barh(
            row, end_ms - start_ms, left=start_ms, height=0.7 if computes else 0.25, color=colour,
            edgecolor="white", linewidth=0.4, zorder=2 if computes else 1,
        )  # fmt: skip
        if critical[one]:
            axes.plot([start_ms, end_ms], [row + 0.42] * 2, color=_CRITICAL, linewidth=2.5, zorder=3)
    axes.set_yticks(range(len(shown)), [str(rank) for rank in shown])
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1e3 * replayed.step_s)
    axes.set_xlabel("time, ms")
    left_out = len(operations.ranks) - len(shown)
    axes.set_ylabel("rank" + (f" ({left_out} not shown)" if left_out else ""))
    axes.set_title(f"Step {trace.steps[step]}, replayed, with its critical path")
    patches = [
        Patch(color=_FORWARD, label="forward"),
        Patch(color=_BACKWARD, label="backward"),
        Patch(color=_OTHER, label="communication, optimizer"),
        Patch(color=_CRITICAL, label="critical path"),
    ]
    axes.figure.legend(handles=patches, loc="outside lower center", ncols=4, frameon=False)
