"""Records stored with rows: untrusted content, and damaged files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sysgym.bench.contenders import parse_contender
from sysgym.bench.energy import DEFAULT
from sysgym.bench.leaderboard.entries import ENTRY, README, read_entry
from sysgym.bench.plan import make_plan
from sysgym.bench.report.data.curves import PROGRESS
from sysgym.bench.report.folders import check_records
from sysgym.bench.results.records import RUN, read_run
from sysgym.bench.run.milestones import VALIDATION, reached
from sysgym.bench.run.runner import Observer, run_plan
from sysgym.bench.run.training import FINISHED, STARTED, TRAINING_FOLDER
from sysgym.bench.run.training_energy import ENERGY, read_energy
from sysgym.errors import SysgymError
from sysgym.scenarios import load_suite
from sysgym.scenarios.files import parse_json

Call = Callable[..., tuple[int, str, str]]
WriteSuite = Callable[..., Path]

ENTRIES = Path(__file__).parents[4] / "results" / "entries"
SITTING = {"command": "sysgym bench quick", "began": "2026-11-21T18:24:10+00:00"}
DEEP = "[" * 1000 + "]" * 1000

BROKEN_RUNS: dict[str, tuple[str, str]] = {
    "nothing": ("", "not JSON"),
    "half of it": ('{"suite": {"title"', "not JSON"),
    "a list": ("[1]", "expected"),
    "a text for a number": (
        json.dumps({"sittings": [{**SITTING, "wall_s": "long"}]}),
        r"sittings\[0\]\.wall_s is 'long'; expected a number",
    ),
    "a text for a sitting": ('{"sittings": ["x"]}', r"sittings\[0\] is 'x'; expected a table"),
    "a number for sittings": ('{"sittings": 3}', "sittings is 3; expected a list"),
    "true for a count": (json.dumps({"sittings": [{**SITTING, "played": True}]}), r"played is True"),
    "a machine of half a CPU": (
        json.dumps({"sittings": [{**SITTING, "machine": {"cpus": 0.5}}]}),
        r"machine\.cpus is 0\.5; expected a whole number",
    ),
    "a metric that is a tag": (
        json.dumps({"suite": {"metrics": [{"name": "<b>", "label": "b", "direction": "lower"}]}}),
        r"suite\.metrics\[0\]\.name is '<b>'",
    ),
    "a direction that is none": (
        json.dumps({"suite": {"metrics": [{"name": "a", "label": "b", "direction": "up"}]}}),
        r"direction is 'up'; expected one of \"higher\", \"lower\"",
    ),
    "a contender that is a tag": ('{"suite": {"contenders": ["<svg>"]}}', r"contenders\[0\] is '<svg>'"),
    "a scenario that is a path": (
        '{"suite": {"scenarios": {"../x": {"title": "x", "description": "x"}}}}',
        r"suite\.scenarios",
    ),
    "a matrix without pairs": ('{"suite": {"matrix": {"agent": "ppo"}}}', r"matrix\.scenarios is nothing"),
    "a title with an escape": ('{"suite": {"title": "\\u001b[2J"}}', r"suite\.title"),
    "brackets": (DEEP, "brackets are nested more than 64 deep"),
    "an integer of 5,000 digits": ('{"sittings": ' + "9" * 5000 + "}", "an integer of 5000 digits"),
    "a number that is none": ('{"sittings": NaN}', "NaN is not a number of JSON"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN_RUNS)
def test_a_broken_run_is_one_sentence_of_the_report(played: Path, call: Call, what: str) -> None:
    content, words = BROKEN_RUNS[what]
    (played / RUN).write_text(content)
    with pytest.raises(SysgymError, match=rf"run\.json: .*{words}"):
        read_run(played)
    code, out, err = call("report", played)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert len(err) < 600
    assert not (played / "report.html").exists()


class _Notes(Observer):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize("what", BROKEN_RUNS)
def test_a_run_goes_on_beside_a_broken_record_and_keeps_it(
    played: Path, write_suite: WriteSuite, what: str
) -> None:
    (played / RUN).write_text(BROKEN_RUNS[what][0])
    heard = _Notes()
    outcome = run_plan(make_plan(load_suite(write_suite()), played), played, n_workers=1, observer=heard)
    assert (outcome.n_kept, outcome.n_played) == (4, 0)
    (note,) = heard.notes
    assert "the file was moved to run.json.broken, and a new one was begun" in note
    assert (played / "run.json.broken").read_text() == BROKEN_RUNS[what][0]
    assert len(read_run(played)["sittings"]) == 1


BROKEN_TRAININGS: dict[str, tuple[str, str]] = {
    "a list for a start": (STARTED, "[1]"),
    "an agent that is a tag": (STARTED, '{"agent": "<b>", "total_steps": 3}'),
    "steps that are a text": (STARTED, '{"agent": "ppo", "total_steps": "many"}'),
    "a list for energy": (FINISHED, '{"energy": [1]}'),
    "energy below zero": (FINISHED, json.dumps({"energy": DEFAULT.account(-1.0, 1.0)})),
    "points without accounts": (ENERGY, "[[1, 2]]"),
    "points that are a table": (ENERGY, "{}"),
    "points in depth": (ENERGY, DEEP),
    "heuristics that are texts": (VALIDATION, '{"heuristics": {"a": "x"}, "checkpoints": [[1, 2.0]]}'),
    "checkpoints of one number": (VALIDATION, '{"heuristics": {"a": 1.0}, "checkpoints": [[1]]}'),
    "a curve of zeros": (PROGRESS, "total_steps,episode_return_mean\n\0\0,1\n" + "x" * 200_000),
}


@pytest.mark.parametrize("what", BROKEN_TRAININGS)
def test_a_broken_record_of_a_training_is_named(tmp_path: Path, what: str) -> None:
    name, content = BROKEN_TRAININGS[what]
    folder = tmp_path / TRAINING_FOLDER / "ppo-tiny-seed1"
    folder.mkdir(parents=True)
    check_records(tmp_path)
    (folder / name).write_text(content)
    with pytest.raises(SysgymError, match=rf"ppo-tiny-seed1/{name}: "):
        check_records(tmp_path)
    # Who trains does not stop for it.
    assert read_energy(folder) == []
    assert reached(folder) is None


def test_a_folder_with_a_tag_for_a_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / TRAINING_FOLDER / "<img src=x onerror=alert(1)>").mkdir(parents=True)
    with pytest.raises(SysgymError, match="is no name of a training"):
        check_records(tmp_path)


@pytest.mark.parametrize("entry", sorted(ENTRIES.glob("*/*")), ids=lambda path: path.parent.name)
def test_the_entries_of_the_repository_are_in_order(entry: Path) -> None:
    check_records(entry)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("x = " + DEEP, "nested"),
        ("title = 1\n", "title is 1; expected a text"),
        ('title = "a"\nby = "b"\ncontenders = []\n', "contenders is .*; expected at least 1 entries"),
        ('title = "a"\nby = "b"\ncontenders = ["<b>"]\n', r"contenders\[0\] is '<b>'"),
        ('title = "\\u001b[2J"\nby = "b"\ncontenders = ["a"]\n', "title is "),
        ('title = "a"\n' * 2, "Cannot overwrite|over existing|title"),
        ("#" * 1_100_000, "larger than 1 MB"),
        (b"\xff\xfe", "utf-8"),
    ],
    ids=["deep", "number", "nobody", "tag", "escape", "twice", "large", "binary"],
)
def test_a_broken_entry_is_one_sentence(tmp_path: Path, content: str | bytes, words: str) -> None:
    (tmp_path / README).write_text("It is what it is.")
    (tmp_path / ENTRY).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(SysgymError, match=rf"(?s)entry\.toml: .*({words})") as caught:
        read_entry(tmp_path)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", ["my law", "<b>", "a/b", "..", "x" * 121, "-c", "größe"])
def test_a_contender_is_named_before_anything_is_played(name: str) -> None:
    with pytest.raises(SysgymError, match="cannot be the name of a contender: use letters, digits"):
        parse_contender(f"{name}=dctcp")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ('{"a": 1, "a": 2}', 'the key "a" appears twice'),
        ("-Infinity", "-Infinity is not a number"),
        ("1e999", "1e999 exceeds the largest number"),
        ("9" * 21, "an integer of 21 digits"),
        ("[" * 65 + "]" * 65, "nested more than 64 deep"),
        ("[" * 1_000_000, "nested more than 64 deep"),
        (b"\xff\xfe\xfa", "."),
    ],
)
def test_json_is_read_within_limits(text: str | bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_json(text)


def test_json_within_limits_is_what_it_says() -> None:
    data: Any = {"a": [1, -2.5, True, None, "x", {"b": []}], "c": 2**63}
    assert parse_json(json.dumps(data)) == data
    assert parse_json("[" * 64 + "]" * 64)
