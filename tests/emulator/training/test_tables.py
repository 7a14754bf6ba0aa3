"""Tables of operations: round trips, rows and steps that are left out, and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.operations import TrainingTrace
from sysgym.emulator.training.tables import COLUMNS, read_trace
from tests.emulator.training.conftest import rows_of, write_csv


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    if path.suffix == ".csv":
        return write_csv(path, rows)
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({name: [row[name] for row in rows] for name in rows[0]})
    parquet.write_table(table, path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_trace_comes_back(trace: TrainingTrace, tmp_path: Path, suffix: str) -> None:
    rows = rows_of(trace)
    np.random.default_rng(0).shuffle(rows)
    path = write(tmp_path / f"job{suffix}", rows)
    if suffix == ".csv":  # as a spreadsheet saves it
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    found = read_trace(path)
    assert found.name == "job"
    assert found.left_out.malformed_rows == 0
    assert found.left_out.steps == ()
    assert found.steps.tolist() == trace.steps.tolist()
    theirs = trace.operations.number()
    place = [theirs[key] for key in found.operations.number()]
    assert sorted(place) == list(range(len(trace.operations)))
    np.testing.assert_allclose(found.start_s, trace.start_s[:, place], atol=1e-12)
    np.testing.assert_allclose(found.end_s, trace.end_s[:, place], atol=1e-12)
    assert (found.operations.stage == trace.operations.stage[place]).all()
    assert (found.operations.data_rank == trace.operations.data_rank[place]).all()


def test_impossible_rows_and_incomplete_steps_are_left_out_and_counted(
    trace: TrainingTrace, tmp_path: Path
) -> None:
    rows = rows_of(trace)
    n = len(trace.operations)
    rows[0] |= {"duration": -1.0}  # step 0
    rows[n + 1] |= {"start_ts": "nan"}  # step 1
    rows[2 * n + 2] |= {"optype": "unheard-of"}  # step 2
    del rows[3 * n + 3]  # step 3
    found = read_trace(write_csv(tmp_path / "job.csv", rows))
    assert found.left_out.malformed_rows == 3
    assert found.left_out.steps == (0, 1, 2, 3)
    assert found.steps.tolist() == [4, 5]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("job.json", "{}", r'a name that ends in "\.json"'),
        ("missing.csv", None, "no such file"),
        ("empty.csv", "", "no column rank, stage"),
        ("other.csv", "rank,stage\n0,0\n", "no column dp_rank, step"),
        ("words.csv", ",".join(COLUMNS) + "\na,b,c,d,e,f,g,h\n", "no row with valid values"),
        ("job.parquet", "no parquet", "cannot be read"),
        ("latin.csv", b"rank,\xe9\n", "cannot be read"),
    ],
)
def test_other_files_are_errors(tmp_path: Path, name: str, content: str | bytes | None, message: str) -> None:
    path = tmp_path / name
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(TraceError, match=message):
        read_trace(path)


def test_a_rank_is_in_one_place(trace: TrainingTrace, tmp_path: Path) -> None:
    rows = rows_of(trace)
    rows[0] |= {"stage": 2}
    with pytest.raises(TraceError, match="rank 0 has two stages"):
        read_trace(write_csv(tmp_path / "job.csv", rows))


def test_steps_that_have_nothing_in_common_are_an_error(trace: TrainingTrace, tmp_path: Path) -> None:
    n = len(trace.operations)
    rows = rows_of(trace)
    halves = rows[: n // 2] + rows[n + n // 2 : 2 * n]
    with pytest.raises(TraceError, match="no two steps have the same operations"):
        read_trace(write_csv(tmp_path / "job.csv", halves))
