"""Stored rows of a study, so that an interrupted study resumes where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from pydantic import ConfigDict

from sysgym.bench.plugins import PluginFile
from sysgym.bench.results.lines import LineFile
from sysgym.bench.results.row_format import Strict, Text, checked
from sysgym.bench.results.rows import LARGEST_RESULTS_BYTES, LARGEST_ROW_BYTES
from sysgym.bench.run.episodes import compile_for_workers
from sysgym.bench.run.pool import EPISODE_LIMIT_S, Done, Failed, run_jobs
from sysgym.errors import SysgymError
from sysgym.scenarios.files import parse_json, read_lines, replacing
from sysgym.scenarios.locks import alone_in

EPISODE = "an episode of this study"


class KeptJob(Protocol):
    """Job of one episode, whose row is stored with the episode's key."""

    @property
    def label(self) -> str:
        """Name of the episode in messages."""

    @property
    def key(self) -> str:
        """Key that identifies the row of this episode."""

    @property
    def scenario(self) -> Mapping[str, Any]:
        """Resolved scenario."""

    def run(self, report: Callable[[Any], None]) -> dict[str, Any]:
        """Run the episode and return its row."""


class KeptRow(Strict):
    """Fields of every line of a file of rows."""

    model_config = ConfigDict(extra="ignore")

    key: Text


class KeptStudy(Protocol):
    """Study whose rows are stored in a file of its folder."""

    @property
    def rows_file(self) -> str:
        """Name of the file."""

    @property
    def row_fields(self) -> type[KeptRow]:
        """Fields of a row, which are checked when the file is read."""

    @property
    def one_at_a_time(self) -> bool:
        """Whether episodes would disturb each other and must run one at a time."""

    def jobs(self) -> Sequence[KeptJob]:
        """Return the jobs of all episodes."""


def run_kept(
    study: KeptStudy,
    folder: Path,
    *,
    n_workers: int,
    plugins: Sequence[PluginFile] = (),
    tell: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Run all episodes of a study that have no row in its folder yet, and append their rows.

    Args:
        study: The study.
        folder: Folder of the rows; it is created if it does not exist.
        n_workers: Number of processes.
        plugins: Plugin files of the user.
        tell: Callback with the number of finished episodes and of all episodes.

    Returns:
        The rows, in the order of the study's jobs.

    Raises:
        SysgymError: An episode failed (the rows of the others are stored), the file is invalid, or another
            process writes to its folder.
        StorageError: The file cannot be written.
    """
    jobs = study.jobs()
    tell = tell or (lambda done, of: None)
    keys = [job.key for job in jobs]
    failures: list[Failed] = []
    with open_kept(folder / study.rows_file, study.row_fields) as (before, lines):
        rows = {row["key"]: row for row in before}
        waiting = [job for job, key in zip(jobs, keys, strict=True) if key not in rows]
        tell(len(jobs) - len(waiting), len(jobs))
        queue = iter(waiting)
        n_workers = 1 if study.one_at_a_time else min(n_workers, max(len(waiting), 1))
        compile_for_workers(job.scenario["family"] for job in waiting)
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


@contextmanager
def open_kept(
    path: Path, fields: type[KeptRow], what: str = EPISODE
) -> Iterator[tuple[list[dict[str, Any]], LineFile]]:
    """Lock the folder of a file of rows; yield the stored rows and the file, opened for appending.

    A compressed file is unpacked first.

    Args:
        path: The file; its folder is created if it does not exist.
        fields: As in :func:`read_kept`.
        what: As in :func:`read_kept`.

    Raises:
        SysgymError: Another process writes to the folder, or a line is invalid.
        StorageError: The file cannot be written.
    """
    with alone_in(path.parent, "writes rows of a study to"):
        rows, whole_bytes = read_kept(path, fields, what)
        packed = packed_name(path)
        if not path.exists() and packed.is_file():
            with replacing(path) as file:
                file.writelines(_lines(packed))
        with closing(LineFile(path, whole_bytes)) as lines:
            yield rows, lines


def read_kept(path: Path, fields: type[KeptRow], what: str = EPISODE) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of a file and the length of its complete lines, in bytes.

    An incomplete last line, left by a killed process, is ignored.

    Args:
        path: The file; it need not exist. If there is only a compressed file, as in entries of the
            leaderboard, that file is read.
        fields: Fields of a row.
        what: Description of a row, for error messages.

    Raises:
        SysgymError: A line is invalid.
    """
    packed = packed_name(path)
    if not path.is_file() and packed.is_file():
        path = packed
    rows: list[dict[str, Any]] = []
    whole = 0
    for number, line in enumerate(_lines(path) if path.is_file() else (), start=1):
        if not line.endswith(b"\n"):  # the last write was interrupted
            break
        try:
            rows.append(parse_json(line))
            checked(fields, rows[-1])
        except ValueError as error:
            raise SysgymError(
                f"{path}, line {number}: not {what}: {error}; delete the line or the file"
            ) from error
        whole += len(line)
    return rows, whole


def _lines(path: Path) -> Iterator[bytes]:
    return read_lines(path, LARGEST_RESULTS_BYTES, LARGEST_ROW_BYTES)
