"""Tables of operations, as Parquet or CSV files with the columns of ByteDance's published traces.

A row is an operation of one rank in one step: ``rank``, ``stage``, ``dp_rank``, ``step``, ``optype`` (one of
:data:`~sysgym.emulator.training.operations.KINDS`), ``seq_id`` (number among the operations of its rank, step
and type), ``start_ts`` and ``duration`` (seconds since the step's start).

A table by layers also has ``tp_rank``, ``mb_id`` (microbatch), ``mc`` (chunk of the model), ``layer`` and
``bytes``, and rows of :data:`~sysgym.emulator.training.operations.LAYER_KINDS`. A table that lacks one of
these columns is read without them. Other columns are not used.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.operations import (
    KINDS,
    LAYER_KINDS,
    BoolArray,
    IntArray,
    LeftOut,
    Operations,
    Parts,
    TrainingTrace,
)
from sysgym.scenarios.errors import MissingExtra
from sysgym.scenarios.files import write_atomically

Columns = Mapping[str, NDArray[Any]]

WHOLE = ("rank", "stage", "dp_rank", "step", "seq_id")
TIMES = ("start_ts", "duration")
COLUMNS = (*WHOLE, "optype", *TIMES)
"""Columns that a table must have."""

OF_PARTS = ("tp_rank", "mb_id", "mc", "layer", "bytes")
"""Columns that a table by layers has in addition; ``mb_id`` and ``layer`` are -1 where there is none."""

_LEAST_OF_PARTS = (0, -1, 0, -1, 0)

SUFFIXES = (".parquet", ".csv")
EXTRA = "parquet"
_REMEDY = "see docs/training-jobs.md for the columns of a table of operations"
_MOST_WHOLE = 2**31


def read_trace(path: Path, *, whole_stages: bool = False) -> TrainingTrace:
    """Read a table of operations.

    Args:
        path: A ``.parquet`` file, which needs the extra ``parquet``, or a ``.csv`` file.
        whole_stages: Whether a table by layers is an error.

    Raises:
        TraceError: If the file cannot be read, is of another format, or has no step that can be used.
        MissingExtra: If the library for Parquet is not installed.
    """
    if not path.exists():
        raise TraceError(path, "no such file or folder", "the files of a training job", "check the path")
    suffix = check_table_name(path)
    if not path.is_file():
        raise TraceError(path, "no file", "a table of operations", "check the path")
    columns = _read_parquet(path) if suffix == ".parquet" else _read_csv(path)
    found = trace_of_rows(path.stem, columns, path)
    if whole_stages and found.operations.parts is not None:
        raise TraceError(
            path,
            "a table by layers, with the columns " + ", ".join(OF_PARTS),
            "one computation of a stage for each microbatch",
            "use a table without these columns",
        )
    return found


def trace_of_rows(name: str, columns: Columns, path: Path) -> TrainingTrace:
    """Return the trace that rows tell of.

    Rows with a missing or impossible value are left out, and so are steps whose operations are not those of
    most steps; :attr:`~TrainingTrace.left_out` counts both.

    Args:
        name: Name of the trace.
        columns: The columns of :data:`COLUMNS`, and of :data:`OF_PARTS` in a table by layers.
        path: The file, for messages.

    Raises:
        TraceError: If a column is missing, a rank is in two places, or no step is left.
    """
    if missing := [one for one in COLUMNS if one not in columns]:
        raise TraceError(
            path, f"no column {', '.join(missing)}", f"the columns {', '.join(COLUMNS)}", _REMEDY
        )
    by_layers = all(one in columns for one in OF_PARTS)
    kinds = (*KINDS, *LAYER_KINDS) if by_layers else KINDS
    code = {kind: number for number, kind in enumerate(kinds)}
    kind = np.array([code.get(str(one), -1) for one in columns["optype"]], np.int64)
    values = {one: np.asarray(columns[one], np.float64) for one in (*WHOLE, *TIMES)}
    good = kind >= 0
    for one in WHOLE:
        good &= (values[one] >= 0) & (values[one] < _MOST_WHOLE) & (values[one] == np.floor(values[one]))
    good &= np.isfinite(values["start_ts"]) & np.isfinite(values["duration"]) & (values["duration"] >= 0.0)
    more = [np.asarray(columns[one], np.float64) for one in OF_PARTS if by_layers]
    for column, least in zip(more, _LEAST_OF_PARTS, strict=False):
        good &= (column >= least) & np.isfinite(column)
    for column in more[:-1]:
        good &= (column < _MOST_WHOLE) & (column == np.floor(column))
    if not good.any():
        raise TraceError(path, "no row with valid values", "rows of operations", _REMEDY)
    rank, stage, data_rank, step, index = (values[one][good].astype(np.int64) for one in WHOLE)
    start_s, duration_s, kind = values["start_ts"][good], values["duration"][good], kind[good]
    keys, first_row, operation = np.unique(
        np.stack([rank, kind, index]), axis=1, return_index=True, return_inverse=True
    )
    _check_places(path, rank, stage, data_rank)
    steps, step_row = np.unique(step, return_inverse=True)
    counts = np.zeros((len(steps), keys.shape[1]), np.int64)
    np.add.at(counts, (step_row, operation.ravel()), 1)
    usual = (counts > 0).mean(axis=0) > 0.5
    complete: BoolArray = (counts == usual).all(axis=1)
    if not complete.any():
        raise TraceError(path, "no two steps have the same operations", "steps of one job", _REMEDY)
    starts, ends = np.zeros(counts.shape), np.zeros(counts.shape)
    starts[step_row, operation.ravel()] = start_s
    ends[step_row, operation.ravel()] = start_s + duration_s
    rows = first_row[usual]
    parts = None
    if by_layers:
        tensor_rank, microbatch, chunk, layer = (one[good][rows].astype(np.int64) for one in more[:-1])
        parts = Parts(tensor_rank, microbatch, chunk, layer, more[-1][good][rows])
    operations = Operations(
        rank[rows], stage[rows], data_rank[rows], np.array(kinds)[kind[rows]], index[rows], parts=parts
    )
    left_out = LeftOut(int((~good).sum()), tuple(steps[~complete].tolist()))
    return TrainingTrace(
        name, operations, steps[complete], starts[complete][:, usual], ends[complete][:, usual], left_out
    )


def check_table_name(path: Path) -> str:
    """Return the ending of a table's name, ``.parquet`` or ``.csv``.

    Raises:
        TraceError: If the name has another ending.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise TraceError(path, f'a name that ends in "{suffix}"', " or ".join(SUFFIXES), _REMEDY)
    return suffix


def write_trace(path: Path, trace: TrainingTrace) -> None:
    """Write a trace as a table of operations, which :func:`read_trace` reads.

    Args:
        path: A ``.parquet`` file, which needs the extra ``parquet``, or a ``.csv`` file.
        trace: The trace; its kinds are those of a pipeline.

    Raises:
        TraceError: If the name has another ending.
        MissingExtra: If the library for Parquet is not installed.
        StorageError: If the file cannot be written.
    """
    suffix = check_table_name(path)
    operations, n_steps = trace.operations, len(trace.steps)
    of_operations: dict[str, NDArray[Any]] = {
        "rank": operations.rank,
        "stage": operations.stage,
        "dp_rank": operations.data_rank,
        "optype": operations.kind,
        "seq_id": operations.index,
    }
    if operations.parts is not None:
        of_operations |= dict(zip(OF_PARTS, operations.parts, strict=True))
    columns = {name: np.tile(values, n_steps) for name, values in of_operations.items()}
    columns["step"] = np.repeat(trace.steps, len(operations))
    columns["start_ts"] = trace.start_s.ravel()
    columns["duration"] = (trace.end_s - trace.start_s).ravel()
    write_atomically(path, _parquet(columns) if suffix == ".parquet" else _csv(columns))


def _parquet(columns: Columns) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra(EXTRA, "a table in .parquet (a .csv needs no extra)") from error
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(dict(columns)), file)
    return file.getvalue()


def _csv(columns: Columns) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return file.getvalue().encode()


def _check_places(path: Path, rank: IntArray, stage: IntArray, data_rank: IntArray) -> None:
    """Raise an error if a rank has two stages, or two data-parallel ranks."""
    places = np.unique(np.stack([rank, stage, data_rank]), axis=1)[0]
    twice = np.flatnonzero(np.diff(places) == 0)
    if len(twice):
        raise TraceError(
            path, f"rank {places[twice[0]]} has two stages or data-parallel ranks", "one of each", _REMEDY
        )


def _read_parquet(path: Path) -> Columns:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra(EXTRA, "a table in .parquet (a .csv needs no extra)") from error
    try:
        known = [one for one in parquet.read_schema(path).names if one in (*COLUMNS, *OF_PARTS)]
        table = parquet.read_table(path, columns=known)
        return {
            name: np.array(table[name].to_pylist())
            if name == "optype"
            else table[name].cast(pyarrow.float64()).to_numpy()
            for name in known
        }
    except (pyarrow.ArrowException, OSError) as error:
        raise TraceError(path, f"cannot be read: {error}", "a Parquet file", _REMEDY) from error


def _read_csv(path: Path) -> Columns:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            names = [one for one in (*COLUMNS, *OF_PARTS) if one in (rows.fieldnames or ())]
            lists: dict[str, list[Any]] = {one: [] for one in names}
            for row in rows:
                for name, values in lists.items():
                    values.append(row[name] if name == "optype" else _number(row[name]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(path, f"cannot be read: {error}", "a CSV file in UTF-8", _REMEDY) from error
    return {name: np.array(values) for name, values in lists.items()}


def _number(text: str | None) -> float:
    """Return a number; nan if the text is none."""
    try:
        return float(text or "nan")
    except ValueError:
        return np.nan
