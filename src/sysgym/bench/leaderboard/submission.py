"""Submission of a results folder as an entry that replays, as done by ``sysgym submit``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sysgym.bench.leaderboard.entries import pack
from sysgym.bench.report.data.benchmark import BenchmarkResult, read_benchmark
from sysgym.bench.results.records import RUN, read_run
from sysgym.errors import ResultMismatch, SysgymError

_VALIDATE = "from sysgym.cli import main; main()"


@dataclass(frozen=True)
class Submission:
    """Results folder that has been checked for submission.

    Attributes:
        results: Results folder of a benchmark.
        suite: Name of the suite.
        benchmark: Results.
        contenders: Contenders to rank.
    """

    results: Path
    suite: str
    benchmark: BenchmarkResult
    contenders: tuple[str, ...]


def check_submission(results: Path, contenders: Sequence[str] = ()) -> Submission:
    """Check that a results folder can be submitted.

    Args:
        results: Results folder of a benchmark.
        contenders: Contenders to rank; empty: all that were trained or are defined in a user's file.

    Raises:
        SysgymError: If the folder has no rows or no record of its run, an episode is missing, or there is no
            contender to rank.
    """
    benchmark = read_benchmark(results)
    suite = read_run(results)["suite"].get("name")
    if suite is None or not benchmark.sittings:
        raise SysgymError(
            f"{results / RUN}: the record of the run is missing; submit a folder written by sysgym bench"
        )
    missing = benchmark.sittings[-1].missing
    if missing != 0:
        raise SysgymError(
            f"{results}: {missing or 'some'} episodes are missing; run the same sysgym bench again"
        )
    own = {row.contender.name for row in benchmark.rows if row.contender.learned or row.contender.plugins}
    chosen = tuple(contenders) or tuple(player.name for player in benchmark.players if player.name in own)
    if not chosen:
        names = ", ".join(player.name for player in benchmark.players)
        raise SysgymError(
            f"{results}: no contender was trained or has a file; choose with --contender: {names}"
        )
    return Submission(results, suite, benchmark, chosen)


def submit(
    submission: Submission,
    entry: Path,
    *,
    title: str,
    by: str,
    n_rows: int,
    plugins: Sequence[Path] = (),
    trust: bool = False,
) -> Path:
    """Pack an entry and validate it in a separate, isolated process.

    Args:
        submission: Checked submission.
        entry: Folder of the new entry.
        title: Title, one line.
        by: Authors.
        n_rows: Number of rows to replay; 0: all.
        plugins: The user's own files that the rows need and the results folder lacks.
        trust: Whether code in the entry may run.

    Returns:
        Path of the README, whose text the user has to complete.

    Raises:
        SysgymError: If the entry exists already or cannot be made.
        ResultMismatch: If the entry does not replay; it has been deleted.
    """
    who = submission.contenders
    readme = pack(submission.results, entry, title=title, by=by, contenders=who, plugins=plugins)
    options = [word for path in plugins for word in ("--plugin", str(path.resolve()))]
    options += ["--trust"] if trust else []
    # Isolated mode: the user's folders and environment variables do not affect Python's imports.
    python = [sys.executable, "-I", "-c", _VALIDATE]
    done = subprocess.run(
        [*python, "validate", str(entry.resolve()), "--sample", str(n_rows), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        shutil.rmtree(entry)
        words = done.stderr.strip() or done.stdout.strip()
        raise ResultMismatch(f"{submission.results}: its entry does not replay and was deleted\n{words}")
    return readme
