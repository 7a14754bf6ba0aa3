"""``sysgym study determinism``: differences between trainings due to seeds and due to tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sysgym.cli import completion
from sysgym.cli.terminal import bars, console, print_table


def determinism(
    scenario: Annotated[
        str, typer.Argument(help="Scenario name or file.", autocompletion=completion.scenarios)
    ] = "iroko-dumbbell-10m",
    agent: Annotated[
        str, typer.Option("--agent", help="Learning algorithm.", autocompletion=completion.learners)
    ] = "ppo",
    seeds: Annotated[
        int, typer.Option("--seeds", min=2, metavar="N", help="Number of trainings in each arm.")
    ] = 5,
    steps: Annotated[
        int, typer.Option("--steps", min=1, help="Number of environment steps of each training.")
    ] = 20_000,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            "-p",
            metavar="NAME=VALUE",
            help="Hyperparameter of the algorithm, for example learning_rate=1e-3; repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Results folder (default: results/determinism-AGENT-SCENARIO)."
        ),
    ] = None,
) -> None:
    """Train with seeds and tools free or fixed; measure spread, churn and the cost of determinism.

    The same command resumes an interrupted study. Exit code 1 if trainings with everything fixed differ.
    """
    from sysgym.cli.commands.bench import cpus
    from sysgym.cli.progress import DeterminismProgress
    from sysgym.errors import MissingExtra
    from sysgym.scenarios import load_scenario, parse_overrides
    from sysgym.scenarios.files import write_atomically
    from sysgym.studies.determinism.comparison import analyse
    from sysgym.studies.determinism.report import markdown, sentences, tables
    from sysgym.studies.determinism.study import Settings, train_all

    try:
        import stable_baselines3  # noqa: F401
    except ImportError as error:
        raise MissingExtra("train", "training") from error
    loaded = load_scenario(scenario)
    settings = Settings(
        loaded,
        agent,
        seeds,
        steps,
        all_threads=max(cpus(), 2),
        hyper_parameters=parse_overrides(parameter or []),
    )
    folder = out if out is not None else Path("results") / f"determinism-{agent}-{loaded.name}"
    screen = console()
    try:
        with bars(in_percent=True) as progress:
            results = train_all(settings, folder, DeterminismProgress(progress))
        with console(stderr=True).status("comparing policies"):
            found = analyse(settings, results, folder)
    except KeyboardInterrupt:
        screen.print(f"stopped; finished trainings are in {folder}; run the same command again to continue")
        raise typer.Exit(130) from None
    write_atomically(folder / "determinism.json", json.dumps(found.to_json(), indent=1).encode() + b"\n")
    write_atomically(folder / "determinism.md", markdown(found).encode())
    for one in tables(found):
        print_table(screen, one)
    screen.print()
    for sentence in sentences(found):
        screen.print(sentence)
    screen.print(f"{folder / 'determinism.json'}\n{folder / 'determinism.md'}", soft_wrap=True)
    if not found.holds:
        raise typer.Exit(1)
