"""Speed measurements are made and written; their values are not tested."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sysgym.cli import main
from sysgym.emulator.accelerators import programs
from sysgym.perf import environments, figures, live, packets, placement

UNITS = {
    "packet_hops_per_s": "1/s",
    "hop_s": "s",
    "packet_ends_s": "s",
    "transport_s": "s",
    "memory_bytes": "bytes",
    "cost_per_hop_s": "s",
    "checkpoint_s": "s",
    "cost_evaluations_per_s": "1/s",
    "synthesis_s": "s",
    "env_steps_per_s": "1/s",
    "vector_steps_per_s": "1/s",
    "training_steps_per_s": "1/s",
    "unwatched_hop_ns": "ns",
    "watched_hop_ns": "ns",
    "frame_s": "s",
    "import_s": "s",
    "first_compile_s": "s",
    "cached_start_s": "s",
}


@pytest.fixture
def smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure the smallest worlds for a moment, and start programs that compile nothing."""
    monkeypatch.setattr(figures, "MEASURED_S", 0.005)
    monkeypatch.setattr(figures, "REPETITIONS", 1)
    monkeypatch.setattr(packets, "MEASURED_S", 0.005)
    monkeypatch.setattr(packets, "SETTLE_PACKETS", 10)
    monkeypatch.setattr(packets, "CURVE", {"4 hosts": {"topology.hosts_per_side": 2}})
    monkeypatch.setattr(live, "SCENARIOS", ("incast-32",))
    monkeypatch.setattr(figures, "DUMBBELL_SENDERS", (4,))
    monkeypatch.setattr(figures, "FAT_TREE_KS", (4,))
    monkeypatch.setattr(figures, "JOB_TASKS", (100,))
    monkeypatch.setattr(figures, "ENVIRONMENT_SCENARIOS", ("iroko-dumbbell-10m",))
    monkeypatch.setattr(figures, "VECTOR_WORLDS", {"flow-1g-1ms": 2})
    monkeypatch.setattr(environments, "TRAINING", {"n_steps": 8, "batch_size": 16, "n_epochs": 1})
    monkeypatch.setattr(environments, "TRAINING_WORLDS", 2)
    monkeypatch.setattr(figures, "_START", "import sysgym")
    monkeypatch.setenv("COLUMNS", "140")  # narrower, and workloads are wrapped


def _perf(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["perf", *arguments])
    return int(left.value.code or 0)


@pytest.mark.usefixtures("smallest")
def test_every_figure_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "perf.jsonl"
    assert _perf("--json", str(file)) == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    every = ["figure", "workload", "value", "unit"]
    for row in rows:
        compared = row["figure"] == "vector_steps_per_s"
        beside = ["reference", "reference_name", "ratio"] if compared else []
        assert list(row) == every + beside
        if beside:
            assert row["ratio"] == row["value"] / row["reference"]
    assert {row["figure"]: row["unit"] for row in rows} == UNITS
    workloads = {row["workload"] for row in rows}
    assert {"dumbbell-10g-n4", "fattree-k4-10g", "16x8x8", "iroko-dumbbell-10m"} < workloads
    # Starts are less the time of an empty program, which on a busy machine can be the longer one.
    assert all(math.isfinite(row["value"]) for row in rows)
    assert all(row["value"] > 0.0 for row in rows if row["unit"] == "1/s")
    printed = capsys.readouterr().out
    for row in rows:
        assert row["figure"] in printed
        assert row["workload"] in printed
        assert "ratio" not in row or f" {row['ratio']:.1f} x {row['reference_name']}" in printed


@pytest.mark.usefixtures("smallest")
def test_only_some_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "perf.jsonl"
    assert _perf("--only", "environment", "--json", str(file)) == 0
    (row,) = map(json.loads, file.read_text().splitlines())
    assert (row["figure"], row["workload"]) == ("env_steps_per_s", "iroko-dumbbell-10m")
    capsys.readouterr()
    assert _perf("--only", "nonsense") == 2
    assert (
        'no measurement has "nonsense" in its label; the labels are: dumbbell-10g-n4'
        in capsys.readouterr().err
    )


def test_what_is_measured_by_default() -> None:
    labels = [label for label, _ in figures.measurements()]
    assert labels == [
        *(f"dumbbell-10g-n{n}" for n in (4, 16, 64)),
        *(f"fattree-k{k}-10g" for k in (4, 8, 16)),
        *(f"packets {workload}, {figure}" for figure, workload, _, _ in packets.measurements()),
        "job of 1000 tasks",
        "job of 10000 tasks",
        "placement costs p2-a100 4x16",
        "placement costs 16x8x8",
        "synthesis 16x8x8",
        *(f"environment {name}" for name in figures.ENVIRONMENT_SCENARIOS),
        *(f"vector form {name}" for name in figures.VECTOR_WORLDS),
        *(f"live view {workload}, {figure}" for figure, workload, _, _ in live.measurements()),
        "training flow-1g-1ms",
        "import sysgym",
        "start, nothing compiled",
        "start, compiled before",
    ]


def test_a_synthesis_is_of_every_reduction_under_every_placement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,024 devices on three axes: 65 placements; and of the pair of devices that compiles."""
    searched: list[int] = []

    def counted(space: programs.ProgramSpace, times_s: NDArray[np.float64]) -> tuple[programs.Program, float]:
        searched.append(space.n_levels)
        return best_program(space, times_s)

    best_program = programs.best_program
    monkeypatch.setattr(programs, "best_program", counted)
    assert placement.synthesis_s("16x8x8") > 0.0
    assert len(searched) == 1 + 65 * 3
    assert set(searched) == {1, 2, 3}


def test_a_cold_start_finds_an_empty_cache_and_a_warm_one_finds_a_full_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setattr(
        figures,
        "_START",
        "import os, pathlib, tempfile\n"
        "cache = pathlib.Path(os.environ['NUMBA_CACHE_DIR'])\n"
        f"with open({str(log)!r}, 'a') as file: print(len(list(cache.iterdir())), file=file)\n"
        "tempfile.mkstemp(dir=cache)\n",
    )
    measure = dict(figures.measurements())
    assert measure["start, nothing compiled"]().figure == "first_compile_s"
    assert log.read_text().split() == ["0"]
    log.unlink()
    assert measure["start, compiled before"]().figure == "cached_start_s"
    assert log.read_text().split() == ["0", *(str(n) for n in range(1, figures.REPETITIONS + 1))]


def test_the_program_that_is_started_plays_a_step() -> None:
    figures._run_s(figures._START, None)
    with pytest.raises(subprocess.CalledProcessError):
        figures._run_s(figures._START + "\nraise SystemExit(3)", None)
