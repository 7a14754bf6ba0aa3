"""``sysgym report``: files and output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sysgym.bench.contenders import parse_contender
from sysgym.bench.results.rows import RESULTS, ResultsFile, Row
from sysgym.bench.run.episodes import EpisodeJob
from sysgym.scenarios import load_scenario

MakeRow = Callable[..., Row]
Call = Callable[..., tuple[int, str, str]]


def test_the_headlines_are_printed_and_both_forms_written(played: Path, call: Call) -> None:
    rows = (played / RESULTS).read_bytes()
    code, out, err = call("report", played)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "tiny"
    assert lines[1].startswith("  Goodput: ")
    assert [str(played / name) for name in ("report.html", "report.md")] == lines[-2:]
    sentence = lines[1].strip()
    assert sentence in (played / "report.html").read_text()
    assert sentence in (played / "report.md").read_text()
    assert (played / RESULTS).read_bytes() == rows, "a report reads"


def test_the_reference_is_of_those_who_played(played: Path, call: Call) -> None:
    assert call("report", played)[0] == 0
    assert "difference to dctcp on the same seeds" in (played / "report.md").read_text()
    assert call("report", played, "--reference", "reno")[0] == 0
    assert "difference to reno on the same seeds" in (played / "report.md").read_text()
    code, out, err = call("report", played, "--reference", "renno")
    assert (code, out) == (2, "")
    assert 'did you mean "reno"' in err


def test_names_on_the_screen_are_only_names(
    make_row: MakeRow, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Rows with such names are refused; the screen does not rely on that.
    monkeypatch.setattr("sysgym.bench.results.rows.check_row", lambda data: None)
    with ResultsFile(tmp_path / "out") as results:
        for seed in range(200, 206):
            results.append(make_row("[red]dctcp[/red]", seed))
    code, out, _ = call("report", tmp_path / "out")
    assert code == 0
    assert "Goodput: [red]dctcp[/red] with 9.50" in out


def test_episodes_that_play_are_those_of_the_rows(call: Call, tmp_path: Path) -> None:
    scenario = load_scenario("burst-plan")
    seed = scenario.splits["test"].first_seed
    rows = []
    for name in ("data_parallel", "dynamic_program"):
        contender = parse_contender(name, family=scenario.family, env_id=scenario.env_id)
        job = EpisodeJob(scenario.resolved(), scenario.sha256(), "test", contender, seed, str(tmp_path))
        rows.append(job.run(lambda _: None))
    for folder, own in (
        ("good", rows),
        ("edited", [replace(row, total_reward=row.total_reward + 1) for row in rows]),
    ):
        with ResultsFile(tmp_path / folder) as results:
            for row in own:
                results.append(row)
    code, _, err = call("report", tmp_path / "good", "--live")
    assert (code, err) == (0, "")
    page = (tmp_path / "good" / "live" / "burst-plan-test.html").read_text()
    assert "<title>burst-plan: data_parallel and dynamic_program</title>" in page
    words = f"Watch data_parallel and dynamic_program in the episode of seed {seed}"
    report = (tmp_path / "good" / "report.html").read_text()
    assert f'<a href="live/burst-plan-test.html">{words}</a>' in report
    assert "(live/burst-plan-test.html)" in (tmp_path / "good" / "report.md").read_text()
    code, _, err = call("report", tmp_path / "edited", "--live")
    assert code == 0
    assert "no live page of burst-plan: " in err
    assert "does not replay" in err
    assert not (tmp_path / "edited" / "live").exists()
    assert "live/" not in (tmp_path / "edited" / "report.html").read_text()


@pytest.mark.parametrize("command", ["report", "validate"])
def test_a_broken_line_is_named(command: str, played: Path, call: Call) -> None:
    path = played / RESULTS
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"hello\n" + lines[1])
    code, out, err = call(command, played)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {path}, line 2: ")


@pytest.mark.parametrize("command", ["report", "validate"])
def test_a_run_in_which_no_one_played_is_an_error_of_its_own(
    command: str, call: Call, tmp_path: Path
) -> None:
    (tmp_path / RESULTS).touch()
    code, out, err = call(command, tmp_path)
    assert (code, out) == (2, "")
    assert "the file has no rows" in err
