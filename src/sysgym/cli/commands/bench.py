"""``sysgym bench``, ``report`` and ``validate``."""

from __future__ import annotations

import itertools
import os
import random
import secrets
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from rich.text import Text

from sysgym.cli.terminal import console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from sysgym.bench.plan import Plan
    from sysgym.bench.report import Episode
    from sysgym.scenarios import Scenario

MOST_ROWS_SHOWN = 20
"""Longer tables are shown in the report only."""


class Energy(NamedTuple):
    """Options of energy, as :meth:`sysgym.bench.energy.EnergySettings.from_options` takes them."""

    method: str
    grid: str
    pue: float
    watts_per_core: str


class Where(NamedTuple):
    """Location where episodes and trainings run.

    Attributes:
        executor: Name of the executor.
        n_workers: Number of processes; 0: one per CPU.
        address: Address of a Ray cluster.
        options: ``KEY=VALUE`` for the jobs of Slurm.
    """

    executor: str
    n_workers: int
    address: str | None
    options: Sequence[str]


def _print_survey(name: str, folder: Path, n_workers: int) -> None:
    """Run a suite's survey, store it in the results folder and print it."""
    from sysgym.bench import surveys
    from sysgym.cli.terminal import print_table

    screen = console()
    with console(stderr=True).status(f"survey {name}") as status:
        pages = surveys.make(
            name, folder, n_workers, lambda done, of: status.update(f"survey {name}: {done} of {of}")
        )
    surveys.write(folder, pages)
    for page in pages:
        if len(page.rows) > MOST_ROWS_SHOWN:
            screen.print(
                Text.assemble("\n", (page.title, "bold"), f": {len(page.rows)} rows, see the report")
            )
            continue
        print_table(screen, page.table)


def run_benchmark(
    suite: str,
    *,
    out: Path | None,
    where: Where,
    n_seeds: int | None,
    contenders: Sequence[str],
    scenarios: Sequence[str],
    plugins: Sequence[Path],
    energy: Energy,
    trust: bool,
    timeout_s: float,
) -> None:
    """Run a suite; exit with code 1 if an episode is missing at the end, 130 after Ctrl-C.

    Args:
        suite: Name or file.
        out: Results folder; None: ``results/SUITE``.
        where: Where episodes and trainings run.
        n_seeds: Number of seeds of every task; None: the suite's.
        contenders: Additional contenders.
        scenarios: Additional scenarios.
        plugins: The user's Python files.
        energy: Options of energy and carbon.
        trust: Whether checkpoints may run code.
        timeout_s: Time limit of an episode; 0: none.

    Raises:
        SysgymError: The suite or an addition is invalid.
    """
    from sysgym.bench.energy import EnergySettings
    from sysgym.bench.plan import Extras, make_plan
    from sysgym.bench.plugins import load_plugin
    from sysgym.bench.run.executors import LOCAL, make_executor
    from sysgym.bench.run.pool import TimedOut
    from sysgym.bench.run.runner import ERRORS, run_plan
    from sysgym.cli.progress import BenchProgress
    from sysgym.scenarios import get_family, load_suite

    settings = EnergySettings.from_options(*energy)
    loaded = load_suite(suite)
    folder = out if out is not None else Path("results") / loaded.name
    if where.executor != LOCAL:
        folder = folder.resolve()  # for processes that begin in another folder
    extras = Extras(scenarios, contenders, n_seeds, trust)
    own = [load_plugin(path) for path in plugins]
    plan = make_plan(loaded, folder, extras, own)
    screen = console()
    screen.print(loaded.title, style="bold")
    for scenario in {cell.scenario.sha256(): cell.scenario for cell in plan.cells}.values():
        get_family(scenario.family).prepare_for(scenario)
    n_workers = where.n_workers or cpus()
    if where.executor == LOCAL or where.n_workers:
        _say_how_long(plan, n_workers)
    executor = make_executor(
        where.executor,
        folder,
        n_workers if where.executor == LOCAL else where.n_workers,
        address=where.address,
        options=_options_of(where.options),
    )
    try:
        with BenchProgress(screen) as progress:
            outcome = run_plan(
                plan,
                folder,
                executor=executor,
                plugins=[plugin.file for plugin in own],
                observer=progress,
                command=command_line(),
                energy=settings,
                episode_limit_s=timeout_s or None,
            )
    except KeyboardInterrupt:
        screen.print(f"stopped; finished rows are in {folder}; run the same command again to continue")
        raise typer.Exit(130) from None
    done = outcome.n_kept + outcome.n_played
    kept = f", {outcome.n_kept} of them finished earlier" if outcome.n_kept else ""
    screen.print(
        f"{done} of {outcome.n_cells} episodes{kept}, {outcome.wall_s:.0f} s; rows in {folder}/results.jsonl"
    )
    if loaded.survey is not None:
        with stoppable("all rows are finished, the survey is not; run the same command again to finish it"):
            _print_survey(loaded.survey, folder, n_workers)
    if not outcome.complete:
        missing = f"{outcome.n_cells - done} episodes are missing"
        if outcome.failures:
            late = sum(isinstance(failure, TimedOut) for failure in outcome.failures)
            missing += f", {len(outcome.failures)} job{'s' * (len(outcome.failures) > 1)} failed"
            missing += f" ({late} exceeded {timeout_s:g} s)" if late else ""
            missing += f"; see the tracebacks in {folder / ERRORS}"
        screen.print(missing, style="red")
        raise typer.Exit(1)
    screen.print(f"sysgym report {folder}", style="dim")


def _options_of(texts: Sequence[str]) -> dict[str, int | str]:
    """Return the options of Slurm jobs.

    Raises:
        SysgymError: A text is not ``KEY=VALUE``.
    """
    from sysgym.errors import SysgymError

    options: dict[str, int | str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise SysgymError(f"--cluster {text}: expected KEY=VALUE, such as slurm_partition=cpu")
        options[key] = int(value) if value.isdigit() else value
    return options


def _say_how_long(plan: Plan, n_workers: int) -> None:
    """Print the estimated duration of a plan's trainings, tunings and episodes, including finished ones."""
    from sysgym.cli.estimates import say_how_long
    from sysgym.scenarios import load_scenario

    counts: dict[str, tuple[Scenario, float]] = {}
    for cell in plan.cells:
        scenario, count = counts.get(cell.scenario.sha256(), (cell.scenario, 0.0))
        counts[cell.scenario.sha256()] = (scenario, count + 1)
    for tuning in plan.tunings.values():
        scenario, count = counts[tuning.scenario_sha256]
        counts[tuning.scenario_sha256] = (scenario, count + len(tuning.points) * len(tuning.seeds))
    trainings = [(load_scenario(spec.scenario), float(spec.total_steps)) for spec in plan.suite.training]
    say_how_long(counts.values(), n_workers, steps=trainings)


def write_report(folder: Path, reference: str | None, *, live: bool = False, trust: bool = False) -> None:
    """Write the report in both formats and print the headlines.

    Args:
        folder: Results folder.
        reference: Contender that the others are compared with.
        live: Whether to add a page for each scenario that plays one episode.
        trust: Whether checkpoints may run code for these pages.

    Raises:
        SysgymError: There are no rows, or a file of the folder is invalid.
    """
    from sysgym.bench.report import write
    from sysgym.bench.report.folders import check_records

    began_s = time.perf_counter()
    check_records(folder)
    screen = console()
    with stoppable("the report is not finished; run the same command again"):
        episodes = _episodes(folder, reference, trust) if live else None
        written = write(folder, reference=reference, episodes=episodes)
    for headline in written.headlines:
        screen.print(headline.scenario, style="bold")
        for sentence in headline.sentences:
            screen.print(f"  {sentence}")
    screen.print(f"{time.perf_counter() - began_s:.1f} s", style="dim")
    screen.print(f"{written.html}\n{written.markdown}")


def _episodes(folder: Path, reference: str | None, trust: bool) -> dict[str, Episode]:
    """Return the live page of every scenario that has one, and say why others have none."""
    from sysgym.bench.report import Episode
    from sysgym.bench.report.data.benchmark import read_benchmark
    from sysgym.cli.terminal import bars
    from sysgym.errors import SysgymError
    from sysgym.live.of_rows import episode_page, rows_shown, why_no_page

    found: dict[str, Episode] = {}
    with bars(in_percent=True) as progress:
        for result in read_benchmark(folder, reference).results:
            rows = rows_shown(result)
            bar = progress.add_task(result.label, total=1.0)
            why = why_no_page(result, rows)
            try:
                made = (
                    None
                    if why
                    else episode_page(
                        rows,
                        folder,
                        trust=trust,
                        watch=partial(_move, progress, bar),
                    )
                )
            except SysgymError as error:
                why, made = str(error), None
            progress.update(bar, completed=1.0)
            if made is None:
                progress.console.print(f"no live page of {result.label}: {why}")
                continue
            who = " and ".join(made.contenders)
            found[result.slug] = Episode(made.html, f"Watch {who} in the episode of seed {made.seed}")
    return found


def _move(progress: Progress, bar: TaskID, share: float) -> None:
    progress.update(bar, completed=share)


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
        count: Number of rows; None: all.
        seed: Seed of the choice of rows; None: a random one from the system, which could not be known when
            the rows were recorded.
        n_workers: Number of processes; 0: one per CPU.
        plugins: The user's Python files.
        trust: Whether code that came with the rows may run.
        timeout_s: Time limit of an episode; 0: none.

    Raises:
        ResultMismatch: Names the rows and metrics that differ.
        SysgymError: There are no rows, or one cannot be replayed.
    """
    from sysgym.bench.leaderboard import neighbours
    from sysgym.bench.results.rows import read_rows
    from sysgym.bench.run.replay import choose_rows, replay
    from sysgym.errors import ResultMismatch
    from sysgym.studies.neighbours import read_rows as read_neighbours

    rows, beside = read_rows(folder), read_neighbours(folder)
    seed = secrets.randbelow(2**32) if seed is None else seed
    chosen = choose_rows(rows, count, seed)
    rng = random.Random(seed)
    others = beside if count is None else rng.sample(beside, min(count, len(beside)))
    screen = console()
    everything = len(chosen) == len(rows) and len(others) == len(beside)
    how = "" if everything else f", chosen with --seed {seed}"
    more = f" and {len(others)} of {len(beside)} rows of neighbours" if beside else ""
    screen.print(f"replaying {len(chosen)} of {len(rows)} rows{more}{how}")
    settings: dict[str, Any] = {
        "n_workers": n_workers or cpus(),
        "plugins": [str(path) for path in plugins],
        "trust": trust,
        "episode_limit_s": timeout_s or None,
    }
    mismatches: list[str] = []
    for result in itertools.chain(
        replay(chosen, folder, **settings), neighbours.replay(others, folder, **settings)
    ):
        try:
            result.raise_if_different()
        except ResultMismatch as mismatch:
            mismatches.append(str(mismatch))
            screen.print(Text.assemble(("differs", "red"), f"  {result.label}"))
        else:
            note = "  (with other versions)" if result.other_versions else ""
            screen.print(Text.assemble(("equal", "green"), f"    {result.label}{note}"))
    n_rows = len(chosen) + len(others)
    if mismatches:
        raise ResultMismatch("\n".join([f"{len(mismatches)} of {n_rows} rows do not replay", *mismatches]))
    screen.print(f"all {n_rows} rows are equal, bit by bit")


@contextmanager
def stoppable(words: str) -> Iterator[None]:
    """Exit with code 130 at Ctrl-C, after a message.

    Args:
        words: What is finished and how to continue.
    """
    try:
        yield
    except KeyboardInterrupt:
        console().print(f"stopped; {words}")
        raise typer.Exit(130) from None


def cpus() -> int:
    """Return the number of CPUs that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def command_line() -> str:
    """Return the command that the user typed, without the path of the program."""
    return shlex.join(["sysgym", *sys.argv[1:]])
