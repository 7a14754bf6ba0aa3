"""``sysgym study stress``: contenders under noise, delayed decisions and disturbances of their family."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sysgym.cli import completion
from sysgym.cli.options import JobsOption, PluginOption, TrustOption
from sysgym.cli.study.episodes import play_study
from sysgym.cli.terminal import console, print_table

if TYPE_CHECKING:
    from sysgym.scenarios import Scenario


def stress(
    scenario: Annotated[
        str, typer.Argument(help="Scenario name or file.", autocompletion=completion.scenarios)
    ],
    contender: Annotated[
        list[str],
        typer.Option(
            "--contender",
            "-c",
            metavar="[NAME=]WHO[@CHECKPOINT]",
            help="Contender: dctcp, aimd, ppo@runs/mine/final.zip ...; repeatable.",
            autocompletion=completion.contenders,
        ),
    ],
    noise: Annotated[
        list[float] | None,
        typer.Option(
            "--noise",
            min=0.0,
            metavar="STD",
            help="Standard deviation of relative noise in observations, for example 0.1; repeatable.",
        ),
    ] = None,
    delay: Annotated[
        list[int] | None,
        typer.Option("--delay", min=0, metavar="N", help="Delay of actions in decisions; repeatable."),
    ] = None,
    fail_link: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-link",
            metavar="LINK",
            help="Link that is down from 1/5 to 3/5 of the episode, for example leaf0<->spine1; repeatable.",
        ),
    ] = None,
    disturb: Annotated[
        list[str] | None,
        typer.Option(
            "--disturb",
            metavar="NAME=STRENGTH,...",
            help=(
                "Disturbance of the scenario's family with strengths, for example missing=0.25,0.5;"
                " repeatable. NAME alone: its usual strengths."
            ),
        ),
    ] = None,
    kernel: Annotated[
        bool,
        typer.Option(
            "--kernel", help="Also run on the Linux kernel, in wall time (its service must be running)."
        ),
    ] = False,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, metavar="N", help="Number of episodes for each condition.")
    ] = 10,
    split: Annotated[str, typer.Option("--split", help="Split of the episodes.")] = "test",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Results folder (default: results/stress-SCENARIO)."),
    ] = None,
    jobs: JobsOption = 0,
    plugin: PluginOption = None,
    trust: TrustOption = False,
) -> None:
    """Run contenders under noise, late decisions and disturbances of their family.

    The same command resumes it. Without a condition it tries all kinds that the family has.
    """
    from sysgym.bench.contenders import parse_contender
    from sysgym.bench.plugins import load_plugin
    from sysgym.scenarios import load_scenario
    from sysgym.scenarios.files import write_atomically
    from sysgym.studies.stress import (
        Condition,
        Stress,
        default_conditions,
        markdown,
        tables,
    )
    from sysgym.studies.stress_picture import draw

    plugins = [load_plugin(path) for path in plugin or []]
    loaded = load_scenario(scenario)
    conditions = [
        *(Condition(noise=level) for level in noise or ()),
        *(Condition(delay=decisions) for decisions in delay or ()),
        *(Condition(fail_link=link) for link in fail_link or ()),
        *([Condition(kernel=True)] if kernel else []),
        *(
            Condition(disturbance=name, strength=strength)
            for text in disturb or ()
            for name, strengths in [_strengths(text, loaded)]
            for strength in strengths
        ),
    ] or default_conditions(loaded)
    who = (
        parse_contender(text, plugins, loaded.family, loaded.env_id).with_shipped(loaded.name)
        for text in contender
    )
    contenders = [replace(one, trusted=trust) for one in who]
    played = Stress(loaded, split, seeds, contenders, list(dict.fromkeys([Condition(), *conditions])))
    folder = out if out is not None else Path("results") / f"stress-{loaded.name}"
    screen = console()
    rows = play_study(played, folder, plugins, jobs)
    found = list(tables(played, rows))
    write_atomically(folder / "stress.md", markdown(played, found).encode())
    for one in found:
        print_table(screen, one)
    names = ["stress.md", "stress.jsonl"]
    if (picture := draw(played, rows)) is not None:
        write_atomically(folder / "stress.png", picture.png)
        names.append("stress.png")
    screen.print()
    for name in names:
        screen.print(folder / name, soft_wrap=True)


def _strengths(text: str, scenario: Scenario) -> tuple[str, list[float]]:
    """Return the name and the strengths in an option ``--disturb``."""
    from sysgym.errors import SysgymError
    from sysgym.studies.stress import own_disturbance

    name, equals, numbers = text.partition("=")
    levels = own_disturbance(scenario, name).levels
    if not equals:
        return name, list(levels)
    try:
        return name, [float(number) for number in numbers.split(",")]
    except ValueError as error:
        raise SysgymError(
            f"--disturb {text}: expected NAME=STRENGTH,... with numbers, for example {name}={levels[0]:g}"
        ) from error
