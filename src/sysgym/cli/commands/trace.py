"""``sysgym trace``: replay and what-if analysis of a training job's trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sysgym.emulator.training.graph import Graph
    from sysgym.emulator.training.job import Job
    from sysgym.emulator.training.operations import TrainingTrace
    from sysgym.emulator.training.what_if import WhatIf

trace = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Replay the trace of a training job, and answer what-if questions.",
)

FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="PyTorch profiler: one .json or .json.gz per rank; Chakra: one .et per rank; or their folder."
        " AICB: one .txt. Table of operations: one .parquet or .csv (docs/training-jobs.md).",
    ),
]
SystemOption = Annotated[
    str,
    typer.Option(
        "--system",
        help="System whose links determine the duration of communications without a traced one (Chakra,"
        " AICB): a preset, for example dgx-a100.",
    ),
]
RanksOption = Annotated[
    int | None, typer.Option("--ranks", min=1, help="Number of ranks, if an AICB file does not state it.")
]
StepOption = Annotated[
    int | None, typer.Option("--step", help="Step of --picture and --perfetto (default: the median one).")
]
PublishedOption = Annotated[
    bool,
    typer.Option(
        "--published-graph",
        help="Post receives as in the published what-if analysis instead of as in the trace.",
    ),
]
_MOST_PARTS = 8
_MOST_OFFSETS = 16
_NO_LOSS = 1e-9
_SEVERAL = 2


@trace.command("replay")
def replay_(
    files: FilesArgument,
    step: StepOption = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            "--perfetto", metavar="FILE", help="Write the step as traced and as replayed for ui.perfetto.dev."
        ),
    ] = None,
    align_clocks: Annotated[
        bool,
        typer.Option("--align-clocks", help="Estimate, print and remove the offsets of the ranks' clocks."),
    ] = False,
    published_graph: PublishedOption = False,
    system: SystemOption = "dgx-h100",
    ranks: RanksOption = None,
) -> None:
    """Replay all steps, and print errors beside those of predictions that need no replay."""
    from sysgym.cli.terminal import console, table
    from sysgym.emulator.training.accuracy import step_errors
    from sysgym.emulator.training.clocks import aligned, clock_offsets_s
    from sysgym.emulator.training.what_if import WhatIf

    job = _read(files, published=published_graph, system=system, n_ranks=ranks)
    read, graph = job.trace, job.graph
    out = console()
    if job.modelled:
        out.print(
            f"{read.name}: a step takes {1e3 * read.step_s[0]:.4f} ms if operations start as soon as they can"
        )
        _print_free(WhatIf.of(read, graph))
    else:
        offsets_s = clock_offsets_s(read, graph)
        if align_clocks:
            read = aligned(read, offsets_s)
        says = "removed" if align_clocks else "kept; --align-clocks removes them"
        apart_ms = 1e3 * float(offsets_s.max() - offsets_s.min())
        out.print(f"clocks of ranks differ by up to {apart_ms:.3g} ms ({says})")
        if align_clocks:
            _print_offsets(read.operations.ranks.tolist(), offsets_s.tolist())
        rows = [
            (one.name, one.steps, f"{one.bias:+.2%}", f"{one.mean:.2%}", f"{one.largest:.2%}")
            for one in step_errors(read, graph)
        ]
        headings = ("step predicted from", "of", ">bias", ">mean error", ">largest")
        out.print(table(*headings, title=f"{read.name}: replayed against traced steps", rows=rows))
    if perfetto is not None:
        _write_timeline(perfetto, read, graph, step)
        out.print(f"wrote {perfetto}")


@trace.command("what-if")
def what_if(
    files: FilesArgument,
    step: StepOption = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture", metavar="FILE", help="Write slowdowns by rank and step, and a step's timeline (PNG)."
        ),
    ] = None,
    published_graph: PublishedOption = False,
    system: SystemOption = "dgx-h100",
    ranks: RanksOption = None,
) -> None:
    """Print the step time without stragglers, and the parts of the job that cause the loss."""
    from sysgym.cli.terminal import console
    from sysgym.emulator.training.what_if import WhatIf
    from sysgym.training_picture import draw_trace

    job = _read(files, published=published_graph, system=system, n_ranks=ranks)
    read, graph = job.trace, job.graph
    found, out = WhatIf.of(read, graph), console()
    out.print(
        f"{read.name}: a step takes {found.step_s:.4f} s by replay"
        f" ({read.step_s.mean():.4f} s in the trace) and "
        f"{found.ideal_step_s:.4f} s without stragglers: slowdown {found.slowdown:.3f}"
    )
    if found.slowdown > 1.0 + _NO_LOSS:
        _print_shares(found)
    _print_free(found)
    _print_rebalanced(found)
    if picture is not None:
        draw_trace(picture, read, graph, found, _place_of(read, step))
        out.print(f"wrote {picture}")


def _print_offsets(ranks: list[int], offsets_s: list[float]) -> None:
    """Print by how much each rank's clock is ahead of the first one's; of many, the largest."""
    from sysgym.cli.terminal import console, table

    largest = sorted(zip(ranks, offsets_s, strict=True), key=lambda one: -abs(one[1]))[:_MOST_OFFSETS]
    rows = [(str(rank), f"{1e3 * offset_s:+.4f} ms") for rank, offset_s in largest]
    heading = ">clock ahead of the first rank's"
    console().print(table("rank", heading, rows=rows))
    if len(ranks) > len(rows):
        console().print(f"(the {len(rows)} largest of {len(ranks)})")


@trace.command("generate")
def generate_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Table to write: .parquet (extra parquet) or .csv.")
    ],
    model: Annotated[
        str, typer.Option("--model", help="resnet50, vgg16, bert_large or decoder.")
    ] = "decoder",
    data: Annotated[int, typer.Option("--data", help="Data-parallel ranks.")] = 2,
    tensor: Annotated[int, typer.Option("--tensor", help="Tensor-parallel ranks.")] = 2,
    stages: Annotated[int, typer.Option("--stages", help="Pipeline stages.")] = 2,
    schedule: Annotated[str, typer.Option("--schedule", help="gpipe, 1f1b or interleaved.")] = "1f1b",
    virtual: Annotated[
        int, typer.Option("--virtual-stages", help="Parts of the model on each rank, if interleaved.")
    ] = 1,
    microbatches: Annotated[
        int, typer.Option("--microbatches", help="Microbatches of a data-parallel rank and step.")
    ] = 4,
    batch: Annotated[int, typer.Option("--batch", help="Samples of a microbatch.")] = 1,
    system: Annotated[
        str, typer.Option("--system", help="System of the ranks: a preset, for example dgx-a100.")
    ] = "dgx-h100",
    flops_per_s: Annotated[
        float, typer.Option("--flops-per-s", help="Operations per second of an accelerator.")
    ] = 2e14,
    lengths: Annotated[
        float, typer.Option("--lengths", help="Standard deviation of the logarithm of microbatch lengths.")
    ] = 0.0,
    slow: Annotated[
        list[str] | None,
        typer.Option(
            "--slow", metavar="RANK:FACTOR", help="Slow down the computations of a rank; repeatable."
        ),
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Number of steps.")] = 5,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of lengths, jitter and background traffic.")
    ] = 0,
    jitter: Annotated[
        float, typer.Option("--jitter", help="Standard deviation of the logarithm of computation times.")
    ] = 0.05,
    launch_us: Annotated[float, typer.Option("--launch-us", help="Time after each computation, us.")] = 5.0,
    interference: Annotated[
        float, typer.Option("--interference", help="Share of computing that a collective takes, up to 0.3.")
    ] = 0.1,
    background: Annotated[
        float, typer.Option("--background", help="Share of the time in which others use a node's uplink.")
    ] = 0.0,
) -> None:
    """Write the steps of a generated job as a table by layer; rings and sends share the system's links."""
    from sysgym.cli.terminal import console
    from sysgym.emulator.training.generated.effects import Effects
    from sysgym.emulator.training.generated.job import ParallelJob
    from sysgym.emulator.training.generated.simulation import generate
    from sysgym.emulator.training.tables import check_table_name, write_trace

    check_table_name(file)
    job = ParallelJob(
        model, data, tensor, stages, schedule, virtual, microbatches, batch, system, flops_per_s,
        length_log_sd=lengths, slow_ranks=tuple(_slow_rank(one) for one in slow or ()),
    )  # fmt: skip
    effects = Effects(jitter, 1e-6 * launch_us, interference, background)
    made = generate(job, effects, seed, steps)
    write_trace(file, made)
    out = console()
    out.print(
        f"{job.name}: {steps} steps of {len(made.operations)} operations on {job.n_ranks} ranks, "
        f"{1e3 * made.step_s.mean():.3f} ms a step"
    )
    out.print(f"wrote {file}")


def _slow_rank(text: str) -> tuple[int, float]:
    """Return the rank and the factor of an option.

    Raises:
        SysgymError: If they are no numbers.
    """
    from sysgym.errors import SysgymError

    rank, _, factor = text.partition(":")
    try:
        return int(rank), float(factor)
    except ValueError:
        raise SysgymError(f"--slow {text}: expected a rank and a factor, such as 3:1.2") from None


def _print_shares(found: WhatIf) -> None:
    """Print which parts of the job explain the lost time."""
    import numpy as np

    from sysgym.cli.terminal import console, table

    operations = found.operations
    stages = np.unique(operations.stage)
    parts = [
        *(("operations", str(kind), operations.kind == kind) for kind in np.unique(operations.kind)),
        *(("stage", str(stage), operations.stage == stage) for stage in stages if len(stages) > 1),
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
    if len(stages) > 1:
        rows.append(("last stage (M_S)", f"{100 * found.share_of_last_stage():.4f} %", ""))
    rows.append((f"worst 3 % of ranks: {worst} (M_W)", f"{100 * found.share_of_worst_ranks():.4f} %", ""))
    title = "Share of the lost time that a part's stragglers explain"
    console().print(table("part", ">regained without them", ">lost with them alone", title=title, rows=rows))


def _print_free(found: WhatIf) -> None:
    """Print how much shorter steps would be if operations of a kind took no time."""
    import numpy as np

    from sysgym.cli.terminal import console, table

    operations = found.operations
    n_ranks = len(operations.ranks)
    rows = []
    for kind in np.unique(operations.kind):
        part = operations.kind == kind
        shorter = 1.0 - found.step_if_free_s(part) / found.step_s
        rows.append((shorter, str(kind), found.durations[:, part].sum(axis=1).mean() / n_ranks))
    rows.sort(key=lambda row: (-row[0], -row[2]))
    console().print(
        table(
            "operations",
            ">time of a rank",
            ">shorter step",
            title="Steps if operations took no time",
            rows=[
                (kind, f"{1e3 * time_s:.3f} ms", f"{100 * shorter:.1f} %")
                for shorter, kind, time_s in rows[:_MOST_PARTS]
            ],
        )
    )


def _print_rebalanced(found: WhatIf) -> None:
    """Print steps with other arrangements of microbatches, if the trace has several that could move."""
    import numpy as np

    from sysgym.cli.terminal import console, table
    from sysgym.emulator.training.operations import FORWARD
    from sysgym.emulator.training.rebalancing import rebalanced

    operations = found.operations
    forward = operations.kind == FORWARD
    if operations.parts is not None:  # microbatches are several operations there
        return
    if len(np.unique(operations.data_rank)) < _SEVERAL or operations.index[forward].max(initial=0) == 0:
        return
    try:
        rows = [(one.name, f"{one.step_s:.4f} s", f"{one.speedup:.3f}") for one in rebalanced(found)]
    except ValueError as error:
        console().print(f"no moves of microbatches: {error}")
        return
    title = "Steps if microbatches changed places between data-parallel ranks"
    console().print(table("arrangement", ">step", ">speed-up", title=title, rows=rows))


def _read(files: list[Path], *, published: bool, system: str, n_ranks: int | None) -> Job:
    """Return a job, and say what was left out."""
    from sysgym.cli.terminal import console
    from sysgym.emulator.training.formats.reading import read_job

    job = read_job(files, posting="same-kind" if published else "traced", system=system, n_ranks=n_ranks)
    read, out = job.trace, console()
    left_out = read.left_out
    if left_out.malformed_rows:
        out.print(f"left out {left_out.malformed_rows} rows with a missing or impossible value")
    if left_out.steps:
        out.print(f"left out {len(left_out.steps)} steps whose operations are not those of most steps")
    if left_out.unmatched:
        out.print(f"{left_out.unmatched} communications of a step have no partner in the files")
    for note in job.notes:
        out.print(note)
    operations = read.operations
    out.print(f"{len(read.steps)} steps of {len(operations)} operations on {len(operations.ranks)} ranks")
    return job


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
