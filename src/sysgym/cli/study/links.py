"""``sysgym study links``: how laws share links drawn at random."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli import completion
from sysgym.cli.options import JobsOption, PluginOption, TrustOption
from sysgym.cli.study.episodes import laws_of, play_study, write_study


def links(
    law: Annotated[
        list[str],
        typer.Option(
            "--contender",
            "-c",
            metavar="[NAME=]WHO[,KEY=VALUE][@CHECKPOINT]",
            help="Law of single flows: adaptive_swift, swift,beta=0.4, one of a plugin ...; repeatable.",
            autocompletion=completion.contenders,
        ),
    ],
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--beside",
            metavar="[NAME=]WHO[,KEY=VALUE][@CHECKPOINT]",
            help="Law with which links are shared; repeatable (default: dctcp, cubic, bbr, swift, reno).",
            autocompletion=completion.contenders,
        ),
    ] = None,
    number: Annotated[
        int, typer.Option("--links", min=0, metavar="N", help="Number of links shared with each law.")
    ] = 60,
    crowds: Annotated[
        int,
        typer.Option("--crowds", min=0, metavar="N", help="Number of links full of flows of one law."),
    ] = 60,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random draws.")] = 0,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Scenario key set on all links, instead of drawn values; repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Results folder (default: results/links)."),
    ] = None,
    jobs: JobsOption = 0,
    plugin: PluginOption = None,
    trust: TrustOption = False,
) -> None:
    """Play laws beside others and among their own flows, on random links. The same command resumes it."""
    from sysgym.bench.plugins import load_plugin
    from sysgym.scenarios import parse_overrides
    from sysgym.studies.laws import SHIPPED_FOR
    from sysgym.studies.random_links import study
    from sysgym.studies.random_links.picture import draw
    from sysgym.studies.random_links.tables import LinkRows, markdown, tables, verdicts

    plugins = [load_plugin(path) for path in plugin or []]
    laws, others = (laws_of(texts, plugins, SHIPPED_FOR, trust) for texts in (law, beside or study.BESIDE))
    settings = study.RandomLinks(laws, others, number, crowds, seed, parse_overrides(set_ or []))
    folder = out if out is not None else Path("results") / "links"
    rows = play_study(settings, folder, plugins, jobs)
    found = LinkRows(settings, rows)
    shown, sentences = list(tables(found)), verdicts(found)
    write_study(
        folder,
        "links",
        markdown=markdown(settings, shown, sentences),
        picture=draw(found).png,
        rows=study.ROWS,
        tables=shown,
        sentences=sentences,
    )
