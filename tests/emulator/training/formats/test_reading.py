"""The format follows from the names of the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.formats.reading import read_job
from sysgym.emulator.training.operations import TrainingTrace
from tests.emulator.training.conftest import rows_of, write_csv
from tests.emulator.training.formats.test_aicb import ATTENTION, write

DATA = Path(__file__).parent / "data"


def test_a_folder_of_profiles(tmp_path: Path) -> None:
    job = read_job([DATA])
    assert job.trace.name == "data"
    assert job.trace.operations.ranks.tolist() == [0, 1]
    assert not job.modelled
    assert read_job([DATA / "rank1.json.gz"]).trace.name == "rank1"


def test_a_table_and_a_workload(trace: TrainingTrace, tmp_path: Path) -> None:
    table = read_job([write_csv(tmp_path / "table.csv", rows_of(trace))])
    assert len(table.graph.groups()) > 1
    workload = read_job([write(tmp_path, ATTENTION)], system="dgx-a100", n_ranks=16)
    assert workload.modelled
    assert "16 devices of dgx-a100" in workload.notes[0]


def test_files_that_are_no_job_are_errors(trace: TrainingTrace, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "table.csv", rows_of(trace))
    with pytest.raises(TraceError, match="no file of a rank"):
        read_job([tmp_path])
    with pytest.raises(TraceError, match=r"2 files, among them table\.csv and rank0\.json\.gz"):
        read_job([table, DATA / "rank0.json.gz"])
    with pytest.raises(TraceError, match="no such file or folder"):
        read_job([tmp_path / "job.pkl"])
    (tmp_path / "job.pkl").touch()
    with pytest.raises(TraceError, match=r'a name that ends in "\.pkl"'):
        read_job([tmp_path / "job.pkl"])
