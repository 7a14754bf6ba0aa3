"""Runs of the benchmark: every episode once, after any interruption."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from sysgym.bench.plan import Extras, Plan, make_plan
from sysgym.bench.results.rows import ASIDE, RESULTS, ResultsFile, Row, read_rows
from sysgym.bench.run.pool import Failed
from sysgym.bench.run.runner import ERRORS, RUN, Observer, Outcome, run_plan
from sysgym.bench.run.training import FINISHED, TRAINING_FOLDER, Trained, Training
from sysgym.errors import SysgymError, UnknownName
from sysgym.scenarios import load_suite

WriteSuite = Callable[..., Path]
CommandLine = Callable[..., subprocess.CompletedProcess[str]]
StartCommand = Callable[..., subprocess.Popen[bytes]]

TRAINING = """\
[[training]]
agent = "ppo"
scenario = "./tiny.toml"
total_steps = 256
seed = 3
n_envs = 2
hyper_parameters = { n_steps = 64, batch_size = 64, n_epochs = 2 }

"""


class Ears(Observer):
    """Remembers what a run said."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.played: list[Row] = []
        self.failures: list[Failed] = []
        self.steps: list[int] = []
        self.trainings: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def episode(self, row: Row) -> None:
        self.played.append(row)

    def training_steps(self, training: Training, steps: int) -> None:
        self.steps.append(steps)

    def trained(self, training: Training, result: Trained) -> None:
        self.trainings.append(training.name)

    def failed(self, failure: Failed) -> None:
        self.failures.append(failure)


def _plan(suite: Path, out: Path, **extras: Any) -> Plan:
    return make_plan(load_suite(suite), out, Extras(**extras))


def _run(suite: Path, out: Path, *, n_workers: int = 1, **extras: Any) -> tuple[Outcome, Ears]:
    ears = Ears()
    outcome = run_plan(_plan(suite, out, **extras), out, n_workers=n_workers, observer=ears, command="test")
    return outcome, ears


def _cells(rows: Sequence[Row]) -> list[tuple[str, str, int]]:
    return [(row.scenario, row.contender.name, row.seed) for row in rows]


def _timeless(rows: Sequence[Row]) -> dict[tuple[str, str, int], Row]:
    """Rows less what may differ from run to run."""
    return {
        cell: dataclasses.replace(row, wall_s=0.0, decision_ms=None, energy=None, versions={})
        for cell, row in zip(_cells(rows), rows, strict=True)
    }


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    # Who has died and was not yet taken note of by its parent is dead.
    return not (stat.is_file() and stat.read_text().rpartition(")")[2].split()[0] in "ZX")


def _wait_for(condition: Callable[[], bool], what: str, limit_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.02)


def _pids(folder: Path) -> set[int]:
    """Processes that the agents of a user's file noted."""
    path = folder / "pids"
    return {int(line) for line in path.read_text().split()} if path.is_file() else set()


def _n_rows(out: Path) -> int:
    path = out / RESULTS
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def test_everyone_plays_everything_once(write_suite: WriteSuite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome, ears = _run(write_suite('"dctcp", "reno", "aimd"', 3), out, n_workers=2)
    rows = read_rows(out)
    expected = set(product(["tiny"], ["dctcp", "reno", "aimd"], [200, 201, 202]))
    assert len(rows) == 9
    assert set(_cells(rows)) == expected
    assert outcome.complete
    assert (outcome.n_cells, outcome.n_kept, outcome.n_played) == (9, 0, 9)
    assert sorted(_cells(ears.played)) == sorted(expected)
    assert all(row.steps == 12 and row.split == "test" and row.metrics["goodput_bps"] > 0 for row in rows)
    by_cell = _timeless(rows)
    assert by_cell["tiny", "dctcp", 200].metrics != by_cell["tiny", "dctcp", 201].metrics
    assert by_cell["tiny", "dctcp", 200].metrics != by_cell["tiny", "reno", 200].metrics
    (sitting,) = json.loads((out / RUN).read_bytes())["sittings"]
    assert (sitting["played"], sitting["failed"], sitting["missing"]) == (9, 0, 0)
    assert sitting["command"] == "test"


def test_resuming_plays_what_is_missing_and_nothing_else(write_suite: WriteSuite, tmp_path: Path) -> None:
    suite, out = write_suite(), tmp_path / "out"
    _run(suite, out)
    whole = (out / RESULTS).read_bytes()
    lines = whole.splitlines(keepends=True)
    # One row is gone, one is torn.
    (out / RESULTS).write_bytes(lines[0] + lines[2] + lines[3][:40])
    lost = {cell for cell, line in zip(_cells(list(map(Row.from_line, lines))), lines, strict=True)
            if line in (lines[1], lines[3])}  # fmt: skip
    outcome, ears = _run(suite, out)
    assert set(_cells(ears.played)) == lost
    assert (outcome.n_kept, outcome.n_played, outcome.complete) == (2, 2, True)
    assert any("incomplete (40 bytes)" in note for note in ears.notes)
    assert _timeless(read_rows(out)) == _timeless(list(map(Row.from_line, lines)))

    content = (out / RESULTS).read_bytes()
    outcome, ears = _run(suite, out)
    assert (outcome.n_kept, outcome.n_played, ears.played) == (4, 0, [])
    assert (out / RESULTS).read_bytes() == content


def test_a_scenario_that_changed_is_played_anew_and_old_rows_wait_aside(
    write_suite: WriteSuite, tiny: Path, tmp_path: Path
) -> None:
    suite, out = write_suite('"dctcp"'), tmp_path / "out"
    _run(suite, out)
    old, text = read_rows(out), tiny.read_text()
    tiny.write_text(text.replace("buffer_bytes = 30_000", "buffer_bytes = 60_000"))
    outcome, ears = _run(suite, out)
    assert (outcome.n_kept, outcome.n_played) == (0, 2)
    assert ears.notes == [
        "2 rows do not belong to this plan (scenario, contender, checkpoint or seed); moved to aside.jsonl"
    ]
    new = read_rows(out)
    assert {row.scenario_resolved["queue"]["buffer_bytes"] for row in new} == {60_000}
    assert [Row.from_line(line) for line in (out / ASIDE).read_bytes().splitlines()] == old

    tiny.write_text(text)  # as before: nothing has to be played
    outcome, ears = _run(suite, out)
    assert (outcome.n_kept, outcome.n_played) == (2, 0)
    assert read_rows(out) == old


def test_a_suite_that_changed_keeps_what_both_have(write_suite: WriteSuite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    _run(write_suite('"dctcp", "reno"', 2), out)
    outcome, ears = _run(write_suite('"dctcp", "cubic"', 3), out)
    assert outcome.n_kept == 2
    assert set(_cells(ears.played)) == {
        ("tiny", "dctcp", 202),
        *product(["tiny"], ["cubic"], [200, 201, 202]),
    }
    assert {row.contender.name for row in read_rows(out)} == {"dctcp", "cubic"}
    assert len(read_rows(out)) == 6


def test_rows_of_other_sources_are_not_mixed_with_ours(write_suite: WriteSuite, tmp_path: Path) -> None:
    suite, out = write_suite('"dctcp"'), tmp_path / "out"
    _run(suite, out)
    rows = read_rows(out)
    rows[0] = dataclasses.replace(rows[0], versions={**rows[0].versions, "sources": "0123456789abcdef"})
    (out / RESULTS).write_bytes(b"".join(row.to_line() for row in rows))
    outcome, ears = _run(suite, out)
    assert (outcome.n_kept, outcome.n_played) == (1, 1)
    assert ears.notes == ["1 rows were made with other versions or sources of sysgym; moved to aside.jsonl"]
    assert len({row.versions["sources"] for row in read_rows(out)}) == 1


def test_what_the_command_line_adds(write_suite: WriteSuite, tiny: Path, tmp_path: Path) -> None:
    other = tiny.with_name("other.toml")
    other.write_text(tiny.read_text().replace('name = "tiny"', 'name = "other"'))
    plan = _plan(
        write_suite('"dctcp"', 2),
        tmp_path,
        scenarios=[str(other)],
        contenders=["mine=paced:aimd"],
        n_seeds=3,
    )
    cells = [(cell.scenario.name, cell.contender.name, cell.seed) for cell in plan.cells]
    assert cells == list(product(["tiny", "other"], ["dctcp", "mine"], [200, 201, 202]))


@pytest.mark.parametrize(
    ("contenders", "extras", "words"),
    [
        ('"dctcp"', {"contenders": ["dctpc"]}, 'did you mean "dctcp"'),
        ('"dctcp"', {"contenders": ["dctcp"]}, 'two contenders are named "dctcp"'),
        ('"dctcp"', {"n_seeds": 101}, "seed 300 is outside the split test"),
        ('"ppo"', {}, 'the suite "small" trains no ppo on this scenario'),
        ('"dctcp"', {"scenarios": ["./tiny.toml"]}, 'in the suite "small" already'),
        ('"dctcp"', {"contenders": ["aimd@x.zip"]}, "takes no checkpoint"),
        ('"dctcp"', {"contenders": ["ppo@x.zip"]}, "x.zip: cannot be read"),
    ],
)
def test_a_plan_that_cannot_be_played_says_why(
    write_suite: WriteSuite,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    contenders: str,
    extras: dict[str, Any],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SysgymError) as caught:
        _plan(write_suite(contenders), tmp_path, **extras)
    assert words in str(caught.value)
    assert isinstance(caught.value, UnknownName) == ("mean" in words)


def test_kill_9_and_resume_give_the_rows_of_a_run_that_nothing_stopped(
    write_suite: WriteSuite,
    agents_file: Path,
    command_line: CommandLine,
    start_command: StartCommand,
    tmp_path: Path,
) -> None:
    suite, cut, whole = write_suite('"sleepy", "dctcp"', 6), tmp_path / "cut", tmp_path / "whole"

    def arguments(out: Path) -> list[str | Path]:
        return ["bench", suite, "--plugin", agents_file, "--jobs", "2", "--out", out]

    process = start_command(*arguments(cut))
    _wait_for(lambda: _n_rows(cut) >= 2, "no rows in time")
    process.kill()
    assert process.wait() == -signal.SIGKILL
    pids = _pids(tmp_path)
    _wait_for(lambda: not any(map(_is_alive, pids)), "a worker outlives its parent", 20.0)
    kept = read_rows(cut)
    assert 2 <= len(kept) < 12, "the kill was to come in the middle"

    resumed = command_line(*arguments(cut))
    assert resumed.returncode == 0, resumed.stderr
    assert f"12 of 12 episodes, {len(kept)} of them finished earlier" in resumed.stdout
    assert read_rows(cut)[: len(kept)] == kept, "what was there is not played again"
    uninterrupted = command_line(*arguments(whole))
    assert uninterrupted.returncode == 0, uninterrupted.stderr
    assert len(read_rows(cut)) == len(read_rows(whole)) == 12
    assert _timeless(read_rows(cut)) == _timeless(read_rows(whole))


def test_ctrl_c_leaves_cleanly(
    write_suite: WriteSuite, agents_file: Path, start_command: StartCommand, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    suite = write_suite('"sleepy"', 40)
    process = start_command("bench", suite, "--plugin", agents_file, "--jobs", "2", "--out", out)
    _wait_for(lambda: _n_rows(out) >= 2 and len(_pids(tmp_path)) == 2, "not both workers played in time")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    assert process.wait(timeout=30) == 130
    pids = _pids(tmp_path)
    assert len(pids) == 2
    assert not any(map(_is_alive, pids))
    assert "stopped; finished rows are in" in (tmp_path / "stdout").read_text()
    assert (tmp_path / "stderr").read_text() == ""
    assert 2 <= len(read_rows(out)) < 40
    (sitting,) = json.loads((out / RUN).read_bytes())["sittings"]
    assert sitting["played"] == len(read_rows(out))
    assert sitting["missing"] == 40 - sitting["played"]
    with ResultsFile(out) as results:
        assert results.torn_bytes == 0


def test_a_row_that_is_on_disk_when_ctrl_c_comes_is_counted(
    write_suite: WriteSuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite, out = write_suite('"dctcp"', 3), tmp_path / "out"
    fsync = os.fsync

    def interrupted(file: int) -> None:
        fsync(file)
        if _n_rows(out) == 2:
            monkeypatch.setattr(os, "fsync", fsync)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _run(suite, out)
    (sitting,) = json.loads((out / RUN).read_bytes())["sittings"]
    assert len(read_rows(out)) == 2
    assert (sitting["played"], sitting["missing"]) == (2, 1)
    outcome, ears = _run(suite, out)
    assert (outcome.n_kept, len(ears.played)) == (2, 1)


def test_a_failing_episode_names_its_cell_and_stops_no_other(
    write_suite: WriteSuite, agents_file: Path, command_line: CommandLine, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    suite = write_suite('"fragile", "deadly", "dctcp"', 3)
    done = command_line("bench", suite, "--plugin", agents_file, "--jobs", "1", "--out", out)
    assert done.returncode == 1
    assert "failed tiny / fragile / test seed 201: ArithmeticError: too much for me" in done.stdout
    assert (
        "failed tiny / deadly / test seed 201: the worker process died (signal 9, SIGKILL; out of memory?)"
        in done.stdout
    )
    assert "7 of 9 episodes" in done.stdout
    assert f"2 episodes are missing, 2 jobs failed; see the tracebacks in {out / ERRORS}" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    log = (out / ERRORS).read_text()
    assert "tiny / fragile / test seed 201" in log
    assert 'raise ArithmeticError("too much for me")' in log
    missing = {("tiny", "fragile", 201), ("tiny", "deadly", 201)}
    every = set(product(["tiny"], ["fragile", "deadly", "dctcp"], [200, 201, 202]))
    assert set(_cells(read_rows(out))) == every - missing


@pytest.mark.slow
def test_a_suite_trains_its_agent_first_and_only_once(
    write_suite: WriteSuite, tiny: Path, tmp_path: Path
) -> None:
    pytest.importorskip("stable_baselines3", reason="the extra train is not installed")
    suite, out = write_suite('"dctcp", "ppo"', 2, TRAINING), tmp_path / "out"
    outcome, ears = _run(suite, out, n_workers=2)
    assert outcome.complete
    assert not outcome.failures
    assert ears.trainings == ["ppo-tiny-seed3"]
    assert ears.steps[-1] == 256
    folder = out / TRAINING_FOLDER / "ppo-tiny-seed3"
    done = json.loads((folder / FINISHED).read_bytes())
    learned = [row for row in read_rows(out) if row.contender.learned]
    assert {row.seed for row in learned} == {200, 201}
    assert {row.contender.checkpoint_sha256 for row in learned} == {done["sha256"]}
    checkpoint = learned[0].contender.checkpoint
    assert checkpoint is not None
    assert (out / checkpoint).is_file(), "the path in the row is relative to the results"

    outcome, ears = _run(suite, out)
    assert (outcome.n_kept, outcome.n_played, ears.trainings) == (4, 0, [])
    # Another training of this name: the old one is not taken for it, and not lost.
    write_suite('"dctcp", "ppo"', 2, TRAINING.replace("n_epochs = 2", "n_epochs = 1"))
    outcome, ears = _run(suite, out)
    assert outcome.complete
    assert ears.trainings == ["ppo-tiny-seed3"]
    assert any("aside-ppo-tiny-seed3-1" in note for note in ears.notes)
    assert (out / TRAINING_FOLDER / "aside-ppo-tiny-seed3-1" / FINISHED).is_file()
    assert sorted(_cells(ears.played)) == [("tiny", "ppo", 200), ("tiny", "ppo", 201)]


@pytest.mark.slow
def test_episodes_of_a_training_that_fails_are_missing_and_said_to_be(
    write_suite: WriteSuite, tmp_path: Path
) -> None:
    pytest.importorskip("stable_baselines3", reason="the extra train is not installed")
    training = TRAINING.replace("n_epochs = 2", "n_epoch = 2")
    outcome, ears = _run(write_suite('"dctcp", "ppo"', 2, training), tmp_path / "out")
    assert not outcome.complete
    assert outcome.n_played == 2
    assert outcome.skipped == ["tiny / ppo / seed 200", "tiny / ppo / seed 201"]
    (failure,) = ears.failures
    assert failure.job.label == "training ppo-tiny-seed3"
    assert 'did you mean "n_epochs"' in failure.reason
