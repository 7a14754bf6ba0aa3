"""The classes' documentation keeps its promises: all sections, and tables that match the code."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from sysgym.envs.placement import observation
from sysgym.envs.placement.joint import JointPlacement
from sysgym.envs.placement.placement import CollectivePlacement
from sysgym.envs.placement.program import ReductionProgram
from sysgym.scenarios import list_scenarios, load_scenario

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
COLUMNS = {
    CollectivePlacement: {
        "levels": observation.LEVEL_COLUMNS,
        "axes": observation.AXIS_COLUMNS,
        "reductions": observation.REDUCTION_COLUMNS,
        "next": observation.NEXT_COLUMNS,
    },
    ReductionProgram: {
        "levels": observation.SPAN_COLUMNS,
        "progress": observation.PROGRESS_COLUMNS,
    },
    JointPlacement: {
        "candidates": observation.CANDIDATE_COLUMNS,
        "budget": observation.BUDGET_COLUMNS,
    },
}
every = pytest.mark.parametrize("cls", list(COLUMNS))


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


@every
def test_all_sections_in_order(cls: Any) -> None:
    assert re.findall(r"^## (.*)$", inspect.getdoc(cls) or "", flags=re.M) == HEADINGS


@every
def test_the_observation_tables_are_the_columns(cls: Any) -> None:
    found = tables(cls, "Observation Space")
    for key, columns in COLUMNS[cls].items():
        assert found.pop(f"Column of `{key}`") == [
            [f"`{name}`", one.meaning, one.unit] for name, one in columns.items()
        ]
    shapes = {row[0].strip("`"): row[1] for row in found.pop("Key")}
    assert found == {}
    env = cls()
    k = env.scenario.joint.candidates if cls is JointPlacement else -1
    expected = {
        name: str(box.shape).replace(f"({2 * k},", "(2K,").replace(f"({k},", "(K,")
        for name, box in env.observation_space.items()
    }
    assert shapes == expected
    for key, columns in COLUMNS[cls].items():
        assert env.observation_space[key].shape[-1] == len(columns)


@every
def test_the_number_of_actions_is_told(cls: Any) -> None:
    told = re.search(r"`Discrete\(([\w ]+)\)`", section(cls, "Action Space"))
    assert told
    env = cls()
    expected = "2 K" if cls is JointPlacement else str(env.action_space.n)
    assert told[1] == expected


@every
def test_every_reward_is_described_with_its_terms(cls: Any) -> None:
    described = {row[0].strip("`"): row[1] for row in tables(cls, "Rewards")["Name"]}
    assert list(described) == list(cls.REWARDS)
    for name, reward in cls.REWARDS.items():
        assert re.findall(r"`(\w+)`:", described[name]) == list(reward.weights)


@every
def test_every_argument_is_described(cls: Any) -> None:
    table = {row[0].strip("`"): row[2] for row in tables(cls, "Arguments")["Parameter"]}
    parameters = inspect.signature(cls.__init__).parameters
    assert list(table) == list(parameters)[1:]
    for name, default in table.items():
        assert default.strip("`").strip('"') == str(parameters[name].default)


@pytest.mark.parametrize("info", [info for info in list_scenarios() if info.family == "placement"])
def test_every_scenario_is_listed_where_it_is_played(info: Any) -> None:
    env_id = load_scenario(info.name).env_id
    listing = [cls for cls in COLUMNS if f"`{info.name}`" in section(cls, "Registered Configurations")]
    assert [cls.__name__ for cls in listing] == [env_id.removeprefix("sysgym/").removesuffix("-v0")]
