"""Errors for missing, empty, damaged and other files; the log line; the real trace."""

from __future__ import annotations

import gzip
import importlib.util
import logging
import os
import pickle
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sysgym.emulator.cluster.traces import TraceError, TraceSource, load_jobs
from sysgym.emulator.cluster.traces.reading import numbers, whole_numbers
from sysgym.scenarios.errors import MissingExtra, SysgymError, UnknownName
from sysgym.scenarios.schema.stragglers import TraceJobs

Read = Callable[..., TraceSource]
WriteRows = Callable[[str, list[str]], str]

SPAR_ROWS = [f"0,j_1,R1,ins_{i},{10 + i},50.0,0.1" for i in range(4)]
FORMATS = ["google-2011", "alibaba-2017", "alibaba-2018", "spar"]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_is_not_there(read: Read, kind: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"no such file(.|\n)*jobs\.paths") as caught:
        read(kind, str(tmp_path / "part.csv"))
    assert caught.value.path == str(tmp_path / "part.csv")
    assert isinstance(caught.value, SysgymError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "content", [b"", b"\n\n", gzip.compress(b"", mtime=0)], ids=["nothing", "newlines", "gzip"]
)
def test_an_empty_file(read: Read, kind: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "part.csv").write_bytes(content)
    with pytest.raises(TraceError, match=r"part\.csv: the file is empty"):
        read(kind, str(tmp_path / "part.csv"))


@pytest.mark.parametrize("kind", ["google-2011", "alibaba-2017", "alibaba-2018"])
def test_a_file_of_another_format(read: Read, kind: str, write_rows: WriteRows) -> None:
    with pytest.raises(TraceError, match=r"7 columns, as spar's(.|\n)*jobs\.format"):
        read(kind, write_rows("part.csv", SPAR_ROWS))


def test_columns_alone_do_not_make_a_format(read: Read, write_rows: WriteRows) -> None:
    path = write_rows("part.csv", ["a,b,c,d,e,f,g"] * 3)
    with pytest.raises(TraceError, match="none of the 3 rows is of the format"):
        read("spar", path)


def test_a_damaged_file(read: Read, tmp_path: Path) -> None:
    packed = gzip.compress("".join(f"0,j_1,R1,ins_{i},{i * i},50.0,0.1\n" for i in range(9000)).encode())
    (tmp_path / "part.csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(TraceError, match=r"part\.csv\.gz: the file is cut off or damaged"):
        read("spar", str(tmp_path / "part.csv.gz"))


def test_a_file_that_is_no_text(read: Read, tmp_path: Path) -> None:
    (tmp_path / "part.csv").write_bytes(bytes(range(256)) * 10)
    with pytest.raises(TraceError, match="the file is not text"):
        read("spar", str(tmp_path / "part.csv"))


def test_a_folder_without_parts(read: Read, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="the folder holds no part"):
        read("spar", str(tmp_path))


def test_bytes_that_are_no_text_break_their_row_alone(read: Read, tmp_path: Path) -> None:
    (tmp_path / "part.csv").write_bytes("\n".join(SPAR_ROWS).encode() + b"\n0,j_1,R1,i,\xff5,50.0,0.1\n")
    source = read("spar", str(tmp_path / "part.csv"))
    assert source.malformed == {"not a number": 1}
    assert source.job(0).n_tasks == 4


def test_no_such_format(read: Read) -> None:
    with pytest.raises(UnknownName, match="google-2011"):
        read("google")


def test_one_line_is_logged(read: Read, write_rows: WriteRows, caplog: pytest.LogCaptureFixture) -> None:
    path = write_rows("part.csv", [*SPAR_ROWS, "x", "0,j_2,R1,ins_0,5,1,1"])
    with caplog.at_level(logging.INFO):
        read("spar", path)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    said = record.getMessage()
    assert "6 rows of 1 file(s), 1 jobs" in said
    assert "1 wrong number of columns" in said
    assert "1 fewer than tasks_min tasks" in said


def test_without_the_extra(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spar", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"sysgym\[traces\]"):
        read("spar")


@pytest.mark.parametrize("text", ["1_0", "x", "nan", "inf", "-inf", "1e999", "0x10", "1,5", "--1"])
def test_what_is_no_number(text: str) -> None:
    values, bad = numbers(["1.5", text, "", "-2e3"])
    np.testing.assert_array_equal(bad, [False, True, False, False])
    np.testing.assert_array_equal(values, [1.5, np.nan, np.nan, -2000])


@pytest.mark.parametrize("text", ["1_0", "x", "", "1.5", "1e3", str(2**63), str(-(2**63) - 1), "9" * 5000])
def test_what_is_no_whole_number(text: str) -> None:
    values, bad = whole_numbers([str(2**63 - 1), text, "-4"])
    np.testing.assert_array_equal(bad, [False, True, False])
    np.testing.assert_array_equal(values, [2**63 - 1, 0, -4])


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("spar") is None, reason='needs the extra "traces" (package spar)'
)
def test_the_real_hour() -> None:
    """3,056,536 instances of 67,634 tasks, published; percentiles of durations are whole seconds."""
    source = load_jobs(TraceJobs(kind="trace", format="spar"))
    assert source.rows_read == 3_056_536
    assert source.malformed == {}
    assert source.missing_values == {}
    sizes = []
    for name in source.names[::50]:
        job = source.job(name, attempts=2, seed=1)
        sizes.append(job.n_tasks)
        assert (job.duration_s >= 1).all()
        assert np.isin(job.duration_s, job.latency_s).all()
        assert np.isfinite(job.counters).all()
        assert job.counters.shape == (job.n_tasks, 2, job.counters.shape[2], 2)
    assert min(sizes) >= 100
    assert max(sizes) <= 1000
    assert source.names == tuple(sorted(source.names))


def test_a_line_without_end_is_refused_before_it_fills_the_memory(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "part.csv.gz"
    path.write_bytes(gzip.compress(b"0,j_1,R1,ins_1,10,50.0,0.1\n" * 60 + b"9" * 60_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match="a line has more than 16384 characters"):
            read("spar", str(path))
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_pipes_and_impossible_names_are_refused(read: Read, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "part.csv")  # opening it would wait for ever
    for path in (tmp_path, tmp_path / "part.csv", tmp_path / ("x" * 5000), "a\0b", "~nobody-of-this-name/x"):
        with pytest.raises(TraceError):
            read("spar", str(path))
