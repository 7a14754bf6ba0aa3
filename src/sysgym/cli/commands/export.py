"""``sysgym export``: a trained policy as ONNX or as a C header, and the cost of each format."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sysgym.cli.terminal import console, table

if TYPE_CHECKING:
    from sysgym.agents.learned.deploy.graph import PolicyGraph
    from sysgym.agents.learned.deploy.source import Source


class Format(StrEnum):
    """File format."""

    onnx = "onnx"
    c = "c"


class Weights(StrEnum):
    """Type of the weights in C."""

    float32 = "float32"
    int8 = "int8"


def export(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="Checkpoint of a trained or distilled policy, or a name of sysgym list policies."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File to write: .onnx, or .h for C.")
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="Format of the file (default: by the suffix of --out).")
    ] = None,
    weights: Annotated[
        Weights | None,
        typer.Option("--weights", help="C only: float32 or 8-bit integers (default: whichever fits)."),
    ] = None,
    bytes_limit: Annotated[
        int | None,
        typer.Option(
            "--bytes-limit",
            min=1,
            metavar="N",
            help="C only: maximum size of the tables (default: 4096 for int8, no limit for float32).",
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="C only: name of the function.")] = "policy",
    measure: Annotated[
        bool, typer.Option("--measure", help="Print size, time per decision and accuracy of every format.")
    ] = False,
) -> None:
    """Write a trained policy, from observation to action, as ONNX or as a C header."""
    from sysgym.agents.learned.deploy.source import read_source
    from sysgym.agents.learned.shipped import named_checkpoint
    from sysgym.errors import SysgymError

    if out is None and not measure:
        raise SysgymError("nothing to do; give --out FILE, --measure, or both")
    source = read_source(named_checkpoint(checkpoint))
    if out is not None:
        _write(source, out, form, weights, bytes_limit, name)
    if measure:
        _print_measured(source.graph)


def _write(
    source: Source,
    out: Path,
    form: Format | None,
    weights: Weights | None,
    bytes_limit: int | None,
    name: str,
) -> None:
    from sysgym.agents.learned.deploy.agreement import N_OBSERVATIONS, check_header, check_onnx
    from sysgym.errors import SysgymError
    from sysgym.scenarios.files import make_folder, write_atomically

    graph, checked = source.graph, True
    if form is None:
        form = {".onnx": Format.onnx, ".h": Format.c}.get(out.suffix)
        if form is None:
            raise SysgymError(
                f"{out}: expected a name that ends in .onnx or .h, or --format onnx or --format c"
            )
    if form is Format.onnx:
        if weights is not None or bytes_limit is not None:
            raise SysgymError("--weights and --bytes-limit apply to --format c only")
        from sysgym.agents.learned.deploy.onnx_file import onnx_bytes

        data, words = onnx_bytes(graph, source.properties), "ONNX"
        check_onnx(graph, data)
    else:
        from sysgym.agents.learned.deploy.c_header import choose_weights, policy_header, table_bytes

        chosen = choose_weights(graph.network, weights.value if weights else None, bytes_limit)
        text = policy_header(graph, name=name, weights=chosen, about=source.about)
        checked = check_header(graph, text, chosen, name)
        data, words = text.encode(), f"C, {chosen}, {table_bytes(graph.network, chosen)} bytes of tables"
    make_folder(out.parent)
    write_atomically(out, data)
    screen = console()
    screen.print(f"{out}  {words}, {len(data)} bytes, {graph.n_parameters} parameters", soft_wrap=True)
    if checked:
        screen.print(f"agrees with the policy on {N_OBSERVATIONS} random observations", style="dim")
    else:
        screen.print("not compiled and compared: no C compiler was found", style="dim")
    if form is Format.onnx and source.hint:
        screen.print(f"{source.hint} {out}", style="dim", soft_wrap=True)


def _print_measured(graph: PolicyGraph) -> None:
    from sysgym.agents.learned.deploy.measure import measure
    from sysgym.scenarios.units import significant

    rows = []
    with console(stderr=True).status("") as status:
        status.update("measuring")
        for form in measure(graph):
            status.update(f"measured {form.name}")
            rows.append(
                (
                    form.name,
                    str(graph.n_parameters),
                    str(form.bytes),
                    significant(form.decision_us, 3),
                    significant(form.largest_difference, 2),
                    f"{100.0 * form.same_action:.1f} %",
                )
            )
    headings = ("format", ">parameters", ">bytes", ">µs per decision", ">largest difference", ">same argmax")
    console().print(table(*headings, rows=rows))
