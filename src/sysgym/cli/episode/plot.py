"""``sysgym plot``: time series of contenders side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sysgym.cli import completion
from sysgym.cli.durations import duration_s
from sysgym.cli.options import PluginOption

if TYPE_CHECKING:
    from sysgym.series import TimeSeries

MOST_COLUMNS = 4


def plot(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENARIO|FILE",
            help="Scenario for the contenders of -c, or tables written by sysgym run --csv.",
            autocompletion=completion.scenarios,
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Picture to write: .png, .svg or .pdf.")
    ],
    contender: Annotated[
        list[str] | None,
        typer.Option(
            "--contender",
            "-c",
            help="Contender, as in sysgym run; repeatable, at most four.",
            autocompletion=completion.contenders,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed of the episode (default: first of the test split)."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a scenario key; repeatable."),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval",
            metavar="TIME",
            parser=duration_s,
            help="Time between samples, for example 100us (default: 1/8 of a decision interval).",
        ),
    ] = None,
    begin: Annotated[
        float | None,
        typer.Option(
            "--from", metavar="TIME", parser=duration_s, help="Start of the time shown, for example 2ms."
        ),
    ] = None,
    until: Annotated[
        float | None,
        typer.Option("--until", metavar="TIME", parser=duration_s, help="End of the time shown."),
    ] = None,
    flow: Annotated[
        list[int] | None,
        typer.Option("--flow", metavar="N", help="Flow to show; repeatable (default: all)."),
    ] = None,
    port: Annotated[
        list[str] | None,
        typer.Option(
            "--port",
            metavar="NAME",
            help="Port whose queue is shown, for example west->east; repeatable (default: longest queues).",
        ),
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """Draw windows, rates, round trips and queues of contenders side by side, on common axes."""
    from sysgym.cli.pages.listing import load_plugins
    from sysgym.series_picture import Choice, check_picture, draw_side_by_side

    check_picture(out)
    load_plugins(plugin or [])
    series = _series(what, contender or [], seed=seed, overrides=set_ or [], interval_s=interval)
    draw_side_by_side(series, out, Choice(begin, until, flow or [], port or []))
    typer.echo(f"picture: {out}")


def _series(what: Sequence[str], contenders: Sequence[str], **how: Any) -> list[TimeSeries]:
    """Return the time series from files or from new episodes."""
    from sysgym.errors import SysgymError
    from sysgym.scenarios import parse_overrides
    from sysgym.series import read_series, record
    from sysgym.series_files import SUFFIXES

    files = [Path(one).suffix.lower() in SUFFIXES for one in what]
    if any(files):
        if not all(files):
            raise SysgymError(
                "plot: expected either one scenario or tables written by sysgym run --csv, got both"
            )
        if contenders or how["seed"] is not None or how["overrides"] or how["interval_s"] is not None:
            raise SysgymError("plot: -c, --seed, --set and --interval require a scenario, not files")
        number = len(what)
    elif len(what) > 1:
        raise SysgymError(f"plot: got {len(what)} scenarios, expected one and -c for each contender")
    else:
        number = len(contenders)
    if not 1 <= number <= MOST_COLUMNS:
        raise SysgymError(
            f"plot: got {number} contenders, expected 1 to {MOST_COLUMNS}:"
            " sysgym plot dumbbell-10g -c dctcp -c cubic --out x.png"
        )
    if any(files):
        return [read_series(one) for one in what]
    overrides = parse_overrides(how["overrides"])
    return [
        record(
            what[0],
            contender=contender,
            seed=how["seed"],
            interval_s=how["interval_s"],
            overrides=overrides,
        )
        for contender in contenders
    ]
