"""Measurements of the kernel backend are made and printed; their values are not tested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sysgym.cli import main
from sysgym.perf import linux


@pytest.mark.linux
@pytest.mark.usefixtures("linux_backend")
def test_steps_lateness_and_resets_are_printed_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(linux, "STEPS", 3)
    monkeypatch.setattr(linux, "RESETS", 1)
    monkeypatch.setattr(linux, "SCENARIOS", ("linux-dumbbell-100m",))
    file = tmp_path / "perf.jsonl"
    with pytest.raises(SystemExit) as left:
        main(["perf", "--backend", "linux", "--json", str(file)])
    assert not left.value.code
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["figure"] for row in rows] == ["linux_step_s", "linux_late_s", "linux_reset_s"]
    assert all(row["workload"] == "linux-dumbbell-100m" and row["unit"] == "s" for row in rows)
    assert all(row["value"] > 0.0 for row in rows if row["figure"] != "linux_late_s")
    printed = capsys.readouterr().out
    assert all(row["figure"] in printed for row in rows)


def test_another_backend_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["perf", "--backend", "lunix"])
    assert left.value.code
    assert 'no backend is named "lunix"; did you mean "linux"?' in capsys.readouterr().err
