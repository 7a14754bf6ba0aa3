"""The environments of contenders."""

from __future__ import annotations

from typing import Any

import pytest

from sysgym.bench.contenders import parse_contender
from sysgym.bench.run import episodes
from sysgym.bench.run.episodes import make_contender
from sysgym.envs.rewards import Reward
from sysgym.scenarios import load_scenario


class Trained:
    """An agent that was trained with a reward of its own."""

    name = "trained"

    def __init__(self, reward: Any) -> None:
        self.env_kwargs = {"reward": reward, "overrides": {"problem.axes_max": 2}}


@pytest.mark.parametrize("reward", ["own", Reward("own", lambda outcome, weights: {"nothing": 0.0})])
def test_a_row_s_return_is_by_the_scenario_s_reward(monkeypatch: pytest.MonkeyPatch, reward: Any) -> None:
    monkeypatch.setattr(episodes, "make_agent", lambda *_, **__: Trained(reward))
    resolved = load_scenario("placement-unseen").resolved()
    env, _ = make_contender(resolved, "test", parse_contender("default", family="placement"))
    world: Any = env.unwrapped
    assert world.reward.name == resolved["reward"]["name"] == "default"
    assert world.scenario.problem.axes_max == 2  # what it needs in order to play is kept
