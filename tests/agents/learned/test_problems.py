"""Settings that a family's training does not have are refused, with what sets them instead."""

from __future__ import annotations

from typing import Any

import pytest

from sysgym.agents.learned.learning import problem_of
from sysgym.agents.learned.problems import refuse_settings
from sysgym.scenarios import list_scenarios, load_scenario
from sysgym.scenarios.errors import SysgymError

OTHERS = sorted({info.family: info.name for info in list_scenarios() if info.family != "congestion"}.values())


@pytest.mark.parametrize("name", OTHERS)
def test_a_reward_is_set_in_the_scenario(name: str) -> None:
    scenario = load_scenario(name)
    expected = (
        r"no choice of reward, got \'other\'; set it in the scenario: --set reward\.name=other, in Python"
        r' overrides=\{"reward\.name": "other"\}'
    )
    with pytest.raises(SysgymError, match=expected):
        refuse_settings(scenario, {"reward": "other"}, "log")
    # That key exists: with the reward's own name nothing changes.
    own: Any = scenario
    assert scenario.with_overrides({"reward.name": own.reward.name}).sha256() == scenario.sha256()


@pytest.mark.parametrize(
    ("settings", "scale", "expected"),
    [
        ({"history": 2}, "log", "no choice of history, got 2$"),
        ({"features": ["queue"]}, "log", r"no choice of features, got \['queue'\]$"),
        ({}, "linear", "no choice of action_scale, got 'linear'$"),
    ],
)
def test_other_settings_do_not_exist(settings: dict[str, Any], scale: str, expected: str) -> None:
    with pytest.raises(SysgymError, match=expected):
        refuse_settings(load_scenario("compression-drift"), settings, scale)


def test_a_problem_has_the_reward_of_its_scenario() -> None:
    scenario = load_scenario("compression-drift", overrides={"reward.name": "saved"})
    problem: Any = problem_of(scenario, {}, "log")
    assert problem.make_env().unwrapped.reward.name == "saved"
