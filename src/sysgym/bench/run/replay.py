"""Replay of rows, with a bitwise comparison of every number."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sysgym.bench.contenders import Contender, file_sha256
from sysgym.bench.results.code import code_of
from sysgym.bench.results.rows import Row
from sysgym.bench.results.versions import versions
from sysgym.bench.run.episodes import EpisodeJob, compile_for_workers
from sysgym.bench.run.pool import Event, Failed, Job, Progress, TimedOut, run_jobs
from sysgym.errors import ResultMismatch, SysgymError
from sysgym.scenarios import scenario_from_resolved

ABSENT = "absent"


@dataclass(frozen=True)
class Replay:
    """Comparison of a row with its replay.

    Attributes:
        label: Name of the row in messages.
        differences: Metric -> (recorded value, replayed value), for values that differ.
        other_versions: Package -> (recorded version, present version), for versions that differ.
    """

    label: str
    differences: Mapping[str, tuple[Any, Any]]
    other_versions: Mapping[str, tuple[str | None, str | None]]

    def raise_if_different(self) -> None:
        """Raise an exception if the replay differs from the row.

        Raises:
            ResultMismatch: If the replay differs. The message states the row, and the metrics and versions
                that differ.
        """
        if not self.differences:
            return
        head = f"{self.label}: does not replay"
        if self.other_versions:
            head += ", with other versions than it was recorded with"
        lines = [
            f"  {name}: recorded {recorded!r}, replayed {replayed!r}"
            for name, (recorded, replayed) in self.differences.items()
        ]
        lines += [
            f"  {name}: recorded with {recorded}, here {here}"
            for name, (recorded, here) in self.other_versions.items()
        ]
        raise ResultMismatch("\n".join([head, *lines]))


def choose_rows(rows: Sequence[Row], count: int | None, seed: int = 0) -> list[Row]:
    """Return a seeded sample that covers as many pairs of scenario and contender as possible.

    Args:
        rows: All rows.
        count: Number of rows; None: all.
        seed: Seed of the choice.
    """
    if count is None or count >= len(rows):
        return list(rows)
    rng = random.Random(seed)
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.scenario, row.contender.name), []).append(row)
    queues = [rng.sample(group, len(group)) for group in groups.values()]
    rng.shuffle(queues)
    chosen: list[Row] = []
    while len(chosen) < count:
        for queue in queues:
            if queue and len(chosen) < count:
                chosen.append(queue.pop())
    return chosen


def replay(
    rows: Sequence[Row],
    folder: Path,
    *,
    n_workers: int = 1,
    plugins: Sequence[str] = (),
    trust: bool = False,
    episode_limit_s: float | None = None,
) -> Iterator[Replay]:
    """Replay rows with the scenarios stored in them, and yield the comparisons.

    Args:
        rows: Rows to replay.
        folder: Results folder with the checkpoints.
        n_workers: Number of processes.
        plugins: The user's own files, which need no trust.
        trust: Whether code in the folder may run: files that rows name, and checkpoints with code.
        episode_limit_s: Time limit of an episode, s; an episode that exceeds the limit counts as different
            from its row. None: no limit.

    Raises:
        ResultMismatch: If a scenario, a checkpoint or a user's file differs from the one the row was made
            with.
        SysgymError: If a row cannot be replayed.
    """
    jobs = [_job(row, folder, trust) for row in rows]
    by_job = {id(job): row for job, row in zip(jobs, rows, strict=True)}  # a cell can occur twice
    pending: Iterator[Job] = iter(jobs)
    with code_of((row.contender for row in rows), folder, plugins, trust=trust) as needed:
        compile_for_workers(row.scenario_resolved["family"] for row in rows)
        running = run_jobs(lambda: next(pending, None), n_workers, needed, lambda job: episode_limit_s)
        yield from _replays(running, by_job)


def _replays(running: Generator[Event], by_job: Mapping[int, Row]) -> Iterator[Replay]:
    with closing(running) as events:
        for event in events:
            assert not isinstance(event, Progress)
            if isinstance(event, TimedOut):
                yield _unfinished(by_job[id(event.job)], event.reason)
                continue
            if isinstance(event, Failed):
                raise SysgymError(f"{event.job.label}: cannot be replayed: {event.reason}")
            yield compare(by_job[id(event.job)], event.result)


def _unfinished(recorded: Row, reason: str) -> Replay:
    return Replay(recorded.label, {"steps": (recorded.steps, reason)}, {})


def compare(recorded: Row, replayed: Row) -> Replay:
    """Return the differences between two rows, without tolerance; times and energy are not compared."""
    ours = {**recorded.metrics, "return": recorded.total_reward, "steps": recorded.steps}
    theirs = {**replayed.metrics, "return": replayed.total_reward, "steps": replayed.steps}
    differences = {
        name: (ours.get(name, ABSENT), theirs.get(name, ABSENT))
        for name in [*ours, *(name for name in theirs if name not in ours)]
        if ours.get(name, ABSENT) != theirs.get(name, ABSENT)
    }
    other = other_versions(recorded.versions, learned=recorded.contender.learned)
    return Replay(recorded.label, differences, other)


def other_versions(
    recorded: Mapping[str, str], *, learned: bool = False
) -> dict[str, tuple[str | None, str | None]]:
    """Return the present versions that differ from those of a row, as package -> (recorded, present)."""
    here = versions(learned=learned)
    return {
        name: (recorded.get(name), here.get(name))
        for name in sorted({*recorded, *here})
        if recorded.get(name) != here.get(name)
    }


def check_source(row: Row, folder: Path) -> None:
    """Check that the scenario and the checkpoint of a row have the digests in the row.

    Args:
        row: The row.
        folder: Results folder with the checkpoint.

    Raises:
        ResultMismatch: If the scenario or the checkpoint differs.
    """
    digest = scenario_from_resolved(row.scenario_resolved).sha256()
    if digest != row.scenario_sha256:
        raise ResultMismatch(
            f"{row.label}: scenario_resolved has the digest {digest[:12]}, "
            f"expected scenario_sha256 {row.scenario_sha256[:12]}"
        )
    check_checkpoint(row.contender, row.label, folder)


def _job(row: Row, folder: Path, trust: bool) -> EpisodeJob:
    check_source(row, folder)
    contender = replace(row.contender, trusted=trust)
    return EpisodeJob(row.scenario_resolved, row.scenario_sha256, row.split, contender, row.seed, str(folder))


def check_checkpoint(contender: Contender, label: str, folder: Path) -> None:
    """Check that the checkpoint of a contender has the digest in its row.

    Args:
        contender: Contender of the row.
        label: Name of the row in messages.
        folder: Results folder with the checkpoint.

    Raises:
        ResultMismatch: If the checkpoint differs.
    """
    path = contender.checkpoint_path(folder)
    if path is None:
        return
    found = file_sha256(path)
    if found != contender.checkpoint_sha256:
        raise ResultMismatch(
            f"{label}: checkpoint {contender.checkpoint} differs from the one that the row was made with"
        )
