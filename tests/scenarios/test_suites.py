"""Suites: valid ones, and errors for invalid ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sysgym.scenarios import ContenderSpec, list_suites, load_suite
from sysgym.scenarios.errors import NOTHING, ScenarioError, UnknownName

SUITE = """\
schema = 1
name = "mine"
title = "Mine"
description = "A suite for tests."

[[training]]
agent = "ppo"
scenario = "incast-32"
total_steps = 1000
hyper_parameters = { learning_rate = 3e-4, n_steps = 128, net = [64, 64] }

[[tasks]]
scenario = "incast-32"
contenders = ["reno", { name = "slow", transport = "paced", agent = "aimd" }, "ppo"]
seeds = { first = 20000, count = 3 }

[[tasks]]
scenario = "dumbbell-10g"
split = "validation"
contenders = ["reno"]
seeds = [10000, 10007]

[[metrics]]
name = "goodput_bps"
direction = "higher"
label = "Goodput"
"""


def _write(folder: Path, *replacements: tuple[str, str]) -> Path:
    text = SUITE
    for old, new in replacements:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_a_suite_says_who_plays_what(tmp_path: Path) -> None:
    suite = load_suite(_write(tmp_path))
    incast, dumbbell = suite.tasks
    assert incast.contender_names == ("reno", "slow", "ppo")
    assert incast.contenders[1] == ContenderSpec(name="slow", transport="paced", agent="aimd")
    assert incast.seed_values == (20_000, 20_001, 20_002)
    assert (incast.split, dumbbell.split) == ("test", "validation")
    assert dumbbell.seed_values == (10_000, 10_007)
    (training,) = suite.training
    assert training.hyper_parameters == {"learning_rate": 3e-4, "n_steps": 128, "net": (64, 64)}
    assert (training.seed, training.n_envs) == (0, 1)
    (metric,) = suite.metrics
    assert (metric.direction, metric.label) == ("higher", "Goodput")


def test_seeds_of_a_training_stand_for_as_many_entries(tmp_path: Path) -> None:
    suite = load_suite(_write(tmp_path, ("total_steps = 1000\n", "total_steps = 1000\nseeds = [3, 1]\n")))
    assert [(one.seed, one.total_steps) for one in suite.training] == [(3, 1000), (1, 1000)]
    with pytest.raises(ScenarioError, match="once"):
        load_suite(_write(tmp_path, ("total_steps = 1000\n", "total_steps = 1000\nseeds = [3, 3]\n")))
    with pytest.raises(ScenarioError, match="no_steps"):
        load_suite(_write(tmp_path, ("total_steps = 1000\n", "no_steps = 1000\nseeds = [3, 1]\n")))


@pytest.mark.parametrize("wrong", ["seeds = [1]\nseed = 1", "seeds = 3", "seeds = []"])
def test_seeds_of_another_form_are_refused(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="seeds"):
        load_suite(_write(tmp_path, ("total_steps = 1000\n", f"total_steps = 1000\n{wrong}\n")))


def test_paths_of_scenarios_are_relative_to_the_suite(
    tmp_path: Path, minimal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "worlds").mkdir()
    (tmp_path / "worlds" / "mine.toml").write_text(minimal)
    path = _write(
        tmp_path,
        ('scenario = "dumbbell-10g"', 'scenario = "worlds/mine.toml"'),
        ("[10000, 10007]", "[10, 11]"),
    )
    monkeypatch.chdir("/")
    assert load_suite(path).tasks[1].scenario == str(tmp_path / "worlds" / "mine.toml")


def test_suites_of_the_environment_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suites").mkdir()
    _write(tmp_path / "suites")
    monkeypatch.setenv("SYSGYM_SCENARIO_PATH", str(tmp_path))
    assert load_suite("mine").title == "Mine"
    assert "mine" in [info.name for info in list_suites()]


def test_unknown_suite() -> None:
    with pytest.raises(UnknownName) as caught:
        load_suite("quik")
    assert caught.value.suggestion == "quick"


WRONG: dict[str, tuple[str, str, str, Any, str]] = {
    "unknown key": ("total_steps", "steps", "training[0].steps", 1000, "a key of [training[0]]"),
    "missing key": ("total_steps = 1000\n", "", "training[0].total_steps", NOTHING, "a whole number"),
    "unknown scenario": (
        '"dumbbell-10g"',
        '"dumbell-10g"',
        "tasks[1].scenario",
        "dumbell-10g",
        "a scenario (",
    ),
    "seeds outside the split": (
        "[10000, 10007]",
        "[10000, 20007]",
        "tasks[1].seeds",
        [20007],
        "seeds of the split validation of dumbbell-10g: [10000, 10999]",
    ),
    "seed twice": ("[10000, 10007]", "[10000, 10000]", "tasks[1].seeds", [10000, 10000], "each one once"),
    "no seeds": ("[10000, 10007]", "[]", "tasks[1].seeds", [], "at least 1 entries"),
    "seeds of another form": ("[10000, 10007]", '"all"', "tasks[1].seeds", "all", "a table or a list"),
    "seed that is no number": ("[10000, 10007]", '["x"]', "tasks[1].seeds[0]", "x", "a whole number"),
    "count misspelt": (
        "count = 3",
        "cuont = 3",
        "tasks[0].seeds.cuont",
        3,
        "a key of [tasks[0].seeds]: first, count",
    ),
    "too many seeds": ("count = 3", "count = 0", "tasks[0].seeds.count", 0, "at least 1"),
    "past the last seed": (
        "first = 20000",
        "first = 2_147_483_647",
        "tasks[0].seeds.count",
        3,
        "seeds up to 2147483647",
    ),
    "contender without agent": (
        ', agent = "aimd"',
        "",
        "tasks[0].contenders[1].agent",
        NOTHING,
        "a text in quotes (agent",
    ),
    "contender twice": (
        '"ppo"]',
        '"slow"]',
        "tasks[0].contenders",
        ["reno", "slow", "slow"],
        "each one once",
    ),
    "contender of another form": ('"ppo"]', "3]", "tasks[0].contenders[2]", 3, "a text in quotes or a table"),
    "unknown split": (
        '"validation"',
        '"valid"',
        "tasks[1].split",
        "valid",
        'one of "train", "validation", "test"',
    ),
    "direction": ('"higher"', '"up"', "metrics[0].direction", "up", 'one of "higher", "lower"'),
    "hyper-parameter of another form": (
        "[64, 64]",
        "[[64]]",
        "training[0].hyper_parameters.net[0]",
        [64],
        "true or false",
    ),
    "task twice": (
        'scenario = "dumbbell-10g"\nsplit = "validation"',
        'scenario = "incast-32"',
        "tasks[1]",
        "incast-32 test",
        "once",
    ),
    "wrong stem": ('"mine"', '"yours"', "name", "yours", '"mine"'),
}


@pytest.mark.parametrize(("old", "new", "key", "got", "expected"), WRONG.values(), ids=WRONG.keys())
def test_wrong_suite(old: str, new: str, key: str, got: object, expected: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_suite(_write(tmp_path, (old, new)))
    problem = next((problem for problem in caught.value.problems if problem.key == key), None)
    assert problem is not None, str(caught.value)
    assert problem.got == got
    assert expected in problem.expected
    assert problem.line is not None
    assert str(tmp_path / "mine.toml") in str(caught.value)


def test_broken_scenario_in_a_suite_is_reported_as_its_own(tmp_path: Path, minimal: str) -> None:
    (tmp_path / "world.toml").write_text(minimal)
    path = _write(tmp_path, ('scenario = "dumbbell-10g"', 'scenario = "./world.toml"'))
    with pytest.raises(ScenarioError) as caught:
        load_suite(path)
    assert caught.value.path == str(path)
    assert caught.value.key == f"{tmp_path / 'world.toml'}: name"


def test_all_problems_of_a_suite_and_its_scenarios_are_told_at_once(tmp_path: Path, minimal: str) -> None:
    (tmp_path / "one.toml").write_text(minimal.replace("buffer_bytes", "bufer_bytes"))
    (tmp_path / "two.toml").write_text(minimal.replace("load = 0.4", "load = 4.0"))
    path = _write(
        tmp_path,
        ('name = "mine"', 'name = "yours"'),
        ('scenario = "dumbbell-10g"', 'scenario = "./one.toml"'),
        ('scenario = "incast-32"\ncontenders', 'scenario = "./two.toml"\ncontenders'),
        ('scenario = "incast-32"\ntotal', 'scenario = "inkast-32"\ntotal'),
        ('direction = "higher"', 'direction = "up"'),
    )
    with pytest.raises(ScenarioError) as caught:
        load_suite(path)
    keys = {problem.key for problem in caught.value.problems}
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    assert {"metrics[0].direction", "name", "training[0].scenario"} <= keys
    assert {f"{one}: queue.bufer_bytes", f"{one}: name", f"{two}: workload.load"} <= keys


def test_metrics_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SUITE[: SUITE.index("[[metrics]]")])
    assert load_suite(path).metrics == ()
