"""Files of time series: two tables, CSV or Parquet, and a JSON file with their origin.

The tables are in long format, with a row for each sample of each flow or port. Units are SI units, stated in
the names of columns. In CSV, missing values are empty cells, and numbers have ten significant digits.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from sysgym.errors import MissingExtra, SysgymError
from sysgym.scenarios.files import check_replaceable, open_regular, parse_json, read_limited, replacing
from sysgym.scenarios.names import LONGEST_NAME

MOST_ROWS = 5_000_000
"""Default maximum number of rows of both tables together when recording, about half a gigabyte.

It is also the maximum number of rows of each table that is read.
"""

SUFFIXES = (".csv", ".parquet")
EXTRA = "parquet"

LARGEST_TABLE_BYTES = 500_000_000
"""Maximum size of a table: 100 bytes for each of :data:`MOST_ROWS` rows."""

LARGEST_ABOUT_BYTES = 8_000_000
MOST_COLUMNS = 1000
MOST_FLOWS = 100_000
"""Maximum number of flows of a table with fewer rows than this; otherwise, the number of rows."""

_ROWS_AT_ONCE = 50_000
_NAMES = {"src", "dst", "port"}

Columns = dict[str, NDArray[Any]]
"""Columns of a table by name."""

Parts = tuple[
    NDArray[np.void], NDArray[np.void], NDArray[np.str_], NDArray[np.str_], tuple[str, ...], Mapping[str, Any]
]
"""Fields of a :class:`~sysgym.series.TimeSeries`, in order."""

_Line = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=LONGEST_NAME)]


class _About(BaseModel):
    """Fields of the JSON file that pictures use."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    contender: _Line = ""
    scenario: _Line | None = None
    seed: int | None = None
    metrics: dict[_Line, float | None] = {}
    ports: dict[_Line, dict[_Line, float | None]] = {}


def beside(path: Path) -> tuple[Path, Path, Path]:
    """Return the three files of a time series whose table of flows is ``path``."""
    return path, path.with_suffix(f".ports{path.suffix}"), path.with_suffix(".json")


def check_writable(path: Path) -> None:
    """Check before an episode whether its time series can be written.

    Raises:
        MissingExtra: The library for Parquet is not installed.
        SysgymError: The suffix is unknown, or the folder cannot be written to.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise SysgymError(f"{path}: expected a name that ends in {' or '.join(SUFFIXES)}")
    if path.suffix.lower() == ".parquet":
        _pyarrow()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for file in beside(path):
            check_replaceable(file)
    except OSError as error:
        raise SysgymError(f"{path}: cannot be written: {error.strerror}") from error


def write_tables(
    path: Path, flows: Columns, ports: Columns, about: Mapping[str, Any]
) -> tuple[Path, Path, Path]:
    """Write the three files of a time series.

    The files appear only after all have been written completely.
    """
    check_writable(path)
    write = _write_csv if path.suffix.lower() == ".csv" else _write_parquet
    files = beside(path)
    with ExitStack() as stack:
        of_flows, of_ports, told = [stack.enter_context(replacing(file)) for file in files]
        write(flows, of_flows)
        write(ports, of_ports)
        told.write(json.dumps(about, indent=1).encode() + b"\n")
    return files


def read_tables(path: Path) -> Parts:
    """Read the three files of a time series; arguments and errors as for :func:`sysgym.read_series`."""
    from sysgym.emulator.packets.counters.recording import FLOW_SAMPLE, PORT_SAMPLE

    flows_path, ports_path, about_path = beside(path)
    read = _read_parquet if flows_path.suffix.lower() == ".parquet" else _read_csv
    of_flows, of_ports = read(flows_path), read(ports_path)
    flows = _records(of_flows, FLOW_SAMPLE, flows_path)
    n_flows = int(flows["flow"].max(initial=-1)) + 1
    if n_flows > max(MOST_FLOWS, len(flows)):
        raise SysgymError(
            f"{flows_path}: flow {n_flows - 1} is out of range for a table of {len(flows)} rows"
        )
    ends = {}
    for name in ("src", "dst"):
        ends[name] = np.full(n_flows, "", dtype=object)
        ends[name][flows["flow"]] = _column(of_flows, name, flows_path)
    names = _column(of_ports, "port", ports_path)
    port_names = tuple(dict.fromkeys(str(name) for name in names))
    number = {name: index for index, name in enumerate(port_names)}
    ports = _records(
        {**of_ports, "port": np.array([number[str(name)] for name in names], np.float64)},
        PORT_SAMPLE,
        ports_path,
    )
    about = _read_about(about_path, flows_path.stem)
    return flows, ports, ends["src"].astype(np.str_), ends["dst"].astype(np.str_), port_names, about


def _write_csv(columns: Columns, file: BinaryIO) -> None:
    text = TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    n_rows = len(next(iter(columns.values())))
    for first in range(0, n_rows, _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        writer.writerows(zip(*(_texts(column[rows]) for column in columns.values()), strict=True))
    text.detach()  # flushes the text; the file remains open


def _texts(values: NDArray[Any]) -> list[Any]:
    if values.dtype.kind != "f":
        return values.tolist()  # type: ignore[no-any-return]
    return ["" if value != value else format(value, ".10g") for value in values.tolist()]


def _write_parquet(columns: Columns, file: BinaryIO) -> None:
    arrow, parquet = _pyarrow()
    arrays = {}
    for name, column in columns.items():
        if column.dtype.kind == "U":
            names, indices = np.unique(column, return_inverse=True)
            arrays[name] = arrow.DictionaryArray.from_arrays(
                arrow.array(indices.astype(np.int32)), arrow.array(names.tolist(), arrow.string())
            )
        else:
            arrays[name] = arrow.array(column, from_pandas=True)  # nan becomes null
    parquet.write_table(arrow.table(arrays), file)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra(EXTRA, "a table in .parquet (a .csv needs no extra)") from error
    return pyarrow, pyarrow.parquet


def _read_csv(path: Path) -> Columns:
    parts: dict[str, list[NDArray[Any]]] = {}
    try:
        with open_regular(path) as file, TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
            _check_size(os.fstat(file.fileno()).st_size)
            reader = csv.reader(text)
            names = next(reader, [])
            _check_columns(names)
            known: dict[str, str] = {}
            n_rows = 0
            while rows := list(islice(reader, _ROWS_AT_ONCE)):
                n_rows += len(rows)
                _check_rows(n_rows)
                for name, cells in zip(names, zip(*rows, strict=True), strict=True):
                    read = _names(cells, known) if name in _NAMES else _numbers(cells, name)
                    parts.setdefault(name, []).append(read)
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SysgymError(f"{path}: cannot be read as a table of a time series: {reason}") from error
    return {name: np.concatenate(parts[name]) if name in parts else np.empty(0) for name in names}


def _check_size(n_bytes: int) -> None:
    if n_bytes > LARGEST_TABLE_BYTES:
        raise ValueError(f"larger than {LARGEST_TABLE_BYTES / 1e6:g} MB")


def _check_columns(names: Sequence[str]) -> None:
    if len(names) > MOST_COLUMNS or len(set(names)) < len(names):
        raise ValueError(f"expected at most {MOST_COLUMNS} columns with different names")


def _check_rows(n_rows: int) -> None:
    if n_rows > MOST_ROWS:
        raise ValueError(f"more than {MOST_ROWS:,} rows")


def _names(cells: Iterable[object], known: dict[str, str]) -> NDArray[np.object_]:
    """Return names of hosts or ports, sharing equal strings in memory."""
    found = []
    for cell in cells:
        if not isinstance(cell, str) or len(cell) > LONGEST_NAME or not cell.isprintable():
            raise ValueError(f"{str(cell)[:40]!r} is no valid name of a host or port")
        found.append(known.setdefault(cell, cell))
    return np.array(found, dtype=np.object_)


def _numbers(cells: tuple[str, ...], name: str) -> NDArray[np.float64]:
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells], dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"column {name[:40]}: {str(error)[:200]}") from error


def _read_parquet(path: Path) -> Columns:
    arrow, parquet = _pyarrow()
    try:
        with open_regular(path) as file:
            _check_size(os.fstat(file.fileno()).st_size)
            about = parquet.read_metadata(file)
            names = about.schema.to_arrow_schema().names
            _check_rows(about.num_rows)
            _check_columns(names)
            # Names that occur in many rows are stored once, as in the file.
            found = parquet.ParquetFile(file, read_dictionary=sorted(_NAMES.intersection(names))).read()
            return {name: _parquet_column(found[name], name, arrow) for name in found.column_names}
    except (OSError, ValueError, TypeError, arrow.ArrowException) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)[:300]
        raise SysgymError(f"{path}: cannot be read as a table of a time series: {reason}") from error


def _parquet_column(column: Any, name: str, arrow: Any) -> NDArray[Any]:
    if name not in _NAMES:
        values: NDArray[np.float64] = column.cast(arrow.float64()).to_numpy()
        return values
    known: dict[str, str] = {}
    parts = [np.empty(0, np.object_)]
    for chunk in column.chunks:
        if not arrow.types.is_dictionary(chunk.type) or chunk.null_count:
            raise ValueError(f"column {name}: expected the name of a host or port in every row")
        parts.append(_names(chunk.dictionary.to_pylist(), known)[chunk.indices.to_numpy()])
    return np.concatenate(parts)


def _records(columns: Columns, kind: np.dtype[Any], path: Path) -> NDArray[np.void]:
    rows = np.zeros(len(_column(columns, "time_s", path)), kind)
    for name in kind.names or ():
        values = _column(columns, name, path)
        if kind[name].kind in "iu":
            if not ((values >= 0) & (values <= 2.0**53) & (values == np.floor(values))).all():
                raise SysgymError(f"{path}: column {name}: expected non-negative integers")
        elif name == "time_s" and not np.isfinite(values).all():
            raise SysgymError(f"{path}: column {name}: expected times in seconds")
        rows[name] = values
    return rows


def _column(columns: Columns, name: str, path: Path) -> NDArray[Any]:
    if name not in columns:
        raise SysgymError(f"{path}: column {name} is missing; expected a table written by sysgym run --csv")
    return columns[name]


def _read_about(path: Path, name: str) -> Mapping[str, Any]:
    about: Any = {}
    if path.exists():
        try:
            about = parse_json(read_limited(path, LARGEST_ABOUT_BYTES))
            _About.model_validate(about)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part)[:LONGEST_NAME] for part in first["loc"]) or "the whole"
            raise SysgymError(
                f"{path}: {where}: {first['msg']}; expected a table written by sysgym run --csv"
            ) from error
        except ValueError as error:
            raise SysgymError(f"{path}: cannot be read: {error}") from error
    return {"contender": name, "metrics": {}, "ports": {}, **about}
