"""Shared policy of hosts: observation, invariance to the order of hosts, and transfer to other networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.agents import make_agent
from sysgym.agents.learned import train
from sysgym.agents.learned.checkpoint import read_checkpoint
from sysgym.agents.learned.congestion.hosts.algorithm import PPO_PATHS
from sysgym.agents.learned.congestion.hosts.rows import HostRows
from sysgym.agents.learned.deploy.distill import Recipe, distill
from sysgym.agents.learned.learning import graph_of
from sysgym.agents.learned.sets.network import SetNet
from sysgym.agents.learned.training.learner import torch_model
from sysgym.agents.protocol import play_episode
from sysgym.envs.congestion.datacenter.datacenter_cc import DatacenterCC
from sysgym.scenarios.errors import SysgymError

INDEX = [
    "queue_delay[h0->s] (share)", "queue_delay[s->h0] (share)", "queue_delay[s->h1] (share)",
    "rate[h0] (fraction)", "rate[h1] (fraction)",
    "rtt[h0] (share)", "rtt[h1] (share)",
]  # fmt: skip
SEEN = np.array([0.1, 0.2, 0.6, 1.0, 0.01, 0.3, 0.4], np.float32)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {"n_steps": 8, "batch_size": 16, "n_epochs": 1}
    return train(
        "ppo_hosts",
        "dumbbell-10g",
        total_steps=32,
        out=tmp_path_factory.mktemp("hosts"),
        n_envs=2,
        overrides={"control.episode_steps": 10},
        hyper_parameters=settings,
    )


def test_rows_of_hosts_and_what_they_share() -> None:
    rows = HostRows(INDEX)
    assert rows.features == ["rate", "rtt", "queue_delay"]
    shape = rows.shape
    assert (shape.n_rows, shape.row_size, shape.context_size) == (2, 4, 2)
    flat = rows(SEEN)
    # exists, rate, rtt, log of the rate (0 for the line's, 1 for the least)
    np.testing.assert_allclose(flat[:4], [1.0, 1.0, 0.3, 0.0])
    np.testing.assert_allclose(flat[4:8], [1.0, 0.01, 0.4, 0.5], rtol=1e-6)
    np.testing.assert_allclose(flat[8:], [0.6, 0.3], rtol=1e-6)  # largest and mean queue
    np.testing.assert_array_equal(rows(np.stack([SEEN, SEEN])), np.stack([flat, flat]))


def test_an_observation_without_hosts_is_refused() -> None:
    with pytest.raises(SysgymError, match="needs features of hosts"):
        HostRows(INDEX[:3])
    with pytest.raises(SysgymError, match="of a single interval"):
        HostRows([*INDEX, *(f"{entry}, t-1" for entry in INDEX)])
    with pytest.raises(SysgymError, match="needs the observation of sysgym/DatacenterCC-v0"):
        HostRows(["latency ratio"])


def test_hosts_that_change_places_change_rates(checkpoint: Path) -> None:
    net = read_checkpoint(checkpoint).policy
    assert net is not None
    env = DatacenterCC(scenario="dumbbell-10g")
    rows = HostRows(env.observation_index)
    rng = np.random.default_rng(0)
    flat = rows(rng.random(len(env.observation_index), dtype=np.float32))
    size, n = rows.shape.row_size, rows.shape.n_rows
    order = rng.permutation(n)
    moved = flat.copy()
    moved[: n * size] = flat[: n * size].reshape(n, size)[order].ravel()
    np.testing.assert_allclose(net(moved), net(flat)[order], rtol=1e-5)


def test_it_plays_networks_of_another_size(checkpoint: Path) -> None:
    agent = make_agent("ppo_hosts", checkpoint=checkpoint)
    env = DatacenterCC(scenario="incast-32", split="test")
    observation, _ = env.reset(seed=1)
    agent.begin(env)
    assert env.action_space.contains(agent.act(observation))
    _, info = play_episode(agent=agent, env=env, seed=1)
    assert info["episode_metrics"]["goodput_bps"] > 0.0


def test_numpy_plays_what_torch_has_learned(checkpoint: Path) -> None:
    found = read_checkpoint(checkpoint)
    assert isinstance(found.policy, SetNet)

    model = torch_model(found)
    rng = np.random.default_rng(1)
    flat = rng.random((5, found.policy.shape.observation_size), dtype=np.float32)
    expected, _ = model.predict(flat, deterministic=True)
    np.testing.assert_allclose(np.clip(found.policy(flat), -1.0, 1.0), expected, atol=1e-5)


def test_other_features_are_refused(checkpoint: Path) -> None:
    agent = make_agent("ppo_hosts", checkpoint=checkpoint)
    env = DatacenterCC(scenario="dumbbell-10g", features=["queue_delay", "rate"])
    env.reset(seed=1)
    with pytest.raises(SysgymError, match="trained on the features"):
        agent.begin(env)


def test_flows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match="one policy for all hosts plays sysgym/DatacenterCC-v0 only"):
        train("ppo_hosts", "flow-1g-1ms", total_steps=1, out=tmp_path)


def test_its_student_is_a_plain_network_that_can_be_exported(checkpoint: Path, tmp_path: Path) -> None:
    teacher = read_checkpoint(checkpoint)
    with pytest.raises(SysgymError, match="distill it first"):
        graph_of(teacher)
    recipe = Recipe((16,), total_steps=60, rounds=2, updates=150, n_envs=2)
    found = distill(teacher, recipe, tmp_path / "student")
    student = read_checkpoint(found.checkpoint)
    assert student.meta.agent == "ppo"
    little = distill(teacher, replace(recipe, updates=1), tmp_path / "little")
    assert found.difference < 0.5 * little.difference
    env = DatacenterCC(scenario="dumbbell-10g", split="test", action_scale="native")
    agent = make_agent("ppo", checkpoint=found.checkpoint)
    observation, _ = env.reset(seed=1)
    agent.begin(env)
    rates = graph_of(student)(observation[None]).action[0]
    np.testing.assert_allclose(agent.act(observation), rates, rtol=1e-6)


SMALL = {"n_steps": 8, "batch_size": 16, "n_epochs": 1}


@pytest.mark.parametrize(("chosen", "fraction"), [({}, 0.9), ({"first_fraction": 0.5}, 0.5)])
def test_ppo_paths_begins_near_the_fair_shares_and_learns_in_short_episodes(
    chosen: dict[str, float], fraction: float, tmp_path: Path
) -> None:
    path = train(
        "ppo_paths",
        "dumbbell-10g",
        total_steps=16,
        out=tmp_path,
        n_envs=2,
        action_scale="linear",
        hyper_parameters={**SMALL, "learning_rate": 1e-9, **chosen},
    )
    meta = read_checkpoint(path).meta
    assert meta.scenario["control"]["episode_steps"] == 60
    assert tuple(meta.env_kwargs["features"]) == PPO_PATHS.features
    env = DatacenterCC(scenario="dumbbell-10g", features=PPO_PATHS.features, action_scale="native")
    observation, _ = env.reset(seed=1)
    for _ in range(3):
        observation, *_ = env.step(np.full(8, 0.2, np.float32))
    agent = make_agent("ppo_paths", checkpoint=path)
    agent.begin(env)
    shares = observation[env.observation_part("fair_rate")]
    assert shares[:4].sum() == pytest.approx(1.0, abs=0.01)
    # The other hosts have nothing to send.
    assert agent.act(observation)[:4] == pytest.approx(fraction * shares[:4], abs=0.03)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"action_scale": "linear", "features": ["rate"]}, "observes queue_delay, .* and no other features"),
        ({}, 'learns on the scale "linear" of rates, got "log"; use --action-scale linear'),
    ],
)
def test_ppo_paths_has_features_and_a_scale_of_its_own(
    tmp_path: Path, chosen: dict[str, Any], message: str
) -> None:
    with pytest.raises(SysgymError, match=message):
        train("ppo_paths", "dumbbell-10g", total_steps=16, out=tmp_path, **chosen)
