"""Rows survive full and failing disks and kills; scripts/robustness/fault_injection.py does more of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from scripts.robustness.fault_injection import (
    Disk,
    Fault,
    Killed,
    Run,
    cut_faults,
    kill_bench,
    play,
    some_rows,
    step_faults,
)
from sysgym.bench.results.rows import RESULTS, ResultsFile, read_rows
from sysgym.errors import StorageError
from sysgym.scenarios.files import write_atomically

EVERY = 97
"""Bytes from one cut to the next; the script takes each."""


def test_a_row_that_is_cut_anywhere_costs_at_most_itself(tmp_path: Path) -> None:
    rows = some_rows(3)
    faults = list(cut_faults(rows, EVERY))
    assert len(faults) > 150
    for number, fault in enumerate(faults):
        play(tmp_path / str(number), rows, False, fault)


def test_a_run_that_ends_at_any_system_call_loses_nothing(tmp_path: Path) -> None:
    rows = some_rows(4)
    faults = list(step_faults(tmp_path / "whole", rows))
    assert len(faults) > 60
    for number, fault in enumerate(faults):
        play(tmp_path / str(number), rows, True, fault)


def test_the_faults_are_noticed(tmp_path: Path) -> None:
    """A file that ignores a failed flush, or a run that forgets a row, does not pass."""
    rows = some_rows(2)
    run = Run(tmp_path, rows, moves=False)
    with pytest.raises(Killed), Disk(Fault(3, "kill", 100)):
        run.go()
    assert run.acknowledged == rows[:1]
    assert (tmp_path / RESULTS).stat().st_size == len(rows[0].to_line()) + 100
    (tmp_path / RESULTS).write_bytes(b"")
    with pytest.raises(AssertionError, match="lost"):
        run.check()
    (tmp_path / RESULTS).write_bytes(rows[0].to_line() * 2)
    with pytest.raises(AssertionError, match="doubled"):
        run.check()


def test_nothing_is_written_after_a_flush_that_failed(tmp_path: Path) -> None:
    first, second, third = some_rows(3)
    with ResultsFile(tmp_path) as results:
        results.append(first)
        with Disk(Fault(1, "error")), pytest.raises(StorageError, match="Input/output error; the disk fails"):
            results.append(second)
        assert results.rows == [first]
        with pytest.raises(StorageError, match="an earlier line could not be flushed"):
            results.append(third)
    assert read_rows(tmp_path) == [first], "what was not acknowledged is taken back"
    with ResultsFile(tmp_path) as results:
        results.append(second)
    assert read_rows(tmp_path) == [first, second]


def test_a_part_that_cannot_be_taken_back_ends_the_file(tmp_path: Path) -> None:
    first, second, third = some_rows(3)
    truncate = os.ftruncate

    def refused(file: int, size: int) -> None:
        raise OSError(errno.EIO, "no")

    with ResultsFile(tmp_path) as results:
        results.append(first)
        os.ftruncate = refused
        try:
            with Disk(Fault(0, "full", 50)), pytest.raises(StorageError, match="No space left"):
                results.append(second)
        finally:
            os.ftruncate = truncate
        with pytest.raises(StorageError, match="written in part and could not be removed"):
            results.append(third)
    with ResultsFile(tmp_path) as results:
        assert results.torn_bytes == 50
        results.append(third)
    assert read_rows(tmp_path) == [first, third]


@pytest.mark.parametrize("n_bytes", [0, 1, 5, 9])
@pytest.mark.parametrize("how", ["full", "kill"])
def test_a_file_is_the_old_or_the_new_one(tmp_path: Path, n_bytes: int, how: str) -> None:
    path = tmp_path / "run.json"
    write_atomically(path, b"old")
    with pytest.raises((StorageError, Killed)), Disk(Fault(0, how, n_bytes)):
        write_atomically(path, b"0123456789")
    assert path.read_bytes() == b"old"
    assert how == "kill" or list(tmp_path.iterdir()) == [path], "nothing is left beside it"
    write_atomically(path, b"0123456789")
    assert path.read_bytes() == b"0123456789"


@pytest.mark.slow
def test_a_benchmark_that_is_killed_again_and_again_keeps_every_row(tmp_path: Path) -> None:
    assert kill_bench(tmp_path, n_kills=2, count=40) == 2
