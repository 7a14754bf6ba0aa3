"""From a results folder to an entry that replays: what ``sysgym submit`` does."""

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
    """What is to be submitted.

    Attributes:
        results: What a benchmark wrote.
        suite: Name of its suite.
        benchmark: Its rows.
        contenders: Who enters.
    """

    results: Path
    suite: str
    benchmark: BenchmarkResult
    contenders: tuple[str, ...]


def check_submission(results: Path, contenders: Sequence[str] = ()) -> Submission:
    """Check that a results folder can be submitted.

    Args:
        results: What a benchmark wrote.
        contenders: Who enters; none: all that were trained or brought a file of their own.

    Raises:
        SysgymError: It has no rows or no record of its run, an episode is missing, or nobody enters.
    """
    benchmark = read_benchmark(results)
    suite = read_run(results)["suite"].get("name")
    if suite is None or not benchmark.sittings:
        raise SysgymError(f"{results / RUN}: does not say what was run; submit what sysgym bench wrote")
    missing = benchmark.sittings[-1].missing
    if missing != 0:
        raise SysgymError(
            f"{results}: {missing or 'some'} episodes are missing; the same sysgym bench plays them"
        )
    own = {row.contender.name for row in benchmark.rows if row.contender.learned or row.contender.plugins}
    chosen = tuple(contenders) or tuple(player.name for player in benchmark.players if player.name in own)
    if not chosen:
        names = ", ".join(player.name for player in benchmark.players)
        raise SysgymError(
            f"{results}: nobody in it was trained or brought a file; say who enters with --contender: {names}"
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
    """Pack an entry and validate it in a process of its own, which sees nothing of this one's.

    Args:
        submission: As checked.
        entry: Where it goes.
        title: A line.
        by: Who made it.
        n_rows: Rows to play again; 0: all.
        plugins: The user's own files, which rows need and the results folder lacks.
        trust: Whether code in the entry may run.

    Returns:
        The README, which is left to be written.

    Raises:
        SysgymError: The entry is there already or cannot be made.
        ResultMismatch: It does not replay; nothing is left of it.
    """
    who = submission.contenders
    readme = pack(submission.results, entry, title=title, by=by, contenders=who, plugins=plugins)
    options = [word for path in plugins for word in ("--plugin", str(path.resolve()))]
    options += ["--trust"] if trust else []
    # Isolated: no folder of the user's and none of their variables has a say in what Python imports.
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
        raise ResultMismatch(f"{submission.results}: its entry does not replay, and was taken away\n{words}")
    return readme
