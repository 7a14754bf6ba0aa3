"""``sysgym report``: what a benchmark's rows say, and how repeatable training is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_OF_DETERMINISM = ("agent", "seeds", "steps", "parameter", "out")


def report(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="DIR", help="Results folder of a benchmark; with --determinism a scenario, name or file."
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", help="Contender that others are compared with; dctcp if it plays."),
    ] = None,
    determinism: Annotated[
        bool,
        typer.Option(
            "--determinism",
            help="Train in four arms (seeds and tools free or fixed): spread, churn, cost of determinism.",
        ),
    ] = False,
    agent: Annotated[str, typer.Option("--agent", help="With --determinism: learning algorithm.")] = "ppo",
    seeds: Annotated[
        int, typer.Option("--seeds", min=2, metavar="N", help="With --determinism: trainings of each arm.")
    ] = 5,
    steps: Annotated[
        int, typer.Option("--steps", min=1, help="With --determinism: environment steps of each.")
    ] = 20_000,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            "-p",
            metavar="NAME=VALUE",
            help="With --determinism: hyper-parameter; may be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="With --determinism: folder; results/determinism-AGENT-SCENARIO if left out."
        ),
    ] = None,
) -> None:
    """Write report.html and report.md into a results folder; or measure how repeatable training is."""
    others = ("reference",) if determinism else _OF_DETERMINISM
    for name in others:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":  # typer has an enum of its own
            words = "does not go with" if determinism else "goes with"
            raise typer.BadParameter(f"it {words} --determinism", param_hint=f"--{name}")
    if determinism:
        from sysgym.cli.study.determinism import report_determinism

        report_determinism(
            target or "iroko-dumbbell-10m",
            agent=agent,
            n_seeds=seeds,
            steps=steps,
            out=out,
            hyper_parameters=parameter or [],
        )
        return
    from sysgym.cli.commands.bench import write_report

    if target is None:
        raise typer.BadParameter("name the results folder of a benchmark", param_hint="DIR")
    write_report(Path(target), reference)
