"""Agents of one flow: actions, and their ranking in cases with a known winner."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.agents import make_agent, play_episode
from sysgym.agents.congestion.flow import FlowAimdAgent
from sysgym.scenarios.errors import SysgymError

REGISTERED = sysgym.__version__
SENDERS = ["flow_fixed", "flow_aimd", "flow_oracle", "random", "max"]


def make(scenario: str, steps: int = 100, **arguments: Any) -> Any:
    overrides = {"control.episode_steps": steps} | arguments.pop("overrides", {})
    return gym.make("sysgym/FlowCC-v0", scenario=scenario, overrides=overrides, **arguments)


@pytest.mark.parametrize("name", SENDERS)
@pytest.mark.parametrize(
    ("scenario", "preset"),
    [("aurora-links", "aurora"), ("flow-incast", "datacenter"), ("flow-1g-1ms", "orca")],
)
def test_a_sender_plays_every_preset(name: str, scenario: str, preset: str) -> None:
    env, agent = make(scenario, 12, preset=preset), make_agent(name)
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    for _ in range(12):
        action = agent.act(observation)
        assert env.action_space.contains(action), action
        observation, *_ = env.step(action)


def test_senders_do_not_play_a_whole_network() -> None:
    env = gym.make("sysgym/DatacenterCC-v0", scenario="iroko-dumbbell-1g")
    env.reset(seed=0)
    with pytest.raises(SysgymError, match='"flow_aimd" plays FlowCC, not DatacenterCC'):
        make_agent("flow_aimd").begin(env)


def test_the_fixed_sender_keeps_its_rate() -> None:
    env, agent = make("aurora-links", 20), make_agent("flow_fixed")
    observation, info = env.reset(seed=3)
    agent.begin(env)
    for _ in range(20):
        observation, _, _, _, later = env.step(agent.act(observation))
        assert later["metrics"]["rate_bps"] == pytest.approx(info["metrics"]["rate_bps"])


def test_aimd_adds_and_multiplies() -> None:
    env = make("flow-1g-1ms", 20)
    agent = FlowAimdAgent(increase=0.05, decrease=0.5)
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    calm = np.zeros_like(observation)
    marked = calm.copy()
    marked[0] = 0.01
    env.step(agent.act(calm))
    assert env.unwrapped.sender.rate_bps == pytest.approx(0.55e9, rel=1e-5)
    env.step(agent.act(marked))
    assert env.unwrapped.sender.rate_bps == pytest.approx(0.275e9, rel=1e-5)


@pytest.mark.parametrize("scenario", ["aurora-links", "genet-links", "flow-1g-1ms"])
def test_the_oracle_beats_everybody_on_links_of_its_own(scenario: str) -> None:
    """Alone on a link the fair share is the link, and nothing pays more than that without a queue."""
    returns: dict[str, float] = {name: 0.0 for name in SENDERS}
    for name in SENDERS:
        env = make(scenario, split="test")
        for seed in range(20_000, 20_002):
            returns[name] += play_episode(env, make_agent(name), options={"episode_seed": seed})[0]
    best = max(returns, key=lambda name: returns[name])
    assert best == "flow_oracle", returns


def test_the_oracle_has_its_link_and_no_queue() -> None:
    lossless = {"faults.loss_probability": 0.0}
    env = make("aurora-links", 200, split="test", overrides=lossless)
    info = play_episode(env, make_agent("flow_oracle"), options={"episode_seed": 20_001})[1]
    metrics = info["episode_metrics"]
    assert metrics["fair_share"] == pytest.approx(1.0, abs=0.05)
    assert metrics["queue_delay_mean_s"] < 0.1 * metrics["rtt_mean_s"]


@pytest.mark.parametrize("transport", ["cubic", "dctcp"])
def test_a_law_under_the_highest_action_is_that_law_alone(transport: str) -> None:
    """In Orca's preset too, where the highest action would be four times the window."""
    delivered = []
    for preset in ("datacenter", "orca"):
        env = make("flow-1g-1ms", 50, preset=preset, transport=transport)
        play_episode(env, make_agent("max"), options={"episode_seed": 5})
        delivered.append(env.unwrapped.network.flows().delivered_bytes[0])
    assert delivered[0] == delivered[1] > 4e6
