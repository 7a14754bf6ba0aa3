"""Plans of benchmarks: every suite of the package has one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sysgym.bench.plan import Extras, make_plan
from sysgym.scenarios import list_suites, load_scenario, load_suite
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
