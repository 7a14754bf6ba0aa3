"""Plans of benchmarks: every suite of the package has one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sysgym.bench.plan import Extras, Plan, make_plan
from sysgym.bench.plugins import Plugin
from sysgym.bench.run.runner import run_plan
from sysgym.bench.run.training import Training
from sysgym.errors import SysgymError
from sysgym.scenarios import TrainingSpec, list_suites, load_scenario, load_suite
from tests.agents.learned.trust.policies import write_policy


@pytest.mark.parametrize("name", [info.name for info in list_suites()])
def test_every_suite_of_the_package_can_be_played(name: str, tmp_path: Path) -> None:
    """Its keys, scenarios, contenders, metrics, seeds and trainings are what ``sysgym bench`` accepts."""
    suite = load_suite(name)
    plan = make_plan(suite, tmp_path)
    assert {cell.scenario.name for cell in plan.cells} >= {task.scenario for task in suite.tasks}
    assert len(plan.trainings) == len(suite.training)
    assert {cell.training for cell in plan.cells} - {None} <= set(plan.trainings)


def test_the_checkpoint_of_an_added_contender_is_relative_to_the_current_folder(
    write_suite: Callable[..., Path], tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, out = load_scenario(tiny), tmp_path / "out"
    outside = write_policy(tmp_path / "mine" / "final.zip", scenario, seed=1)
    inside = write_policy(out / "mine" / "final.zip", scenario, seed=1)
    monkeypatch.chdir(tmp_path)
    extras = Extras(contenders=["ppo@mine/final.zip", "own=ppo@out/mine/final.zip"])
    plan = make_plan(load_suite(write_suite()), Path("out"), extras)
    played = {cell.contender.name: cell.contender for cell in plan.cells}
    assert played["ppo"].checkpoint_path(Path("out")) == outside
    assert played["own"].checkpoint == "mine/final.zip"
    assert (tmp_path / (played["own"].checkpoint_path(Path("out")) or "")).samefile(inside)


GRID = '"dctcp", { name = "gentle", transport = "swift", agent = "max", grid = { beta = [0.4, 0.8] } }'


def names(plan: Plan, scenario: str) -> set[str]:
    return {cell.contender.name for cell in plan.cells if cell.scenario.name == scenario}


def test_tasks_of_one_scenario_have_constants_of_their_own(
    write_suite: Callable[..., Path], tmp_path: Path
) -> None:
    """They play different splits, and neither may choose on the other's episodes."""
    suite = write_suite(GRID)
    text = suite.read_text()
    begin, end = text.index("[[tasks]]"), text.index("[[metrics]]")
    test = text[begin:end] + 'constants = { split = "validation", episodes = 1 }\n'
    validation = test.replace("first = 200", "first = 100").replace('"validation"', '"train"')
    suite.write_text(text[:begin] + test + validation + 'split = "validation"\n' + text[end:])
    plan = make_plan(load_suite(suite), tmp_path)
    tuned = {cell.split: plan.tunings[cell.tuning] for cell in plan.cells if cell.tuning is not None}
    assert {split: tuning.split for split, tuning in tuned.items()} == {
        "test": "validation",
        "validation": "train",
    }
    assert len({tuning.file for tuning in tuned.values()}) == 2


def test_contenders_of_an_added_scenario(
    write_suite: Callable[..., Path], tiny: Path, tmp_path: Path
) -> None:
    """Constants are chosen for it, the package's policies play it, and another family is refused."""
    suite = write_suite(GRID)
    other = tiny.with_name("other.toml")
    other.write_text(tiny.read_text().replace('name = "tiny"', 'name = "other"'))
    text = suite.read_text()
    suite.write_text(text.replace("[[metrics]]", "constants = { episodes = 1 }\n\n[[metrics]]", 1))
    plan = make_plan(load_suite(suite), tmp_path, Extras(scenarios=[str(other)], contenders=["neural"]))
    assert names(plan, "other") == {"dctcp", "gentle", "neural"}
    (cell, *_) = [one for one in plan.cells if (one.scenario.name, one.contender.name) == ("other", "gentle")]
    assert cell.tuning is not None
    assert plan.tunings[cell.tuning].scenario["name"] == "other"
    with pytest.raises(SysgymError, match='tuning-buckets: the suite "small" has no contender for it'):
        make_plan(load_suite(suite), tmp_path, Extras(scenarios=["tuning-buckets"]))


def test_a_training_belongs_to_the_users_files_that_define_it(tiny: Path, tmp_path: Path) -> None:
    scenario = load_scenario(tiny)
    spec = TrainingSpec(agent="ppo", scenario=str(tiny), total_steps=100)

    def identity(plugin: Plugin) -> object:
        return Training.from_spec(spec, scenario, tmp_path, [plugin]).identity()

    environment = frozenset({scenario.env_id})
    defines = [Plugin("quiet.py", digest, frozenset(), frozenset(), environment) for digest in ("a", "b")]
    assert identity(defines[0]) != identity(defines[1])
    other = Plugin("law.py", "c", frozenset({"law"}), frozenset())
    assert identity(other) == Training.from_spec(spec, scenario, tmp_path).identity()


def test_trainings_are_compared_with_heuristics_whose_constants_are_chosen(
    write_suite: Callable[..., Path], tmp_path: Path
) -> None:
    training = """validation_episodes = 1
[[training]]
agent = "ppo"
scenario = "./tiny.toml"
total_steps = 64
n_envs = 1
hyper_parameters = { n_steps = 64, batch_size = 64, n_epochs = 1 }
"""
    suite = write_suite(GRID + ', "ppo"', n_seeds=1, training=training)
    text = suite.read_text()
    suite.write_text(text.replace("[[metrics]]", "constants = { episodes = 1 }\n\n[[metrics]]", 1))
    plan = make_plan(load_suite(suite), tmp_path)
    (before,) = plan.milestones
    assert before.tunings == {"gentle": next(iter(plan.tunings))}
    assert run_plan(plan, tmp_path).complete
    (tuning,) = plan.tunings.values()
    (trained,) = (one.finished() for one in plan.trainings.values())
    tuned = tuning.finished()
    assert tuned is not None
    assert trained is not None
    assert not before.with_constants({tuning.name: tuning.chosen(tuned)}).missing(trained)
    assert before.missing(trained), "it was made with constants that were not chosen"
