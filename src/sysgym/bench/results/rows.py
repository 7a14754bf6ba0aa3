"""Result rows: one episode each, replayable, appended so that a kill costs at most the row being written."""

from __future__ import annotations

import gzip
import json
import math
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sysgym.bench.contenders import Contender
from sysgym.bench.results.lines import LineFile
from sysgym.bench.results.row_format import check_row, digest_of
from sysgym.bench.results.versions import must_match
from sysgym.errors import SysgymError
from sysgym.scenarios.files import (
    make_folder,
    open_regular,
    own_file,
    parse_json,
    read_limited,
    storing,
    write_atomically,
)

FORMAT = 1
RESULTS = "results.jsonl"
COMPRESSED = "results.jsonl.gz"
"""The same in entries of the leaderboard, which are read and not added to."""

ASIDE = "aside.jsonl"

LARGEST_ROW_BYTES = 1_000_000
"""Of a line; the largest scenario's rows have a few thousand bytes."""

LARGEST_RESULTS_BYTES = 1_000_000_000
"""Of a results file, and of what a compressed one unfolds to."""

DIGEST = "sha256"
"""Key of a row's digest over itself; rows of before have none."""


@dataclass(frozen=True)
class Row:
    """One episode that was played.

    Attributes:
        env_id: Gymnasium id.
        scenario: Name of the scenario.
        scenario_sha256: Digest of its resolved form.
        scenario_resolved: The whole scenario, every default explicit.
        split: Split that the seed is of; decides what varies.
        contender: Who played.
        seed: Episode seed.
        metrics: Metrics of the whole episode, absolute units.
        total_reward: Sum of rewards; ``return`` in the file.
        versions: Software that played it.
        wall_s: Wall time of the episode, set-up included, s.
        steps: Decisions.
        decision_ms: Mean wall time in which the agent decided, ms, on the machine that played; None in rows
            of before it was measured. Like ``wall_s`` no result: nothing compares it.
        energy: Energy, emissions and how they were measured, as
            :meth:`sysgym.bench.energy.EnergySettings.account` has them; None in rows of before. No result.
    """

    env_id: str
    scenario: str
    scenario_sha256: str
    scenario_resolved: Mapping[str, Any]
    split: str
    contender: Contender
    seed: int
    metrics: Mapping[str, float]
    total_reward: float
    versions: Mapping[str, str]
    wall_s: float
    steps: int
    decision_ms: float | None = None
    energy: Mapping[str, Any] | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two rows results of the same thing: with the same key go the same metrics."""
        return (*self.cell, *must_match(self.versions))

    @property
    def cell(self) -> tuple[Any, ...]:
        """Scenario, split, contender and seed."""
        return (self.scenario_sha256, self.split, self.contender.identity, self.seed)

    @property
    def label(self) -> str:
        """How messages call the row."""
        return f"{self.scenario} / {self.contender.name} / {self.split} seed {self.seed}"

    def to_line(self) -> bytes:
        """Return the row as one line of JSON, UTF-8, newline included, with its digest.

        Raises:
            SysgymError: A number is not finite, or another field is none that a row may have.
        """
        numbers = {**self.metrics, "return": self.total_reward, "decision_ms": self.decision_ms or 0.0}
        if bad := [name for name, value in numbers.items() if not math.isfinite(value)]:
            raise SysgymError(f"{self.label}: not a finite number: {', '.join(bad)}")
        data = {
            "env_id": self.env_id,
            "scenario": self.scenario,
            "scenario_sha256": self.scenario_sha256,
            "split": self.split,
            "contender": self.contender.to_json(),
            "seed": self.seed,
            "return": self.total_reward,
            "metrics": dict(self.metrics),
            "steps": self.steps,
            "wall_s": self.wall_s,
            "versions": dict(self.versions),
            "scenario_resolved": dict(self.scenario_resolved),
        }
        if self.decision_ms is not None:
            data["decision_ms"] = self.decision_ms
        if self.energy is not None:
            data["energy"] = dict(self.energy)
        try:
            check_row(data)  # what is written can be read
            data = {"format": FORMAT, **data}
            data[DIGEST] = digest_of(data)
            line = json.dumps(data, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        except (TypeError, ValueError) as error:
            raise SysgymError(f"{self.label}: this row cannot be written: {error}") from error
        if len(line) > LARGEST_ROW_BYTES:
            raise SysgymError(f"{self.label}: {_too_long(len(line))}")
        return line

    @classmethod
    def from_line(cls, line: bytes) -> Row:
        """Return the row of a line.

        Raises:
            ValueError: The line is not a row of this format, a field is none that a row may have, or the
                row's digest is of another content.
        """
        if len(line) > LARGEST_ROW_BYTES:
            raise ValueError(_too_long(len(line)))
        data = parse_json(line)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"not a row of format {FORMAT}")
        if (digest := data.pop(DIGEST, None)) is not None and digest != digest_of(data):
            raise ValueError("its digest is of another content: the row was changed or damaged")
        del data["format"]
        try:
            check_row(data)
        except ValueError as error:
            raise ValueError(f"not a row of format {FORMAT}: {error}") from error
        data["total_reward"] = data.pop("return")
        data["contender"] = Contender.from_json(data["contender"])
        return cls(**data)


def _too_long(n_bytes: int) -> str:
    return f"a row of {n_bytes / 1e6:.1f} MB; expected at most {LARGEST_ROW_BYTES / 1e6:g} MB"


def read_rows(folder: Path) -> list[Row]:
    """Return the rows of a results folder or an entry; a torn last line is left out.

    Raises:
        SysgymError: There are none, a line is broken, or two lines are of the same episode.
    """
    path = folder / RESULTS
    if not path.is_file() and (folder / COMPRESSED).is_file():
        path = folder / COMPRESSED
    if not path.is_file():
        raise SysgymError(f"{folder}: no {RESULTS} there; `sysgym bench SUITE --out {folder}` makes one")
    rows = _parse(path)[0]
    if not rows:
        raise SysgymError(f"{path}: no rows in it; the run that was to write them played no episode")
    _check_once(path, rows)
    return rows


def _check_once(path: Path, rows: Sequence[Row]) -> None:
    """Check that no two rows are of the same cell, nor of two that a report could not tell apart.

    Raises:
        SysgymError: Two are; names the cell and the lines.
    """
    lines: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(rows, start=1):
        shown = (row.scenario, row.split, row.contender.name, row.contender.checkpoint_sha256, row.seed)
        if (before := lines.setdefault(shown, number)) != number:
            difference = _difference(rows[before - 1], row)
            raise SysgymError(
                f"{path}, lines {before} and {number}: {row.label} stands there twice, {difference}; "
                "delete one of the lines"
            )


def _difference(one: Row, other: Row) -> str:
    ours, theirs = ({**row.metrics, "return": row.total_reward, "steps": row.steps} for row in (one, other))
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        if ours.get(name) != theirs.get(name):
            return f"with different results ({name}: {ours.get(name)} and {theirs.get(name)})"
    if one.scenario_sha256 != other.scenario_sha256:
        return "of different scenarios of this name"
    if one.contender.identity != other.contender.identity:
        return "of different contenders of this name"
    return "with the same results"


def _parse(path: Path) -> tuple[list[Row], int]:
    """Return the rows of a file, and how many bytes of it are whole lines."""
    content = b""
    if path.is_file():
        compressed = path.suffix == ".gz"
        content = _unfolded(path) if compressed else read_limited(path, LARGEST_RESULTS_BYTES)
    lines = content.split(b"\n")
    torn = lines.pop()  # what follows the last newline: nothing, unless a write was cut short
    rows, whole = [], 0
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(Row.from_line(line))
        except ValueError as error:
            # A machine that lost power can leave a last line of zeros: bytes that never reached the disk.
            if number == len(lines) and not torn and b"\0" in line:
                break
            raise SysgymError(f"{path}, line {number}: {error}; delete the line or the file") from error
        whole += len(line) + 1
    return rows, whole


def _unfolded(path: Path) -> bytes:
    """Return the content of a gzip file, which is whole and no larger than a results file may be."""
    try:
        with open_regular(path) as packed, gzip.GzipFile(fileobj=packed) as file:
            content = file.read(LARGEST_RESULTS_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise SysgymError(f"{path}: not a whole gzip file: {error}") from error
    if len(content) > LARGEST_RESULTS_BYTES:
        raise SysgymError(f"{path}: unfolds to more than {LARGEST_RESULTS_BYTES / 1e6:g} MB")
    if content and not content.endswith(b"\n"):
        raise SysgymError(f"{path}: ends within a row; pack the entry again")
    return content


class ResultsFile:
    """The open ``results.jsonl`` of a run; only one process at a time has it.

    Attributes:
        rows: What is in it.
        torn_bytes: Length of a torn last line that was cut off when the file was opened.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self.path = folder / RESULTS
        self._aside = folder / ASIDE
        self._lock = _lock(folder)
        try:
            self.rows, whole = _parse(self.path)
            self._check_agreeing()
            self._file = LineFile(self.path, whole)
        except BaseException:
            os.close(self._lock)
            raise
        self.torn_bytes = self._file.torn_bytes

    def _check_agreeing(self) -> None:
        """Check that rows of one key have the same results; others of one cell are sorted out by versions."""
        lines: dict[tuple[Any, ...], int] = {}
        for number, row in enumerate(self.rows):
            before = self.rows[lines.setdefault(row.key, number)]
            if (before.metrics, before.total_reward) != (row.metrics, row.total_reward):
                _check_once(self.path, self.rows)

    def append(self, row: Row) -> None:
        """Add a row, which is on the disk when this returns.

        Raises:
            SysgymError: The row cannot be one.
            StorageError: The disk is full or fails; rows that were added before are there.
        """
        self._file.append(row.to_line())
        self.rows.append(row)

    def count(self) -> int:
        """Return how many whole rows are on disk; Ctrl-C can come between a write and all that follows it."""
        return len(_parse(self.path)[0])

    def keep_only(self, keys: Iterable[tuple[Any, ...]]) -> list[Row]:
        """Move rows whose key is not asked for to ``aside.jsonl``, and fetch back from there those that are.

        Args:
            keys: Values of :attr:`Row.key`.

        Returns:
            The rows that were moved aside now.
        """
        wanted = set(keys)
        here = {row.key: row for row in self.rows}
        aside = {row.key: row for row in _parse(self._aside)[0]}
        everything = aside | here
        leaving = [row for key, row in here.items() if key not in wanted]
        kept = [row for key, row in everything.items() if key in wanted]
        if [row.key for row in kept] == [row.key for row in self.rows]:
            return []
        # First what must not be lost, then the file that must not be mixed: after a kill in between nothing
        # is missing.
        if leaving:
            _replace(self._aside, (aside | {row.key: row for row in leaving}).values())
        try:
            _replace(self.path, kept)
        finally:  # what was opened may have another name now, or none
            self._file.close()
            self._file = LineFile(self.path, self.path.stat().st_size)
        self.rows = kept
        return leaving

    def close(self) -> None:
        """Close the file and let others have it."""
        self._file.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _replace(path: Path, rows: Iterable[Row]) -> None:
    content = b"".join(row.to_line() for row in rows)
    if content or path.exists():
        write_atomically(path, content)


def _lock(folder: Path) -> int:
    """Take the folder for this process; the lock goes with the process, however it ends."""
    import fcntl

    with storing(folder):
        handle = own_file(folder / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise SysgymError(
            f"{folder}: another benchmark is writing there; choose another --out or wait"
        ) from None
    return handle
