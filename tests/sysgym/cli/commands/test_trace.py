"""``sysgym trace``: replays, what-if analyses, files and errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sysgym.cli.app import app
from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.synthetic import synthetic_trace
from sysgym.errors import SysgymError
from tests.emulator.training.conftest import rows_of, write_csv
from tests.emulator.training.formats.test_aicb import ATTENTION, write

PROFILES = Path(__file__).parents[3] / "emulator" / "training" / "formats" / "data"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "140")
    trace = synthetic_trace(5, n_stages=2, n_data_ranks=3, n_steps=5, slow_ranks={4: 2.0})
    rows = rows_of(trace)
    rows[0] |= {"duration": -1}
    return write_csv(tmp_path / "job.csv", rows)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    app(["trace", *arguments], standalone_mode=False)
    return capsys.readouterr().out


def test_replays_are_compared_with_predictions_without_a_replay(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timeline = tmp_path / "step.json"
    out = run(capsys, "replay", str(file), "--step", "3", "--perfetto", str(timeline))
    assert "left out 1 rows" in out
    assert "left out 1 steps" in out
    assert re.search(r"^4 steps of \d+ operations on 6 ranks$", out, re.MULTILINE)
    errors = {line.split("  ")[0]: line.split()[-2:] for line in out.splitlines() if line.endswith("%")}
    assert errors["durations of the step"] == ["0.00%", "0.00%"]
    assert errors["no replay: mean of earlier steps"] != ["0.00%", "0.00%"]
    assert json.loads(timeline.read_text())["otherData"] == {"trace": "job", "step": 3}


def test_clocks_are_aligned_on_request(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "kept" in run(capsys, "replay", str(file))
    out = run(capsys, "replay", str(file), "--align-clocks")
    assert "removed" in out
    assert "clock ahead of the first rank's" in out
    assert " ms" in out.partition("rank's")[2]


@pytest.mark.parametrize("options", [[], ["--published-graph"]])
def test_the_slow_rank_explains_the_loss(
    file: Path, tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "job.png"
    out = run(capsys, "what-if", str(file), "--picture", str(picture), *options)
    ranks = [line for line in out.splitlines() if line.startswith("rank ")]
    assert ranks[0].startswith("rank 4 ")
    assert "longest first, to the least loaded rank" in out
    assert "worst 3 % of ranks: 4 (M_W)" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_step_that_is_not_there_is_an_error(file: Path, tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match="--step 9: expected one of 1, 2, 3, 4"):
        app(["trace", "what-if", str(file), "--step", "9", "--picture", "x.png"], standalone_mode=False)
    with pytest.raises(TraceError, match="no such file"):
        app(["trace", "replay", str(tmp_path / "none.csv")], standalone_mode=False)


def test_a_folder_of_profiles_goes_to_a_picture_with_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    picture, timeline = tmp_path / "job.png", tmp_path / "step.json"
    out = run(capsys, "what-if", str(PROFILES), "--picture", str(picture))
    assert re.search(r"^3 steps of \d+ operations on 2 ranks$", out, re.MULTILINE)
    assert "rank 1 " in out
    assert "stage" not in out
    assert "microbatches" not in out
    assert re.search(r"^gloo:all_reduce +[\d.]+ ms +[\d.]+ %$", out, re.MULTILINE)
    assert picture.read_bytes().startswith(b"\x89PNG")
    out = run(capsys, "replay", *map(str, PROFILES.iterdir()), "--perfetto", str(timeline), "--align-clocks")
    assert re.search(r"^clocks of ranks differ by up to [\d.]+ ms \(removed\)$", out, re.MULTILINE)
    names = {event["args"]["name"] for event in json.loads(timeline.read_text())["traceEvents"]
             if event["name"] == "thread_name"}  # fmt: skip
    assert names == {"thread 0", "gloo"}


def test_a_workload_has_a_time_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    path = write(tmp_path, ATTENTION, ATTENTION)
    out = run(capsys, "replay", str(path), "--system", "dgx-a100", "--perfetto", str(tmp_path / "a.json"))
    assert "32 devices of dgx-a100" in out
    assert re.search(r"job: a step takes [\d.]+ ms if operations start as soon as they can", out)
    assert "replayed against" not in out
    # Nothing is lost to stragglers, and the picture is drawn all the same.
    out = run(capsys, "what-if", str(path), "--ranks", "16", "--picture", str(tmp_path / "a.png"))
    assert "16 devices of dgx-h100" in out
    assert "slowdown 1.000" in out
    assert "Share of the lost time" not in out


def test_a_generated_job_is_a_table_that_the_other_commands_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    path, timeline, picture = tmp_path / "job.csv", tmp_path / "step.json", tmp_path / "job.png"
    options = [
        "--model",
        "resnet50",
        "--tensor",
        "1",
        "--slow",
        "3:1.5",
        "--steps",
        "4",
        "--flops-per-s",
        "1e13",
    ]
    out = run(capsys, "generate", str(path), *options)
    assert re.search(r"^resnet50-dp2-tp1-pp2-1f1b: 4 steps of \d+ operations on 4 ranks, ", out, re.MULTILINE)
    out = run(capsys, "replay", str(path), "--perfetto", str(timeline))
    found = re.search(r"durations of the step, earlier launch gaps .* ([\d.]+)% +[\d.]+%$", out, re.MULTILINE)
    assert found is not None
    assert float(found[1]) < 0.5
    assert "grads-all-reduce" in timeline.read_text()
    out = run(capsys, "what-if", str(path), "--picture", str(picture))
    assert re.search(r"^worst 3 % of ranks: 3 ", out, re.MULTILINE)
    assert "microbatches changed places" not in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_job_that_cannot_be_generated_says_why(tmp_path: Path) -> None:
    def fails(*arguments: str) -> None:
        app(["trace", "generate", *arguments], standalone_mode=False)

    with pytest.raises(SysgymError, match="--slow 3: expected a rank and a factor"):
        fails(str(tmp_path / "job.csv"), "--slow", "3")
    with pytest.raises(SysgymError, match=r"\.parquet or \.csv"):
        fails(str(tmp_path / "job.txt"))
    with pytest.raises(SysgymError, match="background_share"):
        fails(str(tmp_path / "job.csv"), "--background", "0.5", "--steps", "1")
    assert list(tmp_path.iterdir()) == []
