"""``sysgym bench``, ``report`` and ``validate``."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer
from rich.markup import escape

from sysgym.cli.terminal import console

if TYPE_CHECKING:
    from sysgym.bench.plan import Plan
    from sysgym.scenarios import Scenario

MOST_ROWS_SHOWN = 20
"""A longer table is for the report, not for the terminal."""


class Energy(NamedTuple):
    """What the user wrote of energy; as :meth:`sysgym.bench.energy.EnergySettings.from_options` reads it."""

    method: str
    grid: str
    pue: float
    watts_per_core: str


def _print_survey(name: str, folder: Path, n_workers: int) -> None:
    """Make a suite's survey, keep it with the results and print it."""
    from sysgym.bench import surveys
    from sysgym.cli.terminal import print_table

    screen = console()
    with console(stderr=True).status(f"survey {name}") as status:
        pages = surveys.make(
            name, n_workers, lambda done, of: status.update(f"survey {name}: {done} of {of}")
        )
    surveys.write(folder, pages)
    for page in pages:
        if len(page.rows) > MOST_ROWS_SHOWN:
            screen.print(f"\n[bold]{escape(page.title)}[/bold]: {len(page.rows)} lines, in the report")
            continue
        print_table(screen, page.table)


def run_benchmark(
    suite: str,
    *,
    out: Path | None,
    n_workers: int,
    n_seeds: int | None,
    contenders: Sequence[str],
    scenarios: Sequence[str],
    plugins: Sequence[Path],
    energy: Energy,
    trust: bool,
    timeout_s: float,
) -> None:
    """Run a suite; exit code 1 if an episode is missing at the end, 130 after Ctrl-C.

    Args:
        suite: Name or file.
        out: Results folder; None: ``results/SUITE``.
        n_workers: Processes; 0: one for each CPU.
        n_seeds: Seeds of every task; None: the suite's.
        contenders: More of them.
        scenarios: More of them.
        plugins: The user's files.
        energy: How energy and carbon are counted.
        trust: Whether code in checkpoints may run.
        timeout_s: How long an episode may take; 0: as long as it likes.

    Raises:
        SysgymError: The suite or something added is wrong.
    """
    from sysgym.bench.contenders import load_plugin
    from sysgym.bench.energy import EnergySettings
    from sysgym.bench.plan import Extras, make_plan
    from sysgym.bench.run.pool import TimedOut
    from sysgym.bench.run.runner import ERRORS, run_plan
    from sysgym.cli.progress import BenchProgress
    from sysgym.scenarios import load_suite

    settings = EnergySettings.from_options(*energy)
    loaded = load_suite(suite)
    folder = out if out is not None else Path("results") / loaded.name
    extras = Extras(scenarios, contenders, n_seeds, trust)
    own = [load_plugin(path) for path in plugins]
    plan = make_plan(loaded, folder, extras, own)
    screen = console()
    screen.print(f"[bold]{escape(loaded.title)}[/bold]")
    _say_how_long(plan, n_workers or cpus())
    try:
        with BenchProgress(screen) as progress:
            outcome = run_plan(
                plan,
                folder,
                n_workers=n_workers or cpus(),
                plugins=[plugin.file for plugin in own],
                observer=progress,
                command=command_line(),
                energy=settings,
                episode_limit_s=timeout_s or None,
            )
    except KeyboardInterrupt:
        screen.print(f"stopped; finished rows are in {folder}, the same command goes on from there")
        raise typer.Exit(130) from None
    done = outcome.n_kept + outcome.n_played
    kept = f", {outcome.n_kept} of them from before" if outcome.n_kept else ""
    screen.print(
        f"{done} of {outcome.n_cells} episodes{kept}, {outcome.wall_s:.0f} s; rows in {folder}/results.jsonl"
    )
    if loaded.survey is not None:
        with stoppable("all rows are there, the survey is not; the same command makes it"):
            _print_survey(loaded.survey, folder, n_workers or cpus())
    if not outcome.complete:
        missing = f"{outcome.n_cells - done} episodes are missing"
        if outcome.failures:
            late = sum(isinstance(failure, TimedOut) for failure in outcome.failures)
            missing += f", {len(outcome.failures)} job{'s' * (len(outcome.failures) > 1)} failed"
            missing += f" ({late} not over within {timeout_s:g} s)" if late else ""
            missing += f"; tracebacks in {folder / ERRORS}"
        screen.print(f"[red]{missing}[/red]")
        raise typer.Exit(1)
    screen.print(f"[dim]sysgym report {folder}[/dim]")


def _say_how_long(plan: Plan, n_workers: int) -> None:
    """Say how long the trainings and episodes of a plan take, those from before included."""
    from sysgym.cli.estimates import say_how_long
    from sysgym.scenarios import load_scenario

    counts: dict[str, tuple[Scenario, float]] = {}
    for cell in plan.cells:
        scenario, count = counts.get(cell.scenario.sha256(), (cell.scenario, 0.0))
        counts[cell.scenario.sha256()] = (scenario, count + 1)
    trainings = [(load_scenario(spec.scenario), float(spec.total_steps)) for spec in plan.suite.training]
    say_how_long(counts.values(), n_workers, steps=trainings)


def write_report(folder: Path, reference: str | None) -> None:
    """Write both forms of the report and print the headlines.

    Args:
        folder: Results folder.
        reference: Contender that others are compared with.

    Raises:
        SysgymError: There are no rows, or a file of the folder holds something else than it should.
    """
    from sysgym.bench.report import write
    from sysgym.bench.report.folders import check_records

    began_s = time.perf_counter()
    check_records(folder)
    screen = console()
    with stoppable("the report is not finished, the same command begins it anew"):
        written = write(folder, reference=reference)
    for headline in written.headlines:
        screen.print(f"[bold]{headline.scenario}[/bold]")
        for sentence in headline.sentences:
            screen.print(f"  {sentence}", markup=False)
    screen.print(f"[dim]{time.perf_counter() - began_s:.1f} s[/dim]")
    screen.print(f"{written.html}\n{written.markdown}", markup=False)


def validate_rows(
    folder: Path,
    *,
    count: int | None,
    seed: int | None,
    n_workers: int,
    plugins: Sequence[Path],
    trust: bool,
    timeout_s: float,
) -> None:
    """Replay rows.

    Args:
        folder: Results folder.
        count: How many; None: all.
        seed: Of the choice; None: one that nobody could know when the rows were made, from the system.
        n_workers: Processes; 0: one for each CPU.
        plugins: The user's files.
        trust: Whether code that came with the rows may run.
        timeout_s: How long an episode may take; 0: as long as it likes.

    Raises:
        ResultMismatch: Names the rows and metrics that differ.
        SysgymError: There are no rows, or one cannot be played again.
    """
    from sysgym.bench.results.rows import read_rows
    from sysgym.bench.run.replay import choose_rows, replay
    from sysgym.errors import ResultMismatch

    rows = read_rows(folder)
    seed = secrets.randbelow(2**32) if seed is None else seed
    chosen = choose_rows(rows, count, seed)
    screen = console()
    how = "" if len(chosen) == len(rows) else f", chosen with --seed {seed}"
    screen.print(f"playing {len(chosen)} of {len(rows)} rows again{how}")
    mismatches: list[str] = []
    for result in replay(
        chosen,
        folder,
        n_workers=n_workers or cpus(),
        plugins=[str(path) for path in plugins],
        trust=trust,
        episode_limit_s=timeout_s or None,
    ):
        try:
            result.raise_if_different()
        except ResultMismatch as mismatch:
            mismatches.append(str(mismatch))
            screen.print(f"[red]differs[/red]  {escape(result.row.label)}")
        else:
            note = "  (under other versions)" if result.other_versions else ""
            screen.print(f"[green]equal[/green]    {escape(result.row.label)}{note}")
    if mismatches:
        raise ResultMismatch(
            "\n".join([f"{len(mismatches)} of {len(chosen)} rows do not replay", *mismatches])
        )
    screen.print(f"all {len(chosen)} equal, bit by bit")


@contextmanager
def stoppable(words: str) -> Iterator[None]:
    """Say what Ctrl-C left, and leave with exit code 130.

    Args:
        words: What is done and how to go on.
    """
    try:
        yield
    except KeyboardInterrupt:
        console().print(f"stopped; {words}")
        raise typer.Exit(130) from None


def cpus() -> int:
    """Return how many CPUs this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def command_line() -> str:
    """Return what the user typed, without the folders of their machine."""
    return shlex.join(["sysgym", *sys.argv[1:]])
