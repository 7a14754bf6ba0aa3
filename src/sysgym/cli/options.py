"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli import completion
from sysgym.cli.durations import duration_s

PluginOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        "--transport-file",
        metavar="FILE",
        help="Python file that registers transports, agents or environments; repeatable.",
    ),
]
ContenderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--contender",
        "-c",
        help=(
            "Contender: a transport, an agent or TRANSPORT:AGENT, for example dctcp or aimd; with constants"
            " after commas: swift,beta=0.4."
        ),
        autocompletion=completion.contenders,
    ),
]
AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        help="Agent (default with a classical transport: max).",
        autocompletion=completion.agents,
    ),
]
TransportOption = Annotated[
    str | None,
    typer.Option(
        "--transport",
        help="Transport (default with an agent: paced).",
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
            "Write time series of all flows, and of all ports in a second file: .csv, or .parquet (needs the"
            " extra parquet)."
        ),
    ),
]
IntervalOption = Annotated[
    float | None,
    typer.Option(
        "--interval",
        metavar="TIME",
        parser=duration_s,
        help="Time between samples of --csv and --trace, for example 100us (default: 1/8 of a decision"
        " interval).",
    ),
]
JobsOption = Annotated[
    int, typer.Option("--jobs", "-j", min=0, help="Number of worker processes; 0: one per CPU.")
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Allow files to run code: Python files of an entry, checkpoints with pickles (docs/trust.md).",
    ),
]
OnOption = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="WHERE",
        help="Where to run: local (processes), ray, slurm, or slurm-here (Slurm jobs as local processes).",
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="HOST:PORT", help="Ray cluster, or auto (default: one on this machine)."
    ),
]
ClusterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster",
        metavar="KEY=VALUE",
        help="Parameter of the Slurm jobs, for example slurm_partition=cpu or timeout_min=60; repeatable.",
    ),
]
