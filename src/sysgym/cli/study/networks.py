"""``sysgym study networks``: laws on networks drawn at random."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli import completion
from sysgym.cli.options import JobsOption, PluginOption, TrustOption
from sysgym.cli.study.episodes import with_bar
from sysgym.cli.terminal import console, print_table


def networks(
    law: Annotated[
        list[str],
        typer.Option(
            "--contender",
            "-c",
            metavar="[NAME=]WHO[@CHECKPOINT]",
            help="Law of single flows: adaptive_swift, swift,beta=0.4, one of a plugin ...; the classics play"
            " in any case.",
            autocompletion=completion.contenders,
        ),
    ],
    number: Annotated[int, typer.Option("--networks", min=1, metavar="N", help="Number of networks.")] = 120,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the draw.")] = 0,
    fair: Annotated[
        bool,
        typer.Option("--fair", help="Compute slowdowns under fair sharing, too: some seconds a network."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Results folder (default: results/networks)."),
    ] = None,
    jobs: JobsOption = 0,
    plugin: PluginOption = None,
    trust: TrustOption = False,
) -> None:
    """Play laws and all classics on networks drawn at random. The same command resumes it."""
    from sysgym.bench.contenders import parse_contender
    from sysgym.bench.plugins import load_plugin
    from sysgym.cli.commands.bench import cpus
    from sysgym.scenarios.files import write_atomically
    from sysgym.studies.random_networks import comparison, study
    from sysgym.studies.random_networks.picture import draw

    plugins = [load_plugin(path) for path in plugin or []]
    laws = [
        replace(parse_contender(text, plugins, "congestion").with_shipped(study.SHIPPED_FOR), trusted=trust)
        for text in law
    ]
    settings = study.RandomNetworks(laws, number, seed, fair)
    folder = out if out is not None else Path("results") / "networks"
    screen = console()
    files = [one.file for one in plugins]
    rows = with_bar(
        folder,
        lambda tell: study.run_random_networks(
            settings, folder, n_workers=jobs or cpus(), plugins=files, tell=tell
        ),
    )
    found = comparison.Comparison(settings, rows)
    tables, sentences = list(comparison.tables(found)), comparison.verdicts(found)
    write_atomically(folder / "networks.md", comparison.markdown(settings, tables, sentences).encode())
    write_atomically(folder / "networks.png", draw(found).png)
    for table in tables:
        print_table(screen, table)
    for sentence in sentences:
        screen.print(sentence)
    for name in ("networks.md", "networks.png", study.ROWS):
        screen.print(folder / name, soft_wrap=True)
