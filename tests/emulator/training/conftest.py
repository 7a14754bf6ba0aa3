"""Traces of small jobs."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from sysgym.emulator.training.operations import TrainingTrace
from sysgym.emulator.training.synthetic import synthetic_trace


@pytest.fixture(scope="session")
def trace() -> TrainingTrace:
    return synthetic_trace(1, n_stages=3, n_data_ranks=2, n_microbatches=4, n_steps=6)


def rows_of(trace: TrainingTrace) -> list[dict[str, object]]:
    """The rows of a trace, as a table has them."""
    operations, rows = trace.operations, []
    for place, step in enumerate(trace.steps.tolist()):
        for one in range(len(operations)):
            start_s, end_s = float(trace.start_s[place, one]), float(trace.end_s[place, one])
            rows.append(
                {
                    "dp_rank": int(operations.data_rank[one]),
                    "stage": int(operations.stage[one]),
                    "rank": int(operations.rank[one]),
                    "step": step,
                    "optype": str(operations.kind[one]),
                    "start_ts": start_s,
                    "duration": end_s - start_s,
                    "seq_id": int(operations.index[one]),
                    "mb_id": -1,
                }
            )
    return rows


def write_csv(path: Path, rows: list[dict[str, object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path
