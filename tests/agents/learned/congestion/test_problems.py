"""Learning problems of rates: their arguments, and those taken over from an environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

import sysgym
from sysgym.agents.learned.congestion.problems import FlowRates, rates_like
from sysgym.agents.learned.learning import problem_of
from sysgym.scenarios import load_scenario

REGISTERED = sysgym.__version__


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"history": 1}, {}),
        ({"history": 3}, {"history": 3}),
        ({"preset": "orca", "history": 1}, {"preset": "orca", "history": 1}),
        ({"preset": "orca"}, {"preset": "orca"}),
    ],
)
def test_one_interval_is_the_default_of_training_unless_a_preset_is_named(
    given: dict[str, Any], kept: dict[str, Any]
) -> None:
    assert FlowRates(load_scenario("flow-1g-1ms"), given).env_kwargs == kept


@pytest.mark.parametrize(
    ("env_id", "scenario", "arguments", "scale"),
    [
        ("sysgym/FlowCC-v0", "flow-1g-1ms", {"preset": "aurora", "history": 1}, "linear"),
        ("sysgym/FlowCC-v0", "flow-1g-1ms", {"action_scale": "native"}, "linear"),
        ("sysgym/DatacenterCC-v0", "dumbbell-10g", {"features": ("queue", "active")}, "linear"),
        ("sysgym/DatacenterCC-v0", "dumbbell-10g", {"action_scale": "log", "history": 2}, "log"),
        ("sysgym/DatacenterCC-v0", "dumbbell-10g", {"action_scale": "native", "reward": "queue"}, "linear"),
    ],
)
def test_a_problem_like_an_environment_has_its_spaces(
    env_id: str, scenario: str, arguments: dict[str, Any], scale: str
) -> None:
    loaded = load_scenario(scenario)
    world: Any = gym.make(env_id, scenario=loaded, **arguments).unwrapped
    problem = rates_like(world, loaded)
    assert problem.observation_index() == world.observation_index
    low, high = world.native_bounds
    assert problem.action_meaning() == {"name": scale, "low": low, "high": high}
    assert problem.env_kwargs.get("reward") == arguments.get("reward")
    # A checkpoint's arguments give the same problem again, as distillation needs it.
    chosen = scale if env_id == "sysgym/DatacenterCC-v0" else "log"
    again = problem_of(loaded, problem.env_kwargs, chosen)
    assert again.observation_index() == world.observation_index
