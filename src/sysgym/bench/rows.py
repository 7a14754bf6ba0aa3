"""Result rows: one episode each, replayable, appended so that a kill costs at most the row being written."""

from __future__ import annotations

import gzip
import json
import math
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sysgym.bench.contenders import Contender
from sysgym.bench.energy import KEYS as ENERGY_KEYS
from sysgym.bench.versions import must_match
from sysgym.errors import SysgymError

FORMAT = 1
RESULTS = "results.jsonl"
COMPRESSED = "results.jsonl.gz"
"""The same in entries of the leaderboard, which are read and not added to."""

ASIDE = "aside.jsonl"

_KEYS = frozenset(
    {
        "format", "env_id", "scenario", "scenario_sha256", "scenario_resolved", "split", "contender", "seed",
        "metrics", "return", "versions", "wall_s", "steps",
    }
)  # fmt: skip
_LATER_KEYS = frozenset({"decision_ms", "energy"})  # rows of before have none


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
        """Return the row as one line of JSON, UTF-8, newline included.

        Raises:
            SysgymError: A number is not finite.
        """
        numbers = {**self.metrics, "return": self.total_reward, "decision_ms": self.decision_ms or 0.0}
        if bad := [name for name, value in numbers.items() if not math.isfinite(value)]:
            raise SysgymError(f"{self.label}: not a finite number: {', '.join(bad)}")
        data = {
            "format": FORMAT,
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
        return json.dumps(data, separators=(",", ":"), allow_nan=False).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Row:
        """Return the row of a line.

        Raises:
            ValueError: The line is not a row of this format.
        """
        data = json.loads(line, parse_constant=_refuse)
        if not isinstance(data, dict) or data.get("format") != FORMAT or data.keys() - _LATER_KEYS != _KEYS:
            raise ValueError(f"not a row of format {FORMAT}")
        del data["format"]
        data["total_reward"] = data.pop("return")
        try:
            data["contender"] = Contender.from_json(data["contender"])
            if (energy := data.get("energy")) is not None and not energy.keys() >= set(ENERGY_KEYS):
                raise ValueError(f"not a row of format {FORMAT}: energy has to have {', '.join(ENERGY_KEYS)}")
            return cls(**data)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a row of format {FORMAT}: {error}") from error


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number of JSON")


def read_rows(folder: Path) -> list[Row]:
    """Return the rows of a results folder or an entry; a torn last line is left out.

    Raises:
        SysgymError: There are none, or a line in the middle is broken.
    """
    path = folder / RESULTS
    if not path.is_file() and (folder / COMPRESSED).is_file():
        path = folder / COMPRESSED
    if not path.is_file():
        raise SysgymError(f"{folder}: no {RESULTS} there; `sysgym bench SUITE --out {folder}` makes one")
    rows = _parse(path)[0]
    if not rows:
        raise SysgymError(f"{path}: no rows in it; the run that was to write them played no episode")
    return rows


def _parse(path: Path) -> tuple[list[Row], int]:
    """Return the rows of a file, and how many bytes of it are whole lines."""
    content = path.read_bytes() if path.is_file() else b""
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise SysgymError(f"{path}: not a whole gzip file: {error}") from error
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


class ResultsFile:
    """The open ``results.jsonl`` of a run; only one process at a time has it.

    Attributes:
        rows: What is in it.
        torn_bytes: Length of a torn last line that was cut off when the file was opened.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / RESULTS
        self._aside = folder / ASIDE
        self._lock = _lock(folder)
        self.rows, whole = _parse(self.path)
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.torn_bytes = os.fstat(self._file).st_size - whole
        if self.torn_bytes:
            os.ftruncate(self._file, whole)

    def append(self, row: Row) -> None:
        """Add a row: one write, then fsync, so that a kill leaves it whole or torn at the very end.

        Raises:
            SysgymError: The disk is full; the file is as it was.
        """
        line = row.to_line()
        size = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise SysgymError(f"{self.path}: a row could not be written: {error.strerror}") from error
        if written != len(line):
            os.ftruncate(self._file, size)  # the next row must not be glued to a part of this one
            raise SysgymError(f"{self.path}: only part of a row could be written; is the disk full?")
        os.fsync(self._file)
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
        _replace(self.path, kept)
        os.close(self._file)
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        self.rows = kept
        return leaving

    def close(self) -> None:
        """Close the file and let others have it."""
        os.close(self._file)
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


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old or the new content, never a part."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _replace(path: Path, rows: Iterable[Row]) -> None:
    content = b"".join(row.to_line() for row in rows)
    if content or path.exists():
        write_atomically(path, content)


def _lock(folder: Path) -> int:
    """Take the folder for this process; the lock goes with the process, however it ends."""
    import fcntl

    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise SysgymError(
            f"{folder}: another benchmark is writing there; choose another --out or wait"
        ) from None
    return handle
