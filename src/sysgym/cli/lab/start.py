"""``sysgym lab list`` and ``sysgym lab new``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli.terminal import console, page, table


def list_() -> None:
    """List the labs."""
    from sysgym.labs.catalogue import LABS

    screen = page()
    if screen.is_terminal:
        rows = [(str(lab.number), lab.title, f"{lab.class_minutes} min", lab.idea) for lab in LABS]
        screen.print(table(">", "lab", ">time", "what to remember", rows=rows))
        return
    for lab in LABS:
        typer.echo(f"{lab.number}\t{lab.title}\t{lab.class_minutes} min\t{lab.idea}")


def new(
    number: Annotated[int, typer.Argument(metavar="LAB", help="Number of the lab.")],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder for the files; created if missing.")
    ],
    solutions: Annotated[
        bool,
        typer.Option(
            "--solutions", help="Write the instructor's solution; only in a clone of the repository."
        ),
    ] = False,
) -> None:
    """Write the files of a lab: a Python file with cells, and the same as a notebook (extra labs)."""
    from sysgym.labs.catalogue import get_lab
    from sysgym.labs.export import export

    paths, note = export(get_lab(number), folder, solutions=solutions)
    out = console()
    for path in paths:
        out.print(f"{path}", soft_wrap=True)
    if note:
        out.print(f"note  {note}", style="yellow", soft_wrap=True)
    out.print(f"  sysgym lab grade {number} {folder}", style="dim", soft_wrap=True)
