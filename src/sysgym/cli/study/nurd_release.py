"""``sysgym study nurd-release``: NURD's released evaluation, with its leaks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli import completion
from sysgym.cli.options import JobsOption
from sysgym.cli.terminal import console


def nurd_release(
    suite: Annotated[
        str,
        typer.Argument(
            help="Suite with straggler scenarios, name or file.", autocompletion=completion.suites
        ),
    ],
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds", min=1, metavar="N", help="Use only the first N jobs of each task (default: all)."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Results folder (default: results/SUITE).")
    ] = None,
    jobs: JobsOption = 0,
) -> None:
    """Evaluate stragglers like NURD's released code, leaks included, and print the effect of each leak."""
    from sysgym.cli.commands.bench import cpus
    from sysgym.cli.terminal import table as screen_table
    from sysgym.scenarios import load_suite
    from sysgym.scenarios.files import make_folder, write_atomically
    from sysgym.studies.nurd_release import COLUMNS, WARNING, evaluate, markdown, table

    loaded = load_suite(suite)
    screen = console()
    try:
        with console(stderr=True).status("playing jobs") as status:
            results = evaluate(
                loaded, seeds, jobs or cpus(), lambda done, of: status.update(f"{done} of {of} jobs")
            )
    except KeyboardInterrupt:
        screen.print("stopped; nothing was written")
        raise typer.Exit(130) from None
    screen.print(WARNING, style="bold yellow")
    for label, cells in table(results):
        rows = list(zip(COLUMNS, cells, strict=True))
        screen.print(screen_table("evaluation", ">F1", title=f"\n{label}", rows=rows))
    folder = out if out is not None else Path("results") / loaded.name
    make_folder(folder)
    write_atomically(folder / "nurd-release.md", markdown(results).encode())
    screen.print(f"\n{folder / 'nurd-release.md'}")
