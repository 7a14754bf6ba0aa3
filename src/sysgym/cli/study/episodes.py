"""Parts that commands of studies share: their laws, a bar with interruption, and their files.

Studies keep their episodes, so that the same command resumes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sysgym.cli.terminal import bars, console, print_table

if TYPE_CHECKING:
    from sysgym.bench.contenders import Contender
    from sysgym.bench.plugins import Plugin
    from sysgym.bench.tables import Table
    from sysgym.studies.kept_rows import KeptStudy

Rows = list[dict[str, Any]]


def with_bar(folder: Path, run: Callable[[Callable[[int, int], None]], Rows]) -> Rows:
    """Run a study under a progress bar and return its rows; say how to continue after Ctrl-C.

    Args:
        folder: Folder of the rows.
        run: Function of a callback with the number of finished episodes and of all episodes.
    """
    try:
        with bars() as progress:
            bar = progress.add_task("episodes", total=None)
            return run(lambda done, of: progress.update(bar, completed=done, total=of))
    except KeyboardInterrupt:
        console().print(f"stopped; finished episodes are in {folder}; run the same command again to continue")
        raise typer.Exit(130) from None


def play_study(study: KeptStudy, folder: Path, plugins: Sequence[Plugin], jobs: int) -> Rows:
    """Play the episodes of a study that are not in its folder yet, under a bar; return all rows.

    Args:
        study: The study.
        folder: Results folder.
        plugins: Loaded files.
        jobs: Number of processes; 0: one for each core.
    """
    from sysgym.cli.commands.bench import cpus
    from sysgym.studies.kept_rows import run_kept

    files = [one.file for one in plugins]
    return with_bar(
        folder,
        lambda tell: run_kept(study, folder, n_workers=jobs or cpus(), plugins=files, tell=tell),
    )


def laws_of(texts: Iterable[str], plugins: Sequence[Plugin], scenario: str, trust: bool) -> list[Contender]:
    """Return contenders of the family with transports, the laws, from their texts.

    Args:
        texts: Texts as ``[NAME=]WHO[,KEY=VALUE][@CHECKPOINT]``.
        plugins: Loaded files.
        scenario: Scenario for which the package's policies are taken.
        trust: Whether checkpoints may run code.
    """
    from sysgym.bench.contenders import parse_contender

    found = (parse_contender(text, plugins).with_shipped(scenario) for text in texts)
    return [replace(one, trusted=trust) for one in found]


def write_study(
    folder: Path,
    name: str,
    *,
    markdown: str,
    picture: bytes,
    rows: str,
    tables: Iterable[Table],
    sentences: Iterable[str],
) -> None:
    """Write the report and the picture of a study, and print what they say.

    Args:
        folder: Results folder.
        name: Name of both files, without its ending.
        markdown: Text of the report.
        picture: PNG file.
        rows: Name of the file of rows.
        tables: Tables to print.
        sentences: Sentences to print.
    """
    from sysgym.scenarios.files import write_atomically

    write_atomically(folder / f"{name}.md", markdown.encode())
    write_atomically(folder / f"{name}.png", picture)
    screen = console()
    for table in tables:
        print_table(screen, table)
    for sentence in sentences:
        screen.print(sentence, markup=False)
    for file in (f"{name}.md", f"{name}.png", rows):
        screen.print(folder / file, soft_wrap=True)
