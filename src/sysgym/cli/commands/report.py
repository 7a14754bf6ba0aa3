"""``sysgym report``: what a benchmark's rows say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Results folder of a benchmark.")],
    reference: Annotated[
        str | None,
        typer.Option("--reference", help="Contender that others are compared with; dctcp if it plays."),
    ] = None,
) -> None:
    """Write report.html and report.md into a results folder."""
    from sysgym.cli.commands.bench import write_report

    write_report(folder, reference)
