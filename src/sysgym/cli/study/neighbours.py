"""``sysgym study neighbours``: how the flows of two laws share a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli import completion
from sysgym.cli.options import JobsOption, PluginOption, TrustOption
from sysgym.cli.study.episodes import laws_of, play_study, write_study


def neighbours(
    law: Annotated[
        list[str],
        typer.Option(
            "--contender",
            "-c",
            metavar="[NAME=]WHO[,KEY=VALUE][@CHECKPOINT]",
            help="Law of single flows: dctcp, swift, neural, one of a plugin ...; with those of --beside,"
            " at least two.",
            autocompletion=completion.contenders,
        ),
    ],
    scenario: Annotated[
        str,
        typer.Argument(
            help="Name or file of a scenario with long-lived flows.", autocompletion=completion.scenarios
        ),
    ] = "dumbbell-10g",
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--beside",
            metavar="[NAME=]WHO[,KEY=VALUE][@CHECKPOINT]",
            help="Play the contenders beside these laws only, not beside each other; repeatable.",
            autocompletion=completion.contenders,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a scenario key; repeatable."),
    ] = None,
    duration: Annotated[
        float, typer.Option("--duration", metavar="SECONDS", help="Simulated time of an episode.")
    ] = 1.0,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, metavar="N", help="Number of episodes for each pair.")
    ] = 6,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Results folder (default: results/neighbours-SCENARIO)."
        ),
    ] = None,
    jobs: JobsOption = 0,
    plugin: PluginOption = None,
    trust: TrustOption = False,
) -> None:
    """Play pairs of laws on alternate flows of a network. The same command resumes it."""
    from sysgym.bench.plugins import load_plugin
    from sysgym.scenarios import CongestionScenario, load_scenario, parse_overrides
    from sysgym.studies import neighbours as study
    from sysgym.studies.neighbours_picture import draw

    plugins = [load_plugin(path) for path in plugin or []]
    loaded = load_scenario(scenario, overrides=parse_overrides(set_ or []), expect=CongestionScenario)
    who, others = (laws_of(texts, plugins, loaded.name, trust) for texts in (law, beside or []))
    everyone = [*who, *(one for one in others if one not in who)]
    played = study.Neighbours(loaded, everyone, duration, seeds, others)
    folder = out if out is not None else Path("results") / f"neighbours-{loaded.name}"
    rows = play_study(played, folder, plugins, jobs)
    laws = [one.name for one in played.laws]
    found, sentences = list(study.tables(laws, rows)), study.verdicts(laws, rows)
    write_study(
        folder,
        "neighbours",
        markdown=study.markdown(played, found, sentences),
        picture=draw(laws, study.shares(laws, rows)).png,
        rows=study.ROWS,
        tables=study.tables(laws, rows, intervals=False),
        sentences=sentences,
    )
