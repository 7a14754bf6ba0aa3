"""``sysgym submit``: a replayable entry, or a clear error."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sysgym.bench.leaderboard.entries import read_entry
from sysgym.bench.results.rows import RESULTS, ResultsFile, read_rows

Call = Callable[..., tuple[int, str, str]]
WriteSuite = Callable[..., Path]
WHO = ("--title", "Mine", "--by", "Me")


@pytest.fixture
def submit(call: Call, played: Path) -> Call:
    """Submit the results of dctcp and reno."""
    return lambda *options: call("submit", played, *WHO, *options)


def change_run(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change run.json of a folder."""
    data = json.loads((folder / "run.json").read_bytes())
    change(data)
    (folder / "run.json").write_text(json.dumps(data))


def test_it_packs_and_validates(submit: Call, tmp_path: Path, played: Path) -> None:
    # What lies in the current folder has no say in the clean process.
    (tmp_path / "numpy.py").write_text("raise SystemExit('planted')\n")
    code, out, err = submit("--contender", "reno", "--sample", "1")
    assert code == 0, err
    entry = read_entry(tmp_path / "results" / "entries" / "small" / "played")
    assert (entry.title, entry.by, entry.contenders) == ("Mine", "Me", ("reno",))
    assert read_rows(entry.folder) == read_rows(played)
    assert "reno on small; 1 rows replay" in out
    assert "README.md" in out
    assert "scripts/pages/leaderboard.py" in out
    again = submit("--contender", "reno")
    assert again[0] == 2
    assert "exists already" in again[2]


def test_what_does_not_replay_is_taken_away(submit: Call, tmp_path: Path, played: Path) -> None:
    rows = read_rows(played)
    (played / RESULTS).unlink()
    with ResultsFile(played) as results:
        for row in rows:
            metrics = {**row.metrics, "goodput_bps": row.metrics["goodput_bps"] + 1.0}
            results.append(replace(row, metrics=metrics))
    code, _, err = submit("--contender", "reno", "--sample", "0")
    assert code == 1
    assert "its entry does not replay and was deleted" in " ".join(err.split())
    assert "goodput_bps" in err
    assert not list((tmp_path / "results").rglob("*.gz"))


def test_a_users_agent_is_packed_where_its_file_is_given(
    write_suite: WriteSuite, agents_file: Path, call: Call, tmp_path: Path
) -> None:
    out, entry = tmp_path / "out", tmp_path / "entry"
    assert (
        call("bench", write_suite('"fragile"', 1), "--plugin", agents_file, "--out", out, "-j", "1")[0] == 0
    )
    words = ("submit", out, *WHO, "--out", entry, "--sample", "1")
    code, _, err = call(*words, "--trust")
    assert code == 2
    assert "add --plugin FILE" in " ".join(err.split())
    code, _, err = call(*words, "--plugin", agents_file)
    assert code == 0, err
    assert (entry / agents_file.name).read_bytes() == agents_file.read_bytes()


def test_what_cannot_be_submitted_is_said(submit: Call, tmp_path: Path, played: Path) -> None:
    for options, words in (
        ((), "no contender was trained or has a file; choose with --contender: dctcp, reno"),
        (("-c", "cubic"), "no rows of cubic"),
    ):
        code, _, err = submit(*options)
        assert code == 2
        assert words in " ".join(err.split())
    change_run(played, lambda run: run["sittings"][-1].update(missing=3))
    assert "3 episodes are missing" in submit("-c", "reno")[2]
    change_run(played, lambda run: run["suite"].update(name="../../x"))
    assert "suite.name is '../../x'; expected" in submit("-c", "reno")[2]
    (played / "run.json").unlink()
    assert "the record of the run is missing" in submit("-c", "reno")[2]
    assert not (tmp_path / "results").exists()
