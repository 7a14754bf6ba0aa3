"""``sysgym study links``: how laws share links drawn at random."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli import completion
from sysgym.cli.options import JobsOption, PluginOption, TrustOption
from sysgym.cli.study.episodes import with_bar
from sysgym.cli.terminal import console, print_table


def links(
    law: Annotated[
        list[str],
        typer.Option(
            "--contender",
            "-c",
            metavar="[NAME=]WHO[@CHECKPOINT]",
            help="Law of single flows: adaptive_swift, swift,beta=0.4, one of a plugin ...; repeatable.",
            autocompletion=completion.contenders,
        ),
    ],
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--beside",
            metavar="[NAME=]WHO[@CHECKPOINT]",
            help="Law with which links are shared; repeatable (default: dctcp, cubic, bbr, swift, reno).",
            autocompletion=completion.contenders,
        ),
    ] = None,
    number: Annotated[
        int, typer.Option("--links", min=0, metavar="N", help="Number of links shared with each law.")
    ] = 60,
    crowds: Annotated[
        int, typer.Option("--crowds", min=0, metavar="N", help="Number of links with flows of one law.")
    ] = 60,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the draw.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Scenario key for all links; repeatable."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Results folder (default: results/links)."),
    ] = None,
    jobs: JobsOption = 0,
    plugin: PluginOption = None,
    trust: TrustOption = False,
) -> None:
    """Play laws beside others, and among their own flows, on random links. The same command resumes it."""
    from sysgym.bench.contenders import parse_contender
    from sysgym.bench.plugins import load_plugin
    from sysgym.cli.commands.bench import cpus
    from sysgym.envs.congestion.random_links import NETWORK
    from sysgym.scenarios import parse_overrides
    from sysgym.scenarios.files import write_atomically
    from sysgym.studies.random_links import study, tables
    from sysgym.studies.random_links.picture import draw

    plugins = [load_plugin(path) for path in plugin or []]
    laws, others = (
        [
            replace(parse_contender(text, plugins, "congestion").with_shipped(NETWORK), trusted=trust)
            for text in texts
        ]
        for texts in (law, beside or study.BESIDE)
    )
    settings = study.RandomLinks(laws, others, number, crowds, seed, parse_overrides(set_ or []))
    folder = out if out is not None else Path("results") / "links"
    screen = console()
    files = [one.file for one in plugins]
    rows = with_bar(
        folder,
        lambda tell: study.run_random_links(
            settings, folder, n_workers=jobs or cpus(), plugins=files, tell=tell
        ),
    )
    found = tables.Shares(settings, rows)
    shown, sentences = list(tables.tables(found)), tables.verdicts(found)
    write_atomically(folder / "links.md", tables.markdown(settings, shown, sentences).encode())
    write_atomically(folder / "links.png", draw(found).png)
    for table in shown:
        print_table(screen, table)
    for sentence in sentences:
        screen.print(sentence)
    for name in ("links.md", "links.png", study.ROWS):
        screen.print(folder / name, soft_wrap=True)
