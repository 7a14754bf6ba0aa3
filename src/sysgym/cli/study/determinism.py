"""``sysgym report --determinism``: how much of a training's result is chance, and how much is the tools'."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.progress import Progress

from sysgym.cli.terminal import bars, console, print_table
from sysgym.studies.determinism.study import Observer


class _Bars(Observer):
    """Bars on a terminal, a line for every run elsewhere."""

    def __init__(self, progress: Progress) -> None:
        self._console, self._progress = progress.console, progress
        self._total_steps = self._n_runs = self._n_done = 0

    def begin(self, n_runs: int, n_kept: int, steps: int) -> None:
        kept = f", {n_kept} of them from before" if n_kept else ""
        self._console.print(f"{n_runs} trainings of {steps} steps{kept}")
        self._total_steps, self._n_runs, self._n_done = steps, n_runs, n_kept
        self._bar = self._progress.add_task("trainings", total=n_runs * steps, completed=n_kept * steps)

    def steps(self, run: Any, steps: int) -> None:
        done = self._n_done * self._total_steps + min(steps, self._total_steps)
        self._progress.update(self._bar, completed=done, description=run.name)

    def done(self, run: Any, result: Any) -> None:
        self._n_done += 1
        self._progress.update(self._bar, completed=self._n_done * self._total_steps)
        if not self._console.is_terminal:
            self._console.print(f"{self._n_done} of {self._n_runs}: {run.name}, {result.wall_s:.0f} s")


def report_determinism(
    scenario: str, *, agent: str, n_seeds: int, steps: int, out: Path | None, hyper_parameters: list[str]
) -> None:
    """Train in four arms, compare, write determinism.json and determinism.md; exit code 1 without control.

    Args:
        scenario: Name or file.
        agent: Learning algorithm.
        n_seeds: Trainings of each arm.
        steps: Environment steps of each.
        out: Folder; None: ``results/determinism-AGENT-SCENARIO``.
        hyper_parameters: ``NAME=VALUE`` texts for the algorithm.

    Raises:
        MissingExtra: If the extra ``train`` is not installed.
        SysgymError: Something does not exist or does not fit, or a training failed.
    """
    from sysgym.cli.commands.bench import cpus
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
        n_seeds,
        steps,
        all_threads=max(cpus(), 2),
        hyper_parameters=parse_overrides(hyper_parameters),
    )
    folder = out if out is not None else Path("results") / f"determinism-{agent}-{loaded.name}"
    screen = console()
    try:
        with bars(in_percent=True) as progress:
            results = train_all(settings, folder, _Bars(progress))
        with console(stderr=True).status("comparing policies"):
            found = analyse(settings, results, folder)
    except KeyboardInterrupt:
        screen.print(f"stopped; finished trainings are in {folder}, the same command goes on from there")
        raise typer.Exit(130) from None
    write_atomically(folder / "determinism.json", json.dumps(found.to_json(), indent=1).encode() + b"\n")
    write_atomically(folder / "determinism.md", markdown(found).encode())
    for one in tables(found):
        print_table(screen, one)
    screen.print()
    for sentence in sentences(found):
        screen.print(sentence, markup=False)
    screen.print(f"{folder / 'determinism.json'}\n{folder / 'determinism.md'}", markup=False, soft_wrap=True)
    if not found.holds:
        raise typer.Exit(1)
