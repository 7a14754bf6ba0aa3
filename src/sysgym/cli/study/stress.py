"""``sysgym study stress``: contenders under noise, late decisions and a failed link."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli import completion
from sysgym.cli.options import TrustOption
from sysgym.cli.terminal import bars, console, print_table


def stress(
    scenario: Annotated[
        str, typer.Argument(help="Scenario, name or file.", autocompletion=completion.scenarios)
    ],
    contender: Annotated[
        list[str],
        typer.Option(
            "--contender",
            "-c",
            metavar="[NAME=]WHO[@CHECKPOINT]",
            help="Who plays: dctcp, aimd, ppo@runs/mine/final.zip ...; may be repeated.",
            autocompletion=completion.contenders,
        ),
    ],
    noise: Annotated[
        list[float] | None,
        typer.Option(
            "--noise",
            min=0.0,
            metavar="STD",
            help="Relative noise in observations, as in 0.1; may be repeated.",
        ),
    ] = None,
    delay: Annotated[
        list[int] | None,
        typer.Option("--delay", min=0, metavar="N", help="Decisions until an action works; may be repeated."),
    ] = None,
    fail_link: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-link",
            metavar="LINK",
            help="Down from a fifth to three fifths of the episode, as in leaf0<->spine1; may be repeated.",
        ),
    ] = None,
    kernel: Annotated[
        bool, typer.Option("--kernel", help="Also on the real kernel, in wall time (its service has to run).")
    ] = False,
    seeds: Annotated[int, typer.Option("--seeds", min=1, metavar="N", help="Episodes of each.")] = 10,
    split: Annotated[str, typer.Option("--split", help="Of the episodes.")] = "test",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="results/stress-SCENARIO if left out.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Processes; 0: one for each CPU.")] = 0,
    plugin: Annotated[
        list[Path] | None, typer.Option("--plugin", metavar="FILE", help="As in sysgym run; may be repeated.")
    ] = None,
    trust: TrustOption = False,
) -> None:
    """Play contenders under noise, late decisions and a failed link; started again, it goes on."""
    from sysgym.bench.contenders import load_plugin, parse_contender
    from sysgym.cli.commands.bench import cpus
    from sysgym.scenarios import get_family, load_scenario
    from sysgym.scenarios.files import write_atomically
    from sysgym.studies.stress import Condition, Stress, markdown, run_stress, tables

    plugins = [load_plugin(path) for path in plugin or []]
    loaded = load_scenario(scenario)
    if not (noise or delay or fail_link or kernel):
        noise, delay = [0.05, 0.2], [1, 4] if get_family(loaded.family).disturbances.late_actions else []
    conditions = [
        *(Condition(noise=level) for level in noise or ()),
        *(Condition(delay=decisions) for decisions in delay or ()),
        *(Condition(fail_link=link) for link in fail_link or ()),
        *([Condition(kernel=True)] if kernel else []),
    ]
    who = (
        parse_contender(text, plugins, loaded.family, loaded.env_id).with_shipped(loaded.name)
        for text in contender
    )
    contenders = [replace(one, trusted=trust) for one in who]
    played = Stress(loaded, split, seeds, contenders, list(dict.fromkeys([Condition(), *conditions])))
    folder = out if out is not None else Path("results") / f"stress-{loaded.name}"
    screen = console()
    try:
        with bars() as progress:
            bar = progress.add_task("episodes", total=None)
            rows = run_stress(
                played,
                folder,
                n_workers=jobs or cpus(),
                plugins=[one.file for one in plugins],
                tell=lambda done, of: progress.update(bar, completed=done, total=of),
            )
    except KeyboardInterrupt:
        screen.print(f"stopped; finished episodes are in {folder}, the same command goes on from there")
        raise typer.Exit(130) from None
    found = list(tables(played, rows))
    write_atomically(folder / "stress.md", markdown(played, found).encode())
    for one in found:
        print_table(screen, one)
    screen.print(f"\n{folder / 'stress.md'}\n{folder / 'stress.jsonl'}", markup=False, soft_wrap=True)
