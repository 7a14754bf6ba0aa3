"""Stored rows of a study, so that an interrupted study resumes where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from pydantic import ConfigDict

from sysgym.bench.contenders import PluginFile
from sysgym.bench.results.lines import LineFile
from sysgym.bench.results.row_format import Strict, Text, checked
from sysgym.bench.results.rows import LARGEST_RESULTS_BYTES, read_packed
from sysgym.bench.run.episodes import compile_for_workers
from sysgym.bench.run.pool import EPISODE_LIMIT_S, Done, Failed, run_jobs
from sysgym.errors import SysgymError
from sysgym.scenarios.files import make_folder, parse_json, read_limited, write_atomically


class KeptJob(Protocol):
    """Job of one episode; its row has the episode's key."""

    @property
    def label(self) -> str:
        """Name of the episode in messages."""

    @property
    def key(self) -> str:
        """Key by which a row is recognised as one of this episode."""

    @property
    def scenario(self) -> Mapping[str, Any]:
        """Resolved scenario."""

    def run(self, report: Callable[[Any], None]) -> dict[str, Any]:
        """Run the episode and return its row."""


class KeptRow(Strict):
    """Fields that every line of a file of rows has."""

    model_config = ConfigDict(extra="ignore")

    key: Text


def run_kept(
    jobs: Sequence[KeptJob],
    path: Path,
    fields: type[KeptRow],
    *,
    n_workers: int,
    plugins: Sequence[PluginFile] = (),
    tell: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Run all jobs whose rows are not in a file yet, and append theirs.

    Args:
        jobs: The jobs.
        path: File of the rows; its folder is made.
        fields: Fields of a row, which are checked when the file is read.
        n_workers: Number of processes.
        plugins: The user's files.
        tell: Callback with the number of finished jobs and of all jobs.

    Returns:
        The rows, in the order of ``jobs``.

    Raises:
        SysgymError: A job failed, and the rows of the others are kept; or the file is invalid.
        StorageError: The file cannot be written.
    """
    make_folder(path.parent)
    keys = [job.key for job in jobs]
    before, whole = read_kept(path, fields)
    rows = {row["key"]: row for row in before}
    tell = tell or (lambda done, of: None)
    waiting = [job for job, key in zip(jobs, keys, strict=True) if key not in rows]
    tell(len(jobs) - len(waiting), len(jobs))
    failures: list[Failed] = []
    queue = iter(waiting)
    n_workers = min(n_workers, max(len(waiting), 1))
    compile_for_workers(job.scenario["family"] for job in waiting)
    with closing(append_to_kept(path, whole)) as lines:
        for event in run_jobs(lambda: next(queue, None), n_workers, plugins, lambda job: EPISODE_LIMIT_S):
            if isinstance(event, Failed):
                failures.append(event)
            elif isinstance(event, Done):
                row = {"key": event.job.key, **event.result}  # type: ignore[attr-defined]
                lines.append(json.dumps(row, allow_nan=False, separators=(",", ":")).encode() + b"\n")
                rows[row["key"]] = row
                tell(sum(key in rows for key in keys), len(jobs))
    if failures:
        first = failures[0]
        others = f" (and {len(failures) - 1} others)" if len(failures) > 1 else ""
        raise SysgymError(f"an episode failed{others}: {first.job.label}: {first.reason}")
    return [rows[key] for key in keys]


def packed_name(path: Path) -> Path:
    """Return the path of the compressed form of a file of rows."""
    return path.with_name(path.name + ".gz")


def append_to_kept(path: Path, whole_bytes: int) -> LineFile:
    """Return a file of rows to append to; a compressed one is unpacked first.

    Args:
        path: The file.
        whole_bytes: Length of its complete lines, from :func:`read_kept`.

    Raises:
        StorageError: The file cannot be written.
    """
    packed = packed_name(path)
    if not path.exists() and packed.is_file():
        write_atomically(path, read_packed(packed)[:whole_bytes])
    return LineFile(path, whole_bytes)


def read_kept(
    path: Path, fields: type[KeptRow], what: str = "an episode of this study"
) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of a file and the length of its complete lines; a kill can cut the last one.

    Args:
        path: The file; it need not exist. Entries of the leaderboard have it compressed, under a longer name.
        fields: Fields of a row.
        what: What a row is, for the error.

    Raises:
        SysgymError: A line is invalid.
    """
    packed = packed_name(path)
    if path.is_file():
        content = read_limited(path, LARGEST_RESULTS_BYTES)
    else:
        content = read_packed(packed) if packed.is_file() else b""
    whole = content.rfind(b"\n") + 1
    rows = []
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        try:
            rows.append(parse_json(line))
            checked(fields, rows[-1])
        except ValueError as error:
            raise SysgymError(
                f"{path}, line {number}: not {what}: {error}; delete the line or the file"
            ) from error
    return rows, whole
