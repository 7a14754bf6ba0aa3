"""``sysgym study networks``: laws on networks drawn at random."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli import completion
from sysgym.cli.options import JobsOption, PluginOption, TrustOption
from sysgym.cli.study.episodes import laws_of, play_study, write_study


def networks(
    law: Annotated[
        list[str],
        typer.Option(
            "--contender",
            "-c",
            metavar="[NAME=]WHO[,KEY=VALUE][@CHECKPOINT]",
            help="Law of single flows: adaptive_swift, swift,beta=0.4, one of a plugin ...; the classical"
            " laws always take part.",
            autocompletion=completion.contenders,
        ),
    ],
    number: Annotated[int, typer.Option("--networks", min=1, metavar="N", help="Number of networks.")] = 120,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random draws.")] = 0,
    fair: Annotated[
        bool,
        typer.Option("--fair", help="Also compute slowdowns under fair sharing: some seconds per network."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Results folder (default: results/networks)."),
    ] = None,
    jobs: JobsOption = 0,
    plugin: PluginOption = None,
    trust: TrustOption = False,
) -> None:
    """Play laws and all classical laws on random networks. The same command resumes it."""
    from sysgym.bench.plugins import load_plugin
    from sysgym.studies.laws import SHIPPED_FOR
    from sysgym.studies.random_networks import comparison, study
    from sysgym.studies.random_networks.picture import draw

    plugins = [load_plugin(path) for path in plugin or []]
    settings = study.RandomNetworks(laws_of(law, plugins, SHIPPED_FOR, trust), number, seed, fair)
    folder = out if out is not None else Path("results") / "networks"
    rows = play_study(settings, folder, plugins, jobs)
    found = comparison.Comparison(settings, rows)
    tables, sentences = list(comparison.tables(found)), comparison.verdicts(found)
    write_study(
        folder,
        "networks",
        markdown=comparison.markdown(settings, tables, sentences),
        picture=draw(found).png,
        rows=study.ROWS,
        tables=tables,
        sentences=sentences,
    )
