"""Result rows, one for each episode, appended so that a crash loses at most the row being written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sysgym.bench.contenders import Contender
from sysgym.bench.results.lines import LineFile
from sysgym.bench.results.row_format import check_row, digest_of
from sysgym.bench.results.versions import must_match
from sysgym.errors import SysgymError
from sysgym.scenarios.files import parse_json, read_lines, write_atomically
from sysgym.scenarios.locks import alone_in

FORMAT = 1
RESULTS = "results.jsonl"
COMPRESSED = "results.jsonl.gz"
"""Name of the results file in leaderboard entries, which are read-only."""

ASIDE = "aside.jsonl"

LARGEST_ROW_BYTES = 1_000_000
"""Maximum length of a line; rows of the largest scenario have a few thousand bytes."""

LARGEST_RESULTS_BYTES = 1_000_000_000
"""Maximum size of a results file; the limit on the content of compressed files is lower."""

DIGEST = "sha256"
"""Key of a row's own digest; absent in rows written by older versions."""


@dataclass(frozen=True)
class Row:
    """Result of one episode.

    Attributes:
        env_id: Gymnasium id.
        scenario: Name of the scenario.
        scenario_sha256: Digest of the resolved scenario.
        scenario_resolved: The complete scenario with all defaults.
        split: Split of the seed, which determines the keys of the scenario that vary.
        contender: Contender.
        seed: Episode seed.
        metrics: Metrics of the whole episode, in absolute units.
        total_reward: Sum of rewards; ``return`` in the file.
        versions: Versions of the software.
        wall_s: Wall time of the episode, set-up included, s.
        steps: Number of decisions.
        decision_ms: Mean wall time of the agent's decisions on that machine, ms; None in rows written by
            older versions. Like ``wall_s``, it is not part of the result and is not compared.
        energy: Energy and emissions, as :meth:`sysgym.bench.energy.EnergySettings.account` returns them; None
            in rows written by older versions. Not part of the result either.
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
        """Identity of the result: rows with the same key must have the same metrics."""
        return (*self.cell, *must_match(self.versions))

    @property
    def cell(self) -> tuple[Any, ...]:
        """Scenario, split, contender and seed."""
        return (self.scenario_sha256, self.split, self.contender.identity, self.seed)

    @property
    def label(self) -> str:
        """Name of the row in messages."""
        return f"{self.scenario} / {self.contender.name} / {self.split} seed {self.seed}"

    def to_line(self) -> bytes:
        """Return the row as one line of JSON, UTF-8, newline included, with its digest.

        Raises:
            SysgymError: If a number is not finite, or another field is invalid.
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
            check_row(data)  # whatever is written must be readable
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
        """Parse a line of the file.

        Raises:
            ValueError: If the line is not a row of this format, a field is invalid, or the digest does not
                match the content.
        """
        if len(line) > LARGEST_ROW_BYTES:
            raise ValueError(_too_long(len(line)))
        data = parse_json(line)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"not a row of format {FORMAT}")
        if (digest := data.pop(DIGEST, None)) is not None and digest != digest_of(data):
            raise ValueError("its digest does not match its content: the row was changed or damaged")
        del data["format"]
        try:
            check_row(data)
        except ValueError as error:
            raise ValueError(f"not a row of format {FORMAT}: {error}") from error
        data["total_reward"] = data.pop("return")
        data["contender"] = Contender.from_json(data["contender"])
        return cls(**data)


def _too_long(n_bytes: int) -> str:
    return f"the row has {n_bytes / 1e6:.1f} MB; expected at most {LARGEST_ROW_BYTES / 1e6:g} MB"


def read_rows(folder: Path) -> list[Row]:
    """Return the rows of a results folder or an entry; an incomplete last line is ignored.

    Raises:
        SysgymError: If there are no rows, a line is invalid, or two lines belong to the same episode.
    """
    path = folder / RESULTS
    if not path.is_file() and (folder / COMPRESSED).is_file():
        path = folder / COMPRESSED
    if not path.is_file():
        raise SysgymError(
            f"{folder}: no {RESULTS} in this folder; create it with: sysgym bench SUITE --out {folder}"
        )
    rows = _parse(path)[0]
    if not rows:
        raise SysgymError(f"{path}: the file has no rows; its run finished no episode")
    _check_once(path, rows)
    return rows


def _check_once(path: Path, rows: Sequence[Row]) -> None:
    """Check that no two rows belong to the same cell, or to cells that a report cannot distinguish.

    Raises:
        SysgymError: If two rows do. The message names the cell and the lines.
    """
    lines: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(rows, start=1):
        shown = (row.scenario, row.split, row.contender.name, row.contender.checkpoint_sha256, row.seed)
        if (before := lines.setdefault(shown, number)) != number:
            difference = _difference(rows[before - 1], row)
            raise SysgymError(
                f"{path}, lines {before} and {number}: two rows of {row.label}, {difference}; "
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
    """Return the rows of a file, and the number of bytes in complete lines."""
    rows: list[Row] = []
    whole = 0
    lines = read_lines(path, LARGEST_RESULTS_BYTES, LARGEST_ROW_BYTES) if path.is_file() else iter(())
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):  # the last write was interrupted
            break
        try:
            rows.append(Row.from_line(line.removesuffix(b"\n")))
        except ValueError as error:
            # A power failure can leave a last line of zeros: bytes that never reached the disk.
            if b"\0" in line and next(lines, None) is None:
                break
            raise SysgymError(f"{path}, line {number}: {error}; delete the line or the file") from error
        whole += len(line)
    return rows, whole


class ResultsFile:
    """Open ``results.jsonl`` of a run, locked by this process.

    Attributes:
        rows: Rows in the file.
        torn_bytes: Length of an incomplete last line that was removed when the file was opened.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS
        self._aside = folder / ASIDE
        with ExitStack() as lock:
            lock.enter_context(alone_in(folder, "writes a benchmark to"))
            self.rows, whole = _parse(self.path)
            self._check_agreeing()
            self._file = LineFile(self.path, whole)
            self._lock = lock.pop_all()
        self.torn_bytes = self._file.torn_bytes

    def _check_agreeing(self) -> None:
        """Check that rows with the same key have the same results.

        Rows of one cell that were made with different versions have different keys and may differ.
        """
        lines: dict[tuple[Any, ...], int] = {}
        for number, row in enumerate(self.rows):
            before = self.rows[lines.setdefault(row.key, number)]
            if (before.metrics, before.total_reward) != (row.metrics, row.total_reward):
                _check_once(self.path, self.rows)

    def append(self, row: Row) -> None:
        """Append a row and flush it to the disk.

        Raises:
            SysgymError: If the row is invalid.
            StorageError: If the disk is full or fails; earlier rows are kept.
        """
        self._file.append(row.to_line())
        self.rows.append(row)

    def count(self) -> int:
        """Return the number of complete rows on disk.

        The file is read again, because Ctrl-C can interrupt the process between a write and its bookkeeping.
        """
        return len(_parse(self.path)[0])

    def keep_only(self, keys: Iterable[tuple[Any, ...]]) -> list[Row]:
        """Move rows without the given keys to ``aside.jsonl``, and rows with these keys back from there.

        Args:
            keys: Values of :attr:`Row.key`.

        Returns:
            The rows that were moved to ``aside.jsonl``.
        """
        wanted = set(keys)
        here = {row.key: row for row in self.rows}
        aside = {row.key: row for row in _parse(self._aside)[0]}
        everything = aside | here
        leaving = [row for key, row in here.items() if key not in wanted]
        kept = [row for key, row in everything.items() if key in wanted]
        if [row.key for row in kept] == [row.key for row in self.rows]:
            return []
        # The file of removed rows is written first, so that a kill between the two writes loses nothing.
        if leaving:
            _replace(self._aside, (aside | {row.key: row for row in leaving}).values())
        try:
            _replace(self.path, kept)
        finally:  # the open file may have been renamed or replaced
            self._file.close()
            self._file = LineFile(self.path, self.path.stat().st_size)
        self.rows = kept
        return leaving

    def close(self) -> None:
        """Close the file and release the lock."""
        self._file.close()
        self._lock.close()

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
