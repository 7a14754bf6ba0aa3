"""``sysgym study distillation``: a small student of a trained policy, compared with two controls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from sysgym.cli.terminal import bars, console, table

if TYPE_CHECKING:
    from sysgym.bench.statistics import Interval
    from sysgym.studies.distillation import Line, Result, Survey


def distillation(
    checkpoint: Annotated[Path, typer.Argument(help="Checkpoint of the teacher.")],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for students and results.")],
    hidden: Annotated[
        str, typer.Option("--hidden", metavar="N,N", help="Widths of the student's hidden layers.")
    ] = "16,16",
    larger: Annotated[
        str,
        typer.Option(
            "--larger", metavar="N,N", help="Widths of the hidden layers of the larger student, a control."
        ),
    ] = "64,64",
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps",
            min=1,
            help="Environment steps of every student and control (default: the teacher's).",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", min=1, metavar="N", help="Number of seeds of each; at least 5 are recommended."
        ),
    ] = 5,
    episodes: Annotated[
        int, typer.Option("--episodes", min=1, metavar="N", help="Number of held-out episodes for each.")
    ] = 10,
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds", min=1, help="Number of roll-outs; from the second on with the student's actions."
        ),
    ] = 5,
    updates: Annotated[
        int, typer.Option("--updates", min=1, help="Gradient steps after each roll-out.")
    ] = 500,
    noise: Annotated[
        float,
        typer.Option(
            "--noise",
            min=0.0,
            help="Noise on observations, relative to the standard deviation of each element.",
        ),
    ] = 0.1,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Temperature of the logits, for discrete actions.")
    ] = 2.0,
    n_envs: Annotated[int, typer.Option("--n-envs", min=1, help="Number of parallel environments.")] = 4,
) -> None:
    """Distill a small student from a policy; controls: the same network trained alone, and a larger student.

    The same command resumes an interrupted study.
    """
    from sysgym.agents.learned.checkpoint import read_checkpoint
    from sysgym.agents.learned.deploy.distill import Recipe
    from sysgym.studies.distillation import FEWEST_SEEDS, Survey

    teacher = read_checkpoint(checkpoint)
    recipe = Recipe(
        _widths("--hidden", hidden),
        steps or teacher.meta.total_steps,
        rounds=rounds,
        updates=updates,
        noise=noise,
        temperature=temperature,
        n_envs=n_envs,
    )
    survey = Survey(teacher, out, recipe, _widths("--larger", larger), seeds, episodes)
    screen = console()
    if seeds < FEWEST_SEEDS:
        screen.print(
            Text.assemble(("note", "yellow"), f" {seeds} seeds; at least {FEWEST_SEEDS} are recommended")
        )
    try:
        results = _watch(survey)
    except KeyboardInterrupt:
        screen.print(
            f"stopped; finished parts are in {out}; run the same command again to continue", soft_wrap=True
        )
        raise typer.Exit(130) from None
    _report(survey, results)


def _widths(option: str, text: str) -> tuple[int, ...]:
    from sysgym.errors import SysgymError

    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise SysgymError(f"{option}: expected widths as in 16,16, got {text!r}") from None


def _watch(survey: Survey) -> list[Result]:
    """Run the study with a progress bar of environment steps."""
    from sysgym.studies.distillation import MEANING, TEACHER, run_survey

    results: list[Result] = []
    each = survey.recipe.total_steps
    with bars() as progress:
        bar = progress.add_task("environment steps", total=each * (len(survey.runs()) - 1))

        def told(arm: str, seed: int, steps: int) -> None:
            before = each * sum(result.arm != TEACHER for result in results)
            words = f"{MEANING[arm]}, seed {seed}"
            progress.update(bar, completed=before + min(steps, each), description=words)

        for result in run_survey(survey, told):
            results.append(result)
            if result.arm != TEACHER:
                told(result.arm, result.seed, 0)
    return results


def _report(survey: Survey, results: Sequence[Result]) -> None:
    from sysgym.bench.tables import markdown_table
    from sysgym.scenarios.files import write_atomically
    from sysgym.studies.distillation import MEANING, STUDENT, lines_of, verdict

    lines = lines_of(results)
    meta = survey.teacher.meta
    title = (
        f"{meta.scenario_name}: return on {survey.n_episodes} held-out episodes, {survey.n_seeds} seeds"
        " (interquartile mean, 95 % bootstrap interval)"
    )
    headings = (
        "who",
        ">weights",
        ">int8 bytes",
        ">steps",
        ">return",
        ">minus alone",
        ">minus teacher",
        ">deviation",
    )
    rows = [_cells(line) for line in lines]
    screen = console()
    screen.print(table(*headings, title=title, rows=rows))
    notes = [f"{arm}: {meaning}" for arm, meaning in MEANING.items()]
    notes.append("deviation: mean difference from the teacher's output, or share of different actions")
    for note in notes:
        screen.print(note, style="dim")
    screen.print(verdict(lines))
    report = survey.folder / "distillation.md"
    text = markdown_table(headings, rows)
    words = "\n".join(f"- {note}" for note in notes)
    write_atomically(report, f"{title}\n\n{text}\n\n{words}\n\n{verdict(lines)}\n".encode())
    student = next(result for result in results if result.arm == STUDENT)
    screen.print(f"{report}", style="dim", soft_wrap=True)
    screen.print(
        f"sysgym export {student.checkpoint} --out policy.h --weights int8", style="dim", soft_wrap=True
    )


def _cells(line: Line) -> tuple[str, ...]:
    from sysgym.bench.tables import interval_text
    from sysgym.scenarios.units import significant

    def interval(found: Interval | None) -> str:
        return "" if found is None else interval_text(found)

    return (
        line.arm,
        str(line.n_parameters),
        str(line.int8_bytes),
        str(line.total_steps),
        interval(line.score),
        interval(line.over_alone),
        interval(line.over_teacher),
        "" if line.difference is None else significant(line.difference, 2),
    )
