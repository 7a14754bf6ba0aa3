"""Reader of a trace's files: finds, opens and recognizes them, and yields their rows in blocks.

Python's own C code splits lines and parses numbers, a block and a column at a time, so that reading needs no
library and holds one block in memory. Nothing is quoted in these traces: a comma always separates.
"""

from __future__ import annotations

import gzip
import itertools
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.cluster.job import BoolArray, FloatArray
from sysgym.emulator.trace_errors import TraceError

WRONG_COLUMNS = "wrong number of columns"
MISSING_ID = "no job or task id"
NOT_A_NUMBER = "not a number"
END_BEFORE_START = "end before start"

FORMAT_BY_COLUMNS = {
    5: "PAI 2020 pai_group_tag_table or pai_machine_spec",
    6: "PAI 2020 pai_job_table",
    7: "spar's sample_instances.csv",
    8: "Google 2011 job_events, or Alibaba 2017 batch_task",
    9: "Alibaba 2018 batch_task, or PAI 2020 pai_instance_table",
    10: "PAI 2020 pai_task_table",
    12: "Alibaba 2017 batch_instance, or PAI 2020 pai_machine_metric",
    13: "Google 2011 task_events",
    14: "Alibaba 2018 batch_instance",
    16: "PAI 2020 pai_sensor_table",
    20: "Google 2011 task_usage",
}
"""Likely format of a file by its number of columns, for messages."""

_BLOCK_ROWS = 2000  # few enough that the garbage collector does not scan them repeatedly
_SNIFFED_LINES = 50
_LONGEST_LINE = 1 << 14  # a row has a few hundred characters; a file without line ends must not fill memory
_GZIP_MAGIC = b"\x1f\x8b"

FOLDER_VARIABLE = "SYSGYM_TRACES"
"""Environment variable for the folder of traces; ``$SYSGYM_TRACES`` begins a path that lies in it."""

Pick = Callable[[list[str]], list[str]]
"""Choice of the lines of a block that are worth parsing."""


@dataclass
class Tally:
    """Counts of a trace's rows; every row is used, malformed or left out.

    Attributes:
        rows_read: Number of all rows.
        malformed: Number of rows that break the format, by the first reason found.
        left_out_rows: Number of valid rows that are not used, by reason.
        missing_values: Number of values that used rows lack and that are set to 0, by counter.
    """

    rows_read: int = 0
    malformed: Counter[str] = field(default_factory=Counter)
    left_out_rows: Counter[str] = field(default_factory=Counter)
    missing_values: Counter[str] = field(default_factory=Counter)

    def to_data(self) -> dict[str, Any]:
        """Return the counts as JSON data."""
        return vars(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Tally:
        """Return the counts of :meth:`to_data`."""
        rows_read, *counters = (data[f.name] for f in fields(cls))
        return cls(rows_read, *map(Counter, counters))

    def add(self, other: Tally) -> None:
        """Add the counts of another part of the trace."""
        self.rows_read += other.rows_read
        self.malformed += other.malformed
        self.left_out_rows += other.left_out_rows
        self.missing_values += other.missing_values


class Sieve:
    """Filter of one block's rows; the first reason to drop a row is the one that counts."""

    def __init__(self, n_rows: int) -> None:
        self.good: BoolArray = np.ones(n_rows, np.bool_)

    def drop(self, bad: BoolArray, reasons: Counter[str], reason: str) -> None:
        """Drop the bad rows, and count those that were good until now."""
        if count := int(np.count_nonzero(bad & self.good)):
            reasons[reason] += count
            self.good &= ~bad


def trace_files(paths: Sequence[str], source: str = "the trace's publisher") -> list[Path]:
    """Return the files that a scenario's paths name: single files, and the files of folders, sorted by name.

    Args:
        paths: Files, or folders whose ``.csv`` and ``.csv.gz`` files are taken. ``~`` is the home folder, and
            ``$SYSGYM_TRACES`` at the beginning the folder that this environment variable names.
        source: Where to get the trace, for messages.

    Raises:
        TraceError: A path does not exist, a folder holds no such file, or the variable is not set.
    """
    files: list[Path] = []
    for text in paths:
        path, is_folder, is_file = _what_is_at(_expanded(text, source))
        if is_folder:
            found = sorted(
                file
                for file in path.iterdir()
                if file.name.endswith((".csv", ".csv.gz")) and file.is_file()  # opening a pipe would wait
            )
            if not found:
                raise TraceError(
                    path,
                    "the folder holds no part of a trace",
                    "files ending in .csv or .csv.gz",
                    f"name the folder that has them in jobs.paths, or download them from {source}",
                )
            files += found
        elif is_file:
            files.append(path)
        else:
            raise TraceError(
                path.absolute(),
                "there is no such file",
                "a file or folder of the trace",
                f"correct jobs.paths in the scenario, or download the trace to this place from {source}",
            )
    return files


def _expanded(text: str, source: str) -> str:
    """Return a path with the folder of traces in the place of its variable."""
    variable, separator, rest = text.partition("/")
    if variable != f"${FOLDER_VARIABLE}":
        return text
    folder = os.environ.get(FOLDER_VARIABLE, "")
    if not folder:
        raise TraceError(
            text,
            f"the environment variable {FOLDER_VARIABLE} is not set",
            "the folder that holds your copies of traces",
            f"set {FOLDER_VARIABLE}, or jobs.paths; the trace comes from {source}",
        )
    return folder + separator + rest


def _what_is_at(text: str) -> tuple[Path, bool, bool]:
    """Return a path, and whether it is a folder or a file; an invalid name is neither."""
    try:
        path = Path(text).expanduser()
        return path, path.is_dir(), path.is_file()
    except (OSError, ValueError, RuntimeError):  # too long, with a NUL, or the home folder of no user
        return Path(text), False, False


def columns_of(path: Path) -> int:
    """Return the number of columns that most of a file's first lines have.

    Raises:
        TraceError: The file is empty, damaged, or not text.
    """
    with _opened(path) as file:
        # A file that is not text may have no line ends.
        first = _take(path, iter(lambda: file.readline(_LONGEST_LINE), ""), _SNIFFED_LINES)
    if not any(line.strip() for line in first):
        raise TraceError(
            path, "the file is empty", "rows of comma-separated values", "download it again, or take it out"
        )
    if any("\0" in line for line in first):
        raise TraceError(
            path,
            "the file is not text",
            "rows of comma-separated values, plain or compressed by gzip",
            "unpack it if it is an archive",
        )
    return Counter(line.count(",") + 1 for line in first).most_common(1)[0][0]


def header_of(path: Path) -> list[str]:
    """Return the texts of a file's first row."""
    with _opened(path) as file:
        (first,) = _take(path, iter(partial(file.readline, _LONGEST_LINE), ""), 1)
    return [text.strip() for text in first.rstrip("\r\n").split(",")]


def wrong_format(path: Path, expected: str) -> TraceError:
    """Return the error for a file of another format, with a guess at its format."""
    n = columns_of(path)
    likely = FORMAT_BY_COLUMNS.get(n)
    return TraceError(
        path,
        f"the file has {n} column{'s' * (n != 1)}" + (f", as {likely} has" if likely else ""),
        expected,
        "set jobs.format to what the file is, or jobs.paths to the right file",
    )


def blocks(
    path: Path, n_columns: int, tally: Tally, pick: Pick | None = None
) -> Iterator[list[tuple[str, ...]]]:
    """Yield a file's rows in blocks, by columns: a list of ``n_columns`` tuples of equal length.

    Rows with another number of columns are counted as malformed and left out.

    Args:
        path: The file.
        n_columns: Number of columns of a row.
        tally: Counts of rows, updated.
        pick: Choice of the lines to parse; None: all. It counts the others itself.

    Raises:
        TraceError: The file is damaged.
    """
    with _opened(path) as lines:
        bounded = iter(partial(lines.readline, _LONGEST_LINE), "")
        while taken := _take(path, bounded, _BLOCK_ROWS):
            tally.rows_read += len(taken)
            picked = taken if pick is None else pick(taken)
            rows = [line.rstrip("\r\n").split(",") for line in picked]
            sound = [row for row in rows if len(row) == n_columns]
            if len(sound) < len(rows):
                tally.malformed[WRONG_COLUMNS] += len(rows) - len(sound)
            if sound:
                yield list(zip(*sound, strict=True))


def numbers(column: Sequence[str]) -> tuple[FloatArray, BoolArray]:
    """Parse one column of a block.

    Returns:
        The values, nan for missing or invalid ones, and which texts are neither empty nor a finite number.
    """
    try:
        if "_" in "".join(column):  # Python would read 1_000 as a thousand
            raise ValueError
        values = np.fromiter(map(float, column), np.float64, len(column))
    except ValueError:
        values = np.fromiter(map(_number, column), np.float64, len(column))
    if np.isfinite(values).all():
        return values, np.zeros(len(column), np.bool_)
    bad = ~np.isfinite(values) & np.fromiter((text != "" for text in column), np.bool_, len(column))
    values[bad] = np.nan
    return values, bad


def whole_numbers(column: Sequence[str]) -> tuple[NDArray[np.int64], BoolArray]:
    """Parse one column of required whole numbers; invalid ones become 0.

    Returns:
        The values, and which texts are not a whole number of at most 64 bits.
    """
    try:
        if "_" in "".join(column):
            raise ValueError
        return np.fromiter(map(int, column), np.int64, len(column)), np.zeros(len(column), np.bool_)
    except (ValueError, OverflowError):
        parsed = [_whole_number(text) for text in column]
        bad = np.fromiter((value is None for value in parsed), np.bool_, len(parsed))
        return np.fromiter((value or 0 for value in parsed), np.int64, len(parsed)), bad


def nonempty(column: Sequence[str]) -> BoolArray:
    """Return which texts of a column are not empty."""
    return np.fromiter(map(bool, column), np.bool_, len(column))


def _number(text: str) -> float:
    try:
        return float(text) if "_" not in text else np.nan
    except ValueError:
        return np.nan


def _whole_number(text: str) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value if "_" not in text and -(2**63) <= value < 2**63 else None


def _opened(path: Path) -> IO[str]:
    """Open a file as text, through gzip if it begins as gzip files do, whatever its name is."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        # A byte that is not UTF-8 is kept as an escape: ids stay distinct, and numbers become invalid.
        if packed:
            return gzip.open(path, "rt", encoding="utf-8-sig", errors="backslashreplace", newline="\n")
        return path.open(encoding="utf-8-sig", errors="backslashreplace", newline="\n")
    except OSError as error:
        raise TraceError(
            path, f"the file cannot be opened ({error.strerror})", "a readable file", "correct its rights"
        ) from error


def _take(path: Path, lines: Iterable[str], count: int) -> list[str]:
    """Return the next lines, at most ``count``; errors of gzip are reported with the file's name."""
    try:
        taken = list(itertools.islice(lines, count))
    except (EOFError, OSError, zlib.error) as error:
        raise TraceError(
            path, f"the file is cut off or damaged ({error})", "a whole gzip file", "download it again"
        ) from error
    if any(len(line) >= _LONGEST_LINE for line in taken):
        raise TraceError(
            path,
            f"a line has more than {_LONGEST_LINE} characters",
            "rows of comma-separated values",
            "download it again, or unpack it if it is an archive",
        )
    return taken
