"""Search for linear policies over hosts: its episodes, resuming, transfer and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.agents import make_agent
from sysgym.agents.learned import train
from sysgym.agents.learned.checkpoint import read_checkpoint
from sysgym.agents.learned.congestion.evolution import CURVE
from sysgym.agents.learned.congestion.hosts import search
from sysgym.agents.learned.congestion.hosts.linear import linear_net, linear_rates
from sysgym.agents.learned.congestion.hosts.search import Search, Worlds
from sysgym.agents.learned.deploy.distill import Recipe, distill
from sysgym.agents.learned.sets.network import SetNet, SetShape
from sysgym.agents.protocol import play_episode
from sysgym.envs.action_scale import ActionScale
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.envs.congestion.datacenter.observation import PATH_FEATURES
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError

FAIR_RATE = [0.0, 0.0, 0.0, 0.0, 1.0]
STEPS_A_GENERATION = 8 * 4 * 5
"""Of eight candidates, in four episodes."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> CongestionScenario:
    """Iroko's dumbbell in five decisions."""
    monkeypatch.setattr(search, "EPISODES_A_VALIDATION", 2)
    scenario = load_scenario("iroko-dumbbell-10m", overrides={"control.episode_steps": 5})
    assert isinstance(scenario, CongestionScenario)
    return scenario


def test_the_network_of_a_linear_policy_has_its_rates() -> None:
    rng = np.random.default_rng(0)
    shape = SetShape(n_rows=6, row_size=5, context_size=0, heads=1)
    weights, rows = rng.uniform(-1.0, 1.0, 5), rng.random((3, 6, 5)).astype(np.float32)
    rows[:, :, 0] = 1.0
    scale = ActionScale("linear", 0.01, 0.8)
    net = linear_net(weights, shape, scale)
    expected = linear_rates(np.repeat(weights[None], 3, axis=0), rows)
    assert expected[1, 2] == pytest.approx(rows[1, 2] @ weights)
    got = scale.rates(net(rows.reshape(3, -1)))
    assert got == pytest.approx(np.clip(expected, 0.01, 0.8), abs=1e-6)


def test_a_policy_has_the_return_in_the_search_that_its_checkpoint_has(
    small: CongestionScenario, tmp_path: Path
) -> None:
    path = train("cma_paths", small, total_steps=1, out=tmp_path)
    meta, policy = read_checkpoint(path).meta, read_checkpoint(path).policy
    assert isinstance(policy, SetNet)
    worlds = Worlds(small, "validation", 2)
    half = 0.5 * (worlds.scale.high - worlds.scale.low)
    weights = half * policy.encoder.weights[0][0].astype(np.float64)
    weights[0] += half + worlds.scale.low
    found = worlds.returns(np.array([weights, FAIR_RATE]), [0, 1])
    env = DatacenterCC(scenario=small, split="validation", action_scale="native", **meta.env_kwargs)
    total, _ = play_episode(env, make_agent("cma_paths", checkpoint=path), seed=0)
    assert found[0] == pytest.approx(total / 5, rel=1e-5)
    fair = DatacenterCC(scenario=small, split="validation", action_scale="native")
    total, _ = play_episode(fair, make_agent("fixed_fair"), seed=1)
    assert found[1] == pytest.approx(total / 5, rel=1e-5)


def test_it_finds_a_better_policy(small: CongestionScenario, tmp_path: Path) -> None:
    """From half of the fair rates, which leave links empty."""
    longer = small.with_overrides({"control.episode_steps": 20})
    half = {"first_fraction": 0.5, "sigma": 0.1}
    path = train("cma_paths", longer, total_steps=6400, out=tmp_path, seed=1, hyper_parameters=half)
    worlds = Worlds(longer, "test", 4)
    env = DatacenterCC(scenario=longer, split="test", action_scale="native", features=PATH_FEATURES)
    agent = make_agent("cma_paths", checkpoint=path)
    found = [play_episode(env, agent, seed=seed)[0] / 20 for seed in range(4)]
    first = worlds.returns(0.5 * np.array([FAIR_RATE] * 4), list(range(4)))
    assert np.mean(found) > first.mean() + 0.2


def test_a_stopped_search_goes_on_as_if_it_had_not_been(
    small: CongestionScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: dict[str, Any] = {"seed": 3, "total_steps": 2 * STEPS_A_GENERATION}
    whole = read_checkpoint(train("cma_paths", small, out=tmp_path / "whole", **arguments))
    assert whole.meta.total_steps == 2 * STEPS_A_GENERATION
    generation = Search.generation

    def stops(self: Search, worlds: Worlds) -> float:
        if self.steps > 0:
            raise KeyboardInterrupt
        return generation(self, worlds)

    arguments["out"] = tmp_path / "parts"
    with monkeypatch.context() as patched:
        patched.setattr(Search, "generation", stops)
        with pytest.raises(KeyboardInterrupt):
            train("cma_paths", small, **arguments)
    with pytest.raises(SysgymError, match="holds a run already"):
        train("cma_paths", small, **arguments)
    with pytest.raises(SysgymError, match="the search there has a different seed"):
        train("cma_paths", small, **{**arguments, "seed": 4}, resume=True)
    other = {**arguments, "hyper_parameters": {"sigma": 0.1}}
    with pytest.raises(SysgymError, match="has a different sigma"):
        train("cma_paths", small, **other, resume=True)
    parts = read_checkpoint(train("cma_paths", small, **arguments, resume=True))
    assert isinstance(parts.policy, SetNet)
    assert isinstance(whole.policy, SetNet)
    assert parts.policy.to_bytes() == whole.policy.to_bytes()
    assert len((tmp_path / "parts" / CURVE).read_text().splitlines()) == 3


def test_it_plays_a_network_of_another_size(small: CongestionScenario, tmp_path: Path) -> None:
    agent = make_agent("cma_paths", checkpoint=train("cma_paths", small, total_steps=1, out=tmp_path))
    env = DatacenterCC(scenario="iroko-fattree-10m", action_scale="native", features=PATH_FEATURES)
    observation, _ = env.reset(seed=1)
    agent.begin(env)
    assert agent.act(observation) == pytest.approx(
        0.9 * observation[env.observation_part("fair_rate")], abs=0.1
    )


def test_what_it_cannot_learn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match='"cma_paths" learns in scenarios of sysgym/DatacenterCC-v0 only'):
        train("cma_paths", "flow-1g-1ms", total_steps=1, out=tmp_path)
    for name in ("sigma", "first_fraction"):
        with pytest.raises(SysgymError, match=f"{name} is -1.0; expected a positive number"):
            train(
                "cma_paths", "iroko-dumbbell-10m", total_steps=1, out=tmp_path, hyper_parameters={name: -1.0}
            )


def test_its_student_is_a_plain_network(small: CongestionScenario, tmp_path: Path) -> None:
    teacher = read_checkpoint(train("cma_paths", small, total_steps=1, out=tmp_path / "teacher"))
    found = distill(
        teacher, Recipe((8,), total_steps=20, rounds=1, updates=50, n_envs=2), tmp_path / "student"
    )
    student = read_checkpoint(found.checkpoint)
    assert student.meta.agent == "ppo"
    assert student.meta.hyper_parameters == {"net_arch": [8]}
