"""``sysgym submit``: a leaderboard entry from a results folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli.options import TrustOption
from sysgym.cli.terminal import console


def submit(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Results folder of a benchmark.")],
    title: Annotated[
        str, typer.Option("--title", prompt="Title, one line", help="Title of the entry, one line.")
    ],
    by: Annotated[str, typer.Option("--by", prompt="Authors", help="Authors of the entry.")],
    contender: Annotated[
        list[str] | None,
        typer.Option(
            "--contender",
            "-c",
            metavar="NAME",
            help="Contender to enter; repeatable (default: all that were trained or have a file).",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Folder of the entry (default: results/entries/SUITE/NAME of DIR).",
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=0, metavar="N", help="Number of rows to replay; 0: all.")
    ] = 10,
    plugin: Annotated[
        list[Path] | None,
        typer.Option(
            "--plugin", metavar="FILE", help="Python files that the benchmark was run with; repeatable."
        ),
    ] = None,
    trust: TrustOption = False,
) -> None:
    """Check a results folder, pack it as an entry, and validate the entry in a clean process."""
    from sysgym.bench.leaderboard.submission import check_submission
    from sysgym.bench.leaderboard.submission import submit as submit_checked

    found = check_submission(folder, contender or ())
    entry = out if out is not None else Path("results/entries") / found.suite / folder.resolve().name
    screen = console()
    for warning in found.benchmark.warnings:
        screen.print(f"note  {warning}")
    with console(stderr=True).status(f"packing, and replaying {sample or 'all'} rows in a clean process"):
        readme = submit_checked(
            found, entry, title=title, by=by, n_rows=sample, plugins=plugin or [], trust=trust
        )
    played = "all rows" if sample == 0 else f"{min(sample, len(found.benchmark.rows))} rows"
    screen.print(f"{entry}: {', '.join(found.contenders)} on {found.suite}; {played} replay")
    screen.print(
        f"next: write {readme}, run python scripts/pages/leaderboard.py, and open a pull request with both",
        markup=False,
        soft_wrap=True,
    )
