"""Play rows again and compare every number, bit by bit."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sysgym.bench.contenders import Contender, file_sha256, load_plugin
from sysgym.bench.episodes import EpisodeJob
from sysgym.bench.pool import Failed, Job, Progress, run_jobs
from sysgym.bench.rows import Row
from sysgym.bench.versions import versions
from sysgym.errors import ResultMismatch, SysgymError
from sysgym.scenarios import scenario_from_resolved

ABSENT = "absent"


@dataclass(frozen=True)
class Replay:
    """A row that was played again.

    Attributes:
        row: As recorded.
        differences: Metric -> (recorded, replayed), where they are not equal.
        other_versions: Package -> (recorded, here), where they differ.
    """

    row: Row
    differences: Mapping[str, tuple[Any, Any]]
    other_versions: Mapping[str, tuple[str | None, str | None]]

    def raise_if_different(self) -> None:
        """Raise if the row does not replay.

        Raises:
            ResultMismatch: Names the row, the metrics, and versions that differ.
        """
        if not self.differences:
            return
        head = f"{self.row.label}: does not replay"
        if self.other_versions:
            head += ", under other versions than it was recorded with"
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
    """Return a sample in which as many pairs of scenario and contender as possible stand, seeded.

    Args:
        rows: All rows.
        count: How many; None: all.
        seed: Of the choice.
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
    rows: Sequence[Row], folder: Path, *, n_workers: int = 1, plugins: Sequence[str] = ()
) -> Iterator[Replay]:
    """Play rows again, from the scenarios in the rows, and yield how each compares.

    Args:
        rows: What to replay.
        folder: Results folder, where checkpoints lie.
        n_workers: Processes.
        plugins: The user's files, if they are not where the rows say.

    Raises:
        ResultMismatch: A scenario, a checkpoint or a user's file is not what the row was made with.
        SysgymError: A row cannot be played again.
    """
    needed = _plugins_of(rows, plugins)
    jobs = [_job(row, folder) for row in rows]
    by_job = {id(job): row for job, row in zip(jobs, rows, strict=True)}  # a cell can stand there twice
    pending: Iterator[Job] = iter(jobs)
    with closing(run_jobs(lambda: next(pending, None), n_workers, needed)) as events:
        for event in events:
            assert not isinstance(event, Progress)
            if isinstance(event, Failed):
                raise SysgymError(f"{event.job.label}: cannot be played again: {event.reason}")
            yield compare(by_job[id(event.job)], event.result)


def compare(recorded: Row, replayed: Row) -> Replay:
    """Return where two rows differ; wall time does not count, and no tolerance is given."""
    ours = {**recorded.metrics, "return": recorded.total_reward, "steps": recorded.steps}
    theirs = {**replayed.metrics, "return": replayed.total_reward, "steps": replayed.steps}
    differences = {
        name: (ours.get(name, ABSENT), theirs.get(name, ABSENT))
        for name in [*ours, *(name for name in theirs if name not in ours)]
        if ours.get(name, ABSENT) != theirs.get(name, ABSENT)
    }
    here = versions(learned=recorded.contender.learned)
    other = {
        name: (recorded.versions.get(name), here.get(name))
        for name in sorted({*recorded.versions, *here})
        if recorded.versions.get(name) != here.get(name)
    }
    return Replay(recorded, differences, other)


def _job(row: Row, folder: Path) -> EpisodeJob:
    digest = scenario_from_resolved(row.scenario_resolved).sha256()
    if digest != row.scenario_sha256:
        raise ResultMismatch(
            f"{row.label}: scenario_resolved has the digest {digest[:12]}, "
            f"the row says {row.scenario_sha256[:12]}"
        )
    _check_checkpoint(row.contender, row.label, folder)
    return EpisodeJob(
        row.scenario_resolved, row.scenario_sha256, row.split, row.contender, row.seed, str(folder)
    )


def _check_checkpoint(contender: Contender, label: str, folder: Path) -> None:
    path = contender.checkpoint_path(folder)
    if path is None:
        return
    found = file_sha256(path)
    if found != contender.checkpoint_sha256:
        raise ResultMismatch(
            f"{label}: checkpoint {contender.checkpoint} is not the one that the row was made with"
        )


def _plugins_of(rows: Sequence[Row], given: Sequence[str]) -> list[str]:
    """Files to import: those given, and those that rows name; each has to be what the row was made with."""
    wanted = {digest: path for row in rows for path, digest in row.contender.plugins}
    files = {load_plugin(path).sha256: path for path in given}
    for digest, path in wanted.items():
        if digest in files:
            continue
        if not Path(path).is_file():
            raise SysgymError(f"{path}: rows need this file; say where it is with --transport-file")
        if load_plugin(path).sha256 != digest:
            raise ResultMismatch(f"{path}: is not the file that the rows were made with")
        files[digest] = path
    return list(files.values())
