"""Tables by layers: written and read, and refused where whole stages are needed."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.formats.reading import read_job
from sysgym.emulator.training.generated.effects import Effects
from sysgym.emulator.training.generated.simulation import generate
from sysgym.emulator.training.generated.structure import structure_of
from sysgym.emulator.training.operations import TrainingTrace
from sysgym.emulator.training.replay import step_times_s
from sysgym.emulator.training.synthetic import synthetic_trace
from sysgym.emulator.training.tables import read_trace, write_trace
from sysgym.emulator.training.timing import durations_s
from tests.emulator.training.generated.conftest import small_job


@pytest.fixture(scope="module")
def trace() -> TrainingTrace:
    job = small_job(schedule="interleaved", virtual_stages=2, microbatches=2, length_log_sd=0.2)
    return generate(job, Effects(jitter_log_sd=0.05), 1, 2)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_by_layers_comes_back(trace: TrainingTrace, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"job{suffix}"
    write_trace(path, trace)
    job = read_job([path])
    read = job.trace
    assert read.left_out.malformed_rows == 0
    order = [trace.operations.number()[key] for key in read.operations.number()]
    assert read.start_s == pytest.approx(trace.start_s[:, order], abs=0.0)
    assert read.end_s == pytest.approx(trace.end_s[:, order])
    parts, expected = read.operations.parts, trace.operations.parts
    assert parts is not None
    assert expected is not None
    assert all(np.array_equal(one, other[order]) for one, other in zip(parts, expected, strict=True))
    # The graph that the trace shows is that of the job.
    place = {one: number for number, one in enumerate(order)}
    graph = structure_of(small_job(schedule="interleaved", virtual_stages=2, microbatches=2)).graph
    assert job.graph.edges() == {(place[a], place[b]) for a, b in graph.edges()}
    assert job.graph.groups() == {frozenset(place[one] for one in group) for group in graph.groups()}
    replayed_s = step_times_s(job.graph, durations_s(read, job.graph))
    assert replayed_s == pytest.approx(read.step_s, rel=1e-3)


def test_a_table_of_whole_stages_is_written_too(tmp_path: Path) -> None:
    trace = synthetic_trace(2, n_steps=2)
    write_trace(tmp_path / "job.csv", trace)
    read = read_trace(tmp_path / "job.csv", whole_stages=True)
    assert read.operations.parts is None
    assert read.step_s == pytest.approx(trace.step_s)


def test_layers_are_refused_where_whole_stages_are_needed(trace: TrainingTrace, tmp_path: Path) -> None:
    write_trace(tmp_path / "job.csv", trace)
    with pytest.raises(TraceError, match="a table by layers, with the columns tp_rank"):
        read_trace(tmp_path / "job.csv", whole_stages=True)
    with pytest.raises(TraceError, match=r"\.parquet or \.csv"):
        write_trace(tmp_path / "job.txt", trace)


@pytest.mark.parametrize(
    ("column", "value"), [("layer", "-2"), ("mb_id", "0.5"), ("bytes", "-1"), ("mc", "x"), ("tp_rank", "-1")]
)
def test_malformed_rows_are_counted(trace: TrainingTrace, tmp_path: Path, column: str, value: str) -> None:
    path = tmp_path / "job.csv"
    write_trace(path, trace)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows[5][column] = value
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    read = read_trace(path)
    assert read.left_out.malformed_rows == 1
    assert len(read.left_out.steps) + len(read.steps) == 2
