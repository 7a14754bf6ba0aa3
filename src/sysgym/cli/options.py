"""Options that commands share, and the longest of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli import completion
from sysgym.cli.durations import duration_s

PluginOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--transport-file",
        "--plugin",
        metavar="FILE",
        help="Python file of yours that registers transports, agents or environments; may be repeated.",
    ),
]
ContenderOption = Annotated[
    str | None,
    typer.Option(
        "--contender",
        "-c",
        help="Who plays: dctcp, oracle, aimd, TRANSPORT:AGENT ...",
        autocompletion=completion.contenders,
    ),
]
AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        help="Agent; with a classical transport max if left out.",
        autocompletion=completion.agents,
    ),
]
TransportOption = Annotated[
    str | None,
    typer.Option(
        "--transport",
        help="Transport; paced for an agent if left out.",
        autocompletion=completion.transports,
    ),
]
CsvOption = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        "--series",
        metavar="FILE",
        help=(
            "Write the time series of all flows, and of all ports beside it: .csv, or .parquet (extra"
            " parquet)."
        ),
    ),
]
IntervalOption = Annotated[
    float | None,
    typer.Option(
        "--interval",
        metavar="TIME",
        parser=duration_s,
        help="Between samples of --csv and --trace, as in 100us; 8 a decision if left out.",
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Let code in the files run: Python files of an entry, checkpoints with pickles (docs/trust.md).",
    ),
]
