"""Plans of benchmarks: every suite of the package has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sysgym.bench.plan import make_plan
from sysgym.scenarios import list_suites, load_suite


@pytest.mark.parametrize("name", [info.name for info in list_suites()])
def test_every_suite_of_the_package_can_be_played(name: str, tmp_path: Path) -> None:
    """Its keys, scenarios, contenders, metrics, seeds and trainings are what ``sysgym bench`` accepts."""
    suite = load_suite(name)
    plan = make_plan(suite, tmp_path)
    assert {cell.scenario.name for cell in plan.cells} >= {task.scenario for task in suite.tasks}
    assert len(plan.trainings) == len(suite.training)
    assert {cell.training for cell in plan.cells} - {None} <= set(plan.trainings)
