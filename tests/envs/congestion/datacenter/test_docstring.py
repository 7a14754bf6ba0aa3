"""Tables in the class documentation match the code."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.datacenter.observation import DEFAULT_FEATURES, FEATURES
from sysgym.envs.congestion.datacenter.rewards import _REWARDS
from sysgym.scenarios import list_scenarios

DATACENTER_CC = "sysgym/DatacenterCC-v0"
TEXT = inspect.getdoc(DatacenterCC) or ""


def section(heading: str) -> str:
    """Return the text under a heading."""
    return re.split(r"^## ", TEXT.split(f"## {heading}\n")[1], flags=re.M)[0]


def rows(heading: str) -> list[list[str]]:
    """Return the cells of a section's table, without its head."""
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_observation_table_is_the_feature_registry() -> None:
    table = {row[0].strip("` *"): row for row in rows("Observation Space")}
    assert list(table) == list(FEATURES)
    for name, (_, owner, meaning, unit, low, high) in table.items():
        assert owner == ("switch port" if FEATURES[name].scope == "port" else "host")
        assert (meaning, unit) == (FEATURES[name].meaning, FEATURES[name].unit)
        assert (low, high) == ("0", "1")
    assert tuple(name for name, row in table.items() if row[0].endswith("*")) == DEFAULT_FEATURES


def test_every_reward_is_described() -> None:
    described = re.findall(r"`(\w+)`", " ".join(row[0] for row in rows("Rewards")))
    assert sorted(described) == [name for name in sorted(_REWARDS) if not name.startswith("test_only")]


def test_every_argument_is_described() -> None:
    table = {row[0].strip("`"): row[2] for row in rows("Arguments")}
    parameters = inspect.signature(DatacenterCC.__init__).parameters
    assert list(table) == list(parameters)[1:]
    for name, default in table.items():
        if default.startswith("`"):
            assert default.strip("`").strip('"') == str(parameters[name].default)


@pytest.mark.parametrize("info", [info for info in list_scenarios() if info.env_id == DATACENTER_CC])
def test_every_scenario_is_listed(info: Any) -> None:
    assert f"`{info.name}`" in section("Registered Configurations")
