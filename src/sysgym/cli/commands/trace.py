"""``sysgym trace``: replay and what-if analysis of a training job's trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sysgym.emulator.training.graph import Graph
    from sysgym.emulator.training.operations import TrainingTrace

trace = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Replay the trace of a training job, and ask what-if.",
)

FileArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Table of operations, .parquet or .csv (docs/training-jobs.md)."),
]
StepOption = Annotated[
    int | None, typer.Option("--step", help="Step of --picture and --perfetto (default: the median one).")
]
PublishedOption = Annotated[
    bool,
    typer.Option(
        "--published-graph",
        help="Post receives as in the published what-if analysis, instead of as in the trace.",
    ),
]
_MOST_PARTS = 8


@trace.command("replay")
def replay_(
    file: FileArgument,
    step: StepOption = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            "--perfetto", metavar="FILE", help="Write the step as traced and as replayed for ui.perfetto.dev."
        ),
    ] = None,
    align_clocks: Annotated[
        bool, typer.Option("--align-clocks", help="Estimate and remove the offsets of the ranks' clocks.")
    ] = False,
    published_graph: PublishedOption = False,
) -> None:
    """Replay all steps, and print errors beside those of predictions that need no replay."""
    from sysgym.cli.terminal import console, table
    from sysgym.emulator.training.accuracy import step_errors
    from sysgym.emulator.training.clocks import aligned, clock_offsets_s

    read, graph = _read(file, published=published_graph)
    out = console()
    offsets_s = clock_offsets_s(read, graph)
    if align_clocks:
        read = aligned(read, offsets_s)
        graph = _graph(read, published=published_graph)
    says = "removed" if align_clocks else "kept; --align-clocks removes them"
    out.print(
        f"clocks of ranks differ by up to {1e3 * float(offsets_s.max() - offsets_s.min()):.3g} ms ({says})"
    )
    rows = [
        (
            one.name,
            one.steps,
            f"{one.bias:+.2%}",
            f"{one.mean:.2%}",
            f"{one.largest:.2%}",
        )
        for one in step_errors(read, graph)
    ]
    headings = ("step predicted from", "of", ">bias", ">mean error", ">largest")
    out.print(table(*headings, title=f"{read.name}: replayed against traced steps", rows=rows))
    if perfetto is not None:
        _write_timeline(perfetto, read, graph, step)
        out.print(f"wrote {perfetto}")


@trace.command("what-if")
def what_if(
    file: FileArgument,
    step: StepOption = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture", metavar="FILE", help="Write slowdowns by rank and step, and a step's timeline (PNG)."
        ),
    ] = None,
    published_graph: PublishedOption = False,
) -> None:
    """Print how long steps would be without stragglers, and which part of the job causes the loss."""
    import numpy as np

    from sysgym.cli.terminal import console, table
    from sysgym.emulator.training.what_if import WhatIf
    from sysgym.training_picture import draw_trace

    read, graph = _read(file, published=published_graph)
    found, out = WhatIf.of(read, graph), console()
    out.print(
        f"{read.name}: a step takes {found.step_s:.4f} s by replay"
        f" ({read.step_s.mean():.4f} s in the trace) and "
        f"{found.ideal_step_s:.4f} s without stragglers: slowdown {found.slowdown:.3f}"
    )
    operations = found.operations
    parts = [
        *(("operations", str(kind), operations.kind == kind) for kind in np.unique(operations.kind)),
        *(("stage", str(stage), operations.stage == stage) for stage in np.unique(operations.stage)),
        *(("rank", str(rank), operations.rank == rank) for rank in operations.ranks),
    ]
    regained = [(what, name, found.share_of(part), found.added_by(part)) for what, name, part in parts]
    rows = []
    for what in ("operations", "stage", "rank"):
        of_kind = sorted((one for one in regained if one[0] == what), key=lambda one: -one[2])
        rows += [
            (f"{what} {name}", f"{100 * removed:.1f} %", f"{100 * added:.1f} %")
            for _, name, removed, added in of_kind[:_MOST_PARTS]
        ]
    worst = ", ".join(map(str, found.worst_ranks()))
    rows += [
        ("last stage (M_S)", f"{100 * found.share_of_last_stage():.4f} %", ""),
        (f"worst 3 % of ranks: {worst} (M_W)", f"{100 * found.share_of_worst_ranks():.4f} %", ""),
    ]
    title = "Share of the lost time that a part's stragglers explain"
    out.print(table("part", ">regained without them", ">lost with them alone", title=title, rows=rows))
    if picture is not None:
        draw_trace(picture, read, graph, found, _place_of(read, step))
        out.print(f"wrote {picture}")


def _read(file: Path, *, published: bool) -> tuple[TrainingTrace, Graph]:
    """Return a trace and its graph, and say what was left out."""
    from sysgym.cli.terminal import console
    from sysgym.emulator.training.tables import read_trace

    read = read_trace(file)
    out = console()
    if read.left_out.malformed_rows:
        out.print(f"left out {read.left_out.malformed_rows} rows with a missing or impossible value")
    if read.left_out.steps:
        out.print(f"left out {len(read.left_out.steps)} steps whose operations are not those of most steps")
    operations = read.operations
    out.print(f"{len(read.steps)} steps of {len(operations)} operations on {len(operations.ranks)} ranks")
    return read, _graph(read, published=published)


def _graph(read: TrainingTrace, *, published: bool) -> Graph:
    from sysgym.emulator.training.pipeline import graph_of

    return graph_of(read, "same-kind" if published else "traced")


def _place_of(read: TrainingTrace, step: int | None) -> int:
    """Return the place of a step; by default of the one with the median time.

    Raises:
        SysgymError: If the trace has no such step.
    """
    import numpy as np

    from sysgym.errors import SysgymError

    if step is None:
        return int(np.argsort(read.step_s)[len(read.steps) // 2])
    if step not in read.steps:
        raise SysgymError(f"--step {step}: expected one of {', '.join(map(str, read.steps))}")
    return int(np.flatnonzero(read.steps == step)[0])


def _write_timeline(path: Path, read: TrainingTrace, graph: Graph, step: int | None) -> None:
    from sysgym.emulator.training.replay import replay
    from sysgym.emulator.training.timeline import timeline
    from sysgym.emulator.training.timing import durations_s
    from sysgym.scenarios.files import write_atomically

    place = _place_of(read, step)
    replayed = replay(graph, durations_s(read, graph)[place])
    write_atomically(path, timeline(read, place, replayed).encode())
