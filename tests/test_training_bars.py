"""Bars of scripts/training/training_bars.py on small tables: met, missed, and errors that are told."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from sysgym.emulator.training.clocks import aligned
from sysgym.emulator.training.pipeline import graph_of
from sysgym.emulator.training.synthetic import synthetic_trace
from sysgym.emulator.training.tables import read_trace
from sysgym.emulator.training.what_if import WhatIf
from tests.emulator.training.conftest import rows_of, write_csv
from tests.scripts import load_script


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("training/training_bars")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    trace = synthetic_trace(1, n_stages=2, n_data_ranks=4, n_steps=8, slow_ranks={5: 1.5})
    return write_csv(tmp_path / "trace.csv", rows_of(trace))


def published(table: Path, **changes: float) -> Path:
    trace = read_trace(table)
    found = WhatIf.of(trace, graph_of(trace, "same-kind"))
    values = {
        "tori": found.step_s,
        "tideal": found.ideal_step_s,
        "Ms": found.share_of_last_stage(),
        **changes,
    }
    path = table.with_name("ms.json")
    path.write_text(json.dumps({**values, "rem": 1.0}))
    return path


def test_all_bars_are_met(script: ModuleType, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main([str(table), "--published", str(published(table))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.endswith(" met") for line in lines) == 7
    assert [line.split(" of ")[0] for line in lines if "ms.json" in line] == ["tori", "tideal", "Ms"]


@pytest.mark.parametrize("key", ["tori", "tideal", "Ms"])
def test_another_published_value_is_missed(
    script: ModuleType, table: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    right = json.loads(published(table).read_text())[key]
    assert script.main([str(table), "--published", str(published(table, **{key: right * 1.0001}))]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "NOT MET" in line]
    assert line.startswith(f"{key} of ms.json")
    assert " 1.0e-04 " in line


def test_a_strict_bar_is_missed(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gaps that the replay does not know make its steps too short."""
    trace = synthetic_trace(1, n_stages=2, n_data_ranks=2, n_steps=6)
    rows = rows_of(trace)
    for row in rows:
        if row["optype"] == "optimizer":
            row["start_ts"] = float(str(row["start_ts"])) + 0.1
    table = write_csv(tmp_path / "trace.csv", rows)
    assert script.main([str(table)]) == 1
    missed = [line for line in capsys.readouterr().out.splitlines() if "NOT MET" in line]
    assert len(missed) == 1
    assert missed[0].startswith("step from durations of the step, all steps")
    assert script.main([str(table), "--durations-bar", "50"]) == 0


def test_clocks_that_differ_are_told_from_errors(script: ModuleType) -> None:
    """Hosts of four ranks, whose clocks are 0.5 ms apart: found exactly, beyond what the trace has."""
    trace = synthetic_trace(1, n_stages=2, n_data_ranks=4, n_steps=8)
    offsets_s = np.asarray(-5e-4 * (trace.operations.ranks // 4), np.float64)
    apart = aligned(trace, offsets_s)
    of_own, absolute, own, between, within = script.clock_bars(apart, graph_of(apart), 3, 4)
    assert of_own.met is True
    assert absolute.met is None
    assert absolute.note.startswith("missed")
    assert float(absolute.value.removesuffix(" ms")) == pytest.approx(0.5, abs=0.05)
    assert float(own.value.removesuffix(" ms")) == pytest.approx(0.5, abs=0.1)
    assert float(between.value.removesuffix(" ms")) == pytest.approx(0.25, abs=0.03)
    assert float(within.value.removesuffix(" ms")) < 0.03
    assert script.host_spread_s(trace, np.zeros(8), 8) is None
    assert script.host_spread_s(trace, np.zeros(8), 1) is None


def test_files_that_cannot_be_used(
    script: ModuleType, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.json"
    for content, words in (("{}", "expected an object with one of tori"), ("[", "cannot be read")):
        other.write_text(content)
        assert script.main([str(table), "--published", str(other)]) == 2
        assert words in capsys.readouterr().err
    assert script.main([str(tmp_path / "missing.csv")]) == 2
