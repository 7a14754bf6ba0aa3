"""Table of the errors of replays."""

from __future__ import annotations

import pytest

from scripts.training import replay_error
from sysgym.emulator.training.generated.effects import LEVELS
from sysgym.emulator.training.generated.job import ParallelJob

JOB = ParallelJob("vgg16", 2, 1, 2, microbatches=2, batch=16, system="p2-v100", flops_per_s=5e13)


def test_the_tables_have_a_row_for_each_job_and_a_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = {name: effects for name, effects in LEVELS.items() if not effects.background_share}
    monkeypatch.setattr(replay_error, "LEVELS", quiet)
    lines = list(replay_error.tables(replay_error.measured([JOB], range(2), 1)))
    rows = [line for line in lines if line.startswith("| vgg16-dp2-tp1-pp2-1f1b, p2-v100 |")]
    # The same step and three changes; microbatches are alike, so that none is worth moving.
    assert len(rows) == 4
    assert rows[0].split("|")[2].strip() == "0.00"
    counts = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in lines[-3:]}
    assert counts["later steps"] == "3 of 3"
    assert set(counts) == {"later steps", "bandwidth doubled", "a rank 20 % slower"}
    assert capsys.readouterr().err.count("vgg16-dp2") == len(quiet)
