"""Relative paths in a scenario file are relative to its folder, those of overrides to the current one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sysgym.scenarios import find_scenario, list_scenarios, load_scenario
from sysgym.scenarios.families import scenario_model
from sysgym.scenarios.file_paths import make_absolute


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    """Write a scenario that names a table of operations and is not in the current folder."""
    text = find_scenario("pipeline-gpt").read_text().replace('name = "pipeline-gpt"', 'name = "mine"')
    path = tmp_path / "worlds" / "mine.toml"
    path.parent.mkdir()
    path.write_text(text.replace("[job]\n", '[job]\ntrace = "steps/a.csv"\n'))
    return path


def trace_of(path: Path | str, **overrides: str) -> str:
    trace: str = load_scenario(path, overrides=overrides).resolved()["job"]["trace"]
    return trace


def test_a_path_is_relative_to_the_file(
    traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    beside = traced.parent / "steps" / "a.csv"
    assert trace_of("worlds/mine.toml") == str(beside), "also of a file that is missing, for its message"
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "a.csv").touch()
    assert trace_of(traced) == "steps/a.csv", "as it exists in the current folder only"
    beside.parent.mkdir()
    beside.touch()
    assert trace_of(traced) == str(beside)
    assert trace_of(traced, **{"job.trace": "steps/a.csv"}) == "steps/a.csv"


def test_lists_and_other_paths(tmp_path: Path) -> None:
    paths = ["a", "/b", "~/c", "$SYSGYM_TRACES/d"]
    data = {"jobs": {"kind": "trace", "paths": paths}}
    make_absolute(data, scenario_model("stragglers"), tmp_path)
    assert data["jobs"]["paths"] == [str(tmp_path / "a"), *paths[1:]]


def test_scenarios_of_the_package_do_not_depend_on_their_folder() -> None:
    for info in list_scenarios():
        assert str(info.path.parent) not in str(load_scenario(info.name).resolved()), info.name
