"""Replay of rows: correct rows pass, all others fail."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sysgym.bench.contenders import file_sha256
from sysgym.bench.results.rows import RESULTS, ResultsFile, Row, read_rows
from sysgym.bench.results.versions import versions
from sysgym.bench.run.episodes import compile_for_workers
from sysgym.bench.run.replay import ABSENT, Replay, choose_rows, compare, replay
from sysgym.errors import ResultMismatch, SysgymError

MakeRow = Callable[..., Row]
WriteSuite = Callable[..., Path]
StartCommand = Callable[..., subprocess.Popen[bytes]]
Call = Callable[..., tuple[int, str, str]]
CommandLine = Callable[..., subprocess.CompletedProcess[str]]


def _rewrite(folder: Path, index: int, **changes: Any) -> Row:
    """Change one row of a results folder; returns it as it was."""
    rows = read_rows(folder)
    before = rows[index]
    rows[index] = dataclasses.replace(before, **changes)
    (folder / RESULTS).write_bytes(b"".join(row.to_line() for row in rows))
    return before


def _with(metrics: Mapping[str, float], **changes: float) -> dict[str, float]:
    return {**metrics, **changes}


def test_a_good_folder_passes(played: Path, command_line: CommandLine) -> None:
    done = command_line("validate", played, "--all", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert "replaying 4 of 4 rows\n" in done.stdout
    for row in read_rows(played):
        assert f"equal    {row.label}\n" in done.stdout
    assert "all 4 rows are equal, bit by bit" in done.stdout


@pytest.mark.parametrize("change", [lambda x: x * (1.0 + 1e-6), lambda x: math.nextafter(x, math.inf)])
def test_a_metric_that_was_changed_is_found(
    played: Path, change: Callable[[float], float], command_line: CommandLine
) -> None:
    index = 2
    true = read_rows(played)[index]
    value = true.metrics["goodput_bps"]
    _rewrite(played, index, metrics=_with(true.metrics, goodput_bps=change(value)))
    results = list(replay(read_rows(played), played))
    (wrong,) = [result for result in results if result.differences]
    assert wrong.label == true.label
    assert wrong.differences == {"goodput_bps": (change(value), value)}
    with pytest.raises(ResultMismatch) as caught:
        wrong.raise_if_different()
    assert str(caught.value) == (
        f"{true.label}: does not replay\n  goodput_bps: recorded {change(value)!r}, replayed {value!r}"
    )
    for result in results:
        if result is not wrong:
            result.raise_if_different()


def test_the_command_fails_for_a_changed_metric(played: Path, command_line: CommandLine) -> None:
    true = read_rows(played)[1]
    value = true.metrics["queue_delay_p99_s"]
    _rewrite(played, 1, metrics=_with(true.metrics, queue_delay_p99_s=value * (1.0 + 1e-6)))
    done = command_line("validate", played, "--sample", "0", "--jobs", "1")
    assert done.returncode == 1
    assert f"differs  {true.label}" in done.stdout
    assert done.stdout.count("equal ") == 3
    assert "bit by bit" not in done.stdout
    words = f"queue_delay_p99_s: recorded {value * (1.0 + 1e-6)!r}, replayed {value!r}"
    assert f"error: 1 of 4 rows do not replay\n{true.label}: does not replay\n  {words}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("changes", "differences"),
    [
        ({"total_reward": 1.25}, {"return": (1.25, 1.5)}),
        ({"steps": 11}, {"steps": (11, 12)}),
        ({"metrics": {"goodput_bps": 1.0}}, {"rtt_mean_s": (ABSENT, 2.0)}),
        ({"metrics": {"goodput_bps": 1.0, "rtt_mean_s": 2.0, "new": 3.0}}, {"new": (3.0, ABSENT)}),
        ({"metrics": {"goodput_bps": 3.0, "rtt_mean_s": 4.0}},
         {"goodput_bps": (3.0, 1.0), "rtt_mean_s": (4.0, 2.0)}),
        ({"wall_s": 99.0}, {}),
        ({"decision_ms": 99.0}, {}),
    ],
)  # fmt: skip
def test_every_number_but_the_time_it_took_has_to_be_the_same(
    make_row: MakeRow, changes: dict[str, Any], differences: dict[str, tuple[Any, Any]]
) -> None:
    true = make_row(metrics={"goodput_bps": 1.0, "rtt_mean_s": 2.0})
    result = compare(dataclasses.replace(true, **changes), true)
    assert result.differences == differences
    assert result.other_versions == {}
    if differences:
        with pytest.raises(ResultMismatch) as caught:
            result.raise_if_different()
        for name, (recorded, replayed) in differences.items():
            assert f"{name}: recorded {recorded!r}, replayed {replayed!r}" in str(caught.value)
    else:
        result.raise_if_different()


def test_rows_of_other_versions_pass_if_their_numbers_are_the_same(
    played: Path, command_line: CommandLine
) -> None:
    old = versions() | {"numpy": "1.0.0", "sources": "0" * 16}
    label = _rewrite(played, 0, versions=old).label
    done = command_line("validate", played, "--sample", "0", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert f"equal    {label}  (with other versions)" in done.stdout
    assert done.stdout.count("with other versions") == 1


def test_versions_are_named_where_numbers_differ(make_row: MakeRow) -> None:
    here = versions()
    recorded = make_row(metrics={"goodput_bps": 1.0}, row_versions=here | {"numpy": "1.0.0", "old": "2"})
    result = compare(recorded, make_row(metrics={"goodput_bps": 2.0}))
    assert result.other_versions == {"numpy": ("1.0.0", here["numpy"]), "old": ("2", None)}
    with pytest.raises(ResultMismatch, match="with other versions than it was recorded with") as caught:
        result.raise_if_different()
    assert f"numpy: recorded with 1.0.0, here {here['numpy']}" in str(caught.value)


def test_a_scenario_that_is_not_the_one_of_its_digest_is_found(played: Path) -> None:
    row = read_rows(played)[0]
    queue = {**row.scenario_resolved["queue"], "buffer_bytes": 31_000}
    _rewrite(played, 0, scenario_resolved={**row.scenario_resolved, "queue": queue})
    with pytest.raises(ResultMismatch, match=f"{row.label}: scenario_resolved has the digest"):
        list(replay(read_rows(played), played))


def test_a_seed_that_was_swapped_is_found(played: Path) -> None:
    (row,) = [row for row in read_rows(played) if (row.contender.name, row.seed) == ("reno", 200)]
    (result,) = replay([dataclasses.replace(row, seed=201)], played)
    assert "goodput_bps" in result.differences


def test_a_checkpoint_has_to_be_the_one_of_the_row(make_row: MakeRow, tmp_path: Path) -> None:
    checkpoint = tmp_path / "policy.zip"
    checkpoint.write_bytes(b"as it was")
    row = make_row(
        "ppo",
        transport="paced",
        agent="ppo",
        learned=True,
        checkpoint="policy.zip",
        checkpoint_sha256=file_sha256(checkpoint),
    )
    checkpoint.write_bytes(b"trained again")
    with pytest.raises(ResultMismatch, match=r"tiny / ppo / test seed 200: checkpoint policy\.zip differs"):
        list(replay([row], tmp_path))
    checkpoint.unlink()
    with pytest.raises(SysgymError, match=r"policy\.zip: cannot be read"):
        list(replay([row], tmp_path))


def test_a_row_that_cannot_be_played_is_named(make_row: MakeRow, tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match=r"tiny / gone / test seed 200: cannot be replayed: .*vanished"):
        list(replay([make_row("gone", agent="vanished")], tmp_path))


def test_rows_of_a_users_agent_need_the_very_file(
    write_suite: WriteSuite, agents_file: Path, command_line: CommandLine, tmp_path: Path
) -> None:
    out, sample = tmp_path / "out", ("--sample", "0", "--jobs", "1")
    suite = write_suite('"fragile"', 1)
    assert command_line("bench", suite, "--plugin", agents_file, "--out", out).returncode == 0
    with pytest.raises(SysgymError, match=r"rows need this file, and .* has no file of that name") as lost:
        list(replay(read_rows(out), out))  # the path in a row is not used
    assert str(agents_file) in str(lost.value)

    moved = agents_file.rename(tmp_path / "moved_agents.py")
    found = command_line("validate", out, *sample, "--plugin", moved)
    assert found.returncode == 0, found.stderr
    assert "all 1 rows are equal" in found.stdout

    beside = out / agents_file.name
    beside.write_text(moved.read_text().replace("0.5", "0.6"))
    changed = command_line("validate", out, *sample, "--trust")
    assert changed.returncode == 1
    assert f"{beside}: differs from the file that the rows were made with" in " ".join(changed.stderr.split())
    beside.write_bytes(moved.read_bytes())
    assert command_line("validate", out, *sample, "--trust").returncode == 0


def test_a_sample_has_as_many_pairs_as_it_can(make_row: MakeRow) -> None:
    rows = [
        make_row(contender, seed, name=scenario)
        for scenario in ("one", "two")
        for contender in ("dctcp", "reno", "cubic")
        for seed in range(200, 210)
    ]
    six = choose_rows(rows, 6, seed=1)
    assert len({(row.scenario, row.contender.name) for row in six}) == 6
    pairs = Counter((row.scenario, row.contender.name) for row in choose_rows(rows, 15, seed=1))
    assert sorted(pairs.values()) == [2, 2, 2, 3, 3, 3]
    assert choose_rows(rows, 6, seed=1) == six
    assert choose_rows(rows, 6, seed=2) != six
    assert len({id(row) for row in choose_rows(rows, 59)}) == 59, "no row twice"
    assert choose_rows(rows, None) == rows
    assert choose_rows(rows, 61) == rows


def test_nobody_knows_beforehand_which_rows_are_played(
    make_row: MakeRow, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ResultsFile(tmp_path / "out") as results:
        for seed in range(200, 260):
            results.append(make_row(seed=seed))
    chosen: list[list[int]] = []

    def noted(rows: Sequence[Row], folder: Path, **options: Any) -> Iterator[Replay]:
        chosen.append([row.seed for row in rows])
        return iter(())

    monkeypatch.setattr("sysgym.bench.run.replay.replay", noted)

    def validate(*options: str) -> str:
        code, out, err = call("validate", tmp_path / "out", *options)
        assert code == 0, err
        return out.partition("\n")[0]

    said = [validate(), validate()]
    assert said[0] != said[1]
    assert chosen[0] != chosen[1]
    for line, seeds in zip(said, chosen[:2], strict=True):
        head, _, drawn = line.rpartition(" ")
        assert head == "replaying 10 of 60 rows, chosen with --seed"
        assert validate("--seed", drawn) == line
        assert chosen[-1] == seeds
    for everything in (("--all",), ("--sample", "0")):
        assert validate(*everything) == "replaying 60 of 60 rows"
        assert sorted(chosen[-1]) == list(range(200, 260))


def test_ctrl_c_leaves_validate_and_report_cleanly(
    played: Path, start_command: StartCommand, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compile_for_workers(["congestion"])  # Ctrl-C waits until a function is compiled
    process = start_command("validate", played, "--all", "--jobs", "1")
    deadline_s = time.monotonic() + 60.0
    while "replaying 4 of 4" not in (tmp_path / "stdout").read_text() and time.monotonic() < deadline_s:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert "stopped; rows listed as equal are" in (tmp_path / "stdout").read_text()
    # On a busy machine it ends late, and a hint says so; there is no traceback.
    hint = "\nstopping; a second Ctrl-C ends the process at once\n"
    assert (tmp_path / "stderr").read_text() in ("", hint)

    def interrupted(folder: Path, reference: str | None, **_: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("sysgym.bench.report.write", interrupted)
    code, out, err = call("report", played)
    assert (code, err) == (130, "")
    assert "stopped; the report is not finished; run the same command again" in out


def test_a_folder_without_rows_is_an_error_of_its_own(tmp_path: Path, command_line: CommandLine) -> None:
    done = command_line("validate", tmp_path / "nothing")
    assert done.returncode == 2
    assert "no results.jsonl in this folder" in done.stderr
