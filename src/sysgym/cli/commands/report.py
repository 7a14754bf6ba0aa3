"""``sysgym report``: the report of a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli.options import TrustOption


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Results folder of a benchmark.")],
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            help="Contender to compare with (default: the reference of the family, otherwise the first).",
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Add an episode of each scenario to play in the browser: best contender beside the"
            " reference.",
        ),
    ] = False,
    trust: TrustOption = False,
) -> None:
    """Write report.html and report.md into a results folder."""
    from sysgym.cli.commands.bench import write_report

    write_report(folder, reference, live=live, trust=trust)
