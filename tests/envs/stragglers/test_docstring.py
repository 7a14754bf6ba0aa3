"""The classes' documentation keeps its promises: all sections, and tables that match the code."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from sysgym.envs.stragglers.mitigation import StragglerMitigation
from sysgym.envs.stragglers.observation import JOB_COLUMNS, TASK_COLUMNS
from sysgym.envs.stragglers.prediction import StragglerPrediction
from sysgym.scenarios import list_scenarios

HEADINGS = [
    "Description",
    "Action Space",
    "Observation Space",
    "Rewards",
    "Starting State",
    "Episode End",
    "Arguments",
    "Info",
    "Registered Configurations",
    "Baselines",
    "References",
    "Version History",
]
both = pytest.mark.parametrize("cls", [StragglerPrediction, StragglerMitigation])


def section(cls: Any, heading: str) -> str:
    """Return the text under a heading."""
    return re.split(r"^## ", inspect.getdoc(cls).split(f"## {heading}\n")[1], flags=re.M)[0]  # type: ignore[union-attr]


def tables(cls: Any, heading: str) -> dict[str, list[list[str]]]:
    """Return a section's tables by their first heading, rows of cells."""
    found: dict[str, list[list[str]]] = {}
    for table in re.findall(r"(?:^\|.*\n?)+", section(cls, heading), flags=re.M):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        found[rows[0][0]] = rows[2:]
    return found


@both
def test_all_sections_in_order(cls: Any) -> None:
    assert re.findall(r"^## (.*)$", inspect.getdoc(cls) or "", flags=re.M) == HEADINGS


@both
def test_the_observation_tables_are_the_columns(cls: Any) -> None:
    found = tables(cls, "Observation Space")
    for heading, columns in (("Column of `tasks`", TASK_COLUMNS), ("Column of `job`", JOB_COLUMNS)):
        assert found[heading] == [[f"`{name}`", one.meaning, one.unit] for name, one in columns.items()]
    shapes = {row[0].strip("`"): row[1] for row in found["Key"]}
    n, c = 400, 15
    expected = {
        name: str(box.shape).replace(str(n), "N").replace(str(2 * c), "2C")
        for name, box in cls().observation_space.items()
    }
    assert shapes == expected


@both
def test_every_reward_is_described_with_its_terms(cls: Any) -> None:
    described = {row[0].strip("`"): row[1] for row in tables(cls, "Rewards")["Name"]}
    assert list(described) == list(cls.REWARDS)
    for name, reward in cls.REWARDS.items():
        terms = re.findall(r"`(\w+)`:", described[name])
        assert terms == list(reward.weights)


@both
def test_every_argument_is_described(cls: Any) -> None:
    table = {row[0].strip("`"): row[2] for row in tables(cls, "Arguments")["Parameter"]}
    parameters = inspect.signature(cls.__init__).parameters
    assert list(table) == list(parameters)[1:]
    for name, default in table.items():
        assert default.strip("`").strip('"') == str(parameters[name].default)


@both
@pytest.mark.parametrize("info", [info for info in list_scenarios() if info.family == "stragglers"])
def test_every_scenario_is_listed(cls: Any, info: Any) -> None:
    assert f"`{info.name}`" in section(cls, "Registered Configurations")
