"""Heuristics: actions with known values, and their ranking in cases with a known winner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sysgym.agents import make_agent, play_episode
from sysgym.agents.congestion.aimd import AimdAgent
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.envs.congestion.datacenter.paths import paths_of_hosts
from sysgym.scenarios.errors import SysgymError

MakeEnv = Callable[..., Any]


def first_answer(name: str, env: Any, **reset: Any) -> Any:
    """Return what an agent does first in an episode."""
    observation, _ = env.reset(**reset)
    agent = make_agent(name)
    agent.begin(env)
    return agent.act(observation)


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        # Four senders on one core link; receivers send ACKs only and are left alone.
        ("dumbbell-10g", [1 / 4] * 4 + [1.0] * 4),
        ("iroko-dumbbell-1g", [1 / 2] * 2 + [1.0] * 2),
        # All to host 0.
        ("incast-32", [1.0] + [1 / 32] * 32),
    ],
)
def test_fixed_fair_divides_the_bottleneck_among_all(make_env: MakeEnv, scenario: str, expected: Any) -> None:
    env = make_env(scenario, split="test")
    for seed in (20_000, 20_001):
        answer = first_answer("fixed_fair", env, options={"episode_seed": seed})
        assert answer == pytest.approx(np.array(expected), rel=1e-6)


def test_fixed_fair_never_looks_again(make_env: MakeEnv) -> None:
    env, agent = make_env("fattree-k4-websearch"), make_agent("fixed_fair")
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    first = agent.act(observation).copy()
    for _ in range(5):
        observation, *_ = env.step(agent.act(observation))
    assert np.array_equal(agent.act(observation), first)


def test_fixed_fair_gives_a_fraction_of_the_share(make_env: MakeEnv) -> None:
    env = make_env("dumbbell-10g")
    env.reset(seed=0)
    agent = make_agent("fixed_fair", fraction=0.9)
    agent.begin(env)
    assert agent.act(None) == pytest.approx([0.9 / 4] * 4 + [0.9] * 4)
    in_range = "above 0 and at most 1"
    for fraction, expected in ((0.0, in_range), (1.1, in_range), (float("nan"), "a finite number")):
        with pytest.raises(SysgymError, match=f"fraction: expected {expected}"):
            make_agent("fixed_fair", fraction=fraction)


def test_fair_feedback_sends_less_where_there_is_a_queue_on_the_way(make_env: MakeEnv) -> None:
    signals = Signals(make_env("parking-lot-4"))
    agent = make_agent("fair_feedback", fraction=0.8, gain=0.2)
    agent.begin(signals.world)
    without = agent.act(signals.values)
    fair = make_agent("fixed_fair", fraction=0.8)
    fair.begin(signals.world)
    assert without == pytest.approx(fair.act(signals.values))
    port = len(signals.world.fabric.port_names) // 2
    signals.part("queue_delay")[port] = 0.5
    behind = paths_of_hosts(signals.world.network, signals.world.fabric)[:, port]
    assert behind.any()
    assert not behind.all()
    assert agent.act(signals.values) == pytest.approx(without - 0.1 * behind)
    with pytest.raises(SysgymError, match="fraction: expected above 0"):
        make_agent("fair_feedback", fraction=0.0)
    with pytest.raises(SysgymError, match="gain: expected at least 0"):
        make_agent("fair_feedback", gain=-0.1)


class Signals:
    """Observations of aimd's world, written by hand; all hosts are active and nothing is congested."""

    def __init__(self, env: Any) -> None:
        env.reset(seed=0)
        self.world = env.unwrapped
        self.values = np.zeros(self.world.observation_space.shape, np.float32)
        self.part("active")[:] = 1.0

    def part(self, feature: str) -> Any:
        """Return the values of a feature group, to write into."""
        return self.values[self.world.observation_part(feature)]


@pytest.fixture
def aimd(make_env: MakeEnv) -> tuple[AimdAgent, Signals]:
    """An agent at rate 0.5 with steps that are easy to follow, and its signals."""
    env = make_env("dumbbell-10g", history=2)
    signals = Signals(env)
    agent = AimdAgent(increase=0.125, decrease=0.5, delay_limit=0.5, start=0.5)
    agent.begin(env)
    return agent, signals


def test_aimd_adds_without_congestion(aimd: tuple[AimdAgent, Signals]) -> None:
    agent, signals = aimd
    assert agent.act(signals.values) == pytest.approx(np.full(8, 0.625))
    assert agent.act(signals.values) == pytest.approx(np.full(8, 0.75))


def test_aimd_adds_only_where_there_is_something_to_send(aimd: tuple[AimdAgent, Signals]) -> None:
    agent, signals = aimd
    signals.part("active")[[1, 5]] = 0.0
    assert agent.act(signals.values) == pytest.approx([0.625, 0.5, 0.625, 0.625, 0.625, 0.5, 0.625, 0.625])


@pytest.mark.parametrize(
    ("feature", "value", "falls"),
    [("mark_fraction", 0.01, True), ("queue_delay", 0.51, True), ("queue_delay", 0.5, False)],
)
def test_aimd_multiplies_on_marks_and_long_queues(
    aimd: tuple[AimdAgent, Signals], feature: str, value: float, falls: bool
) -> None:
    agent, signals = aimd
    core = signals.world.fabric.port_names.index("west->east")
    signals.part(feature)[core] = value
    # The core link is on the way of the four senders; receivers have no data on it.
    expected = [0.25 if falls else 0.625] * 4 + [0.625] * 4
    assert agent.act(signals.values) == pytest.approx(expected)


def test_aimd_minds_its_own_ways_only(aimd: tuple[AimdAgent, Signals]) -> None:
    agent, signals = aimd
    # The last port on the way of host 2 leads to its receiver and serves nobody else.
    uses = paths_of_hosts(signals.world.network, signals.world.fabric)
    [exit_port] = np.flatnonzero(uses[2] & (uses.sum(axis=0) == 1))
    signals.part("mark_fraction")[exit_port] = 1.0
    expected = np.full(8, 0.625)
    expected[2] = 0.25
    assert agent.act(signals.values) == pytest.approx(expected)


def test_aimd_looks_at_the_newest_interval(aimd: tuple[AimdAgent, Signals]) -> None:
    agent, signals = aimd
    signals.values[signals.world.observation_part("mark_fraction", age=1)] = 1.0
    assert agent.act(signals.values) == pytest.approx(np.full(8, 0.625))


def test_aimd_stays_between_the_lowest_and_the_highest_rate(aimd: tuple[AimdAgent, Signals]) -> None:
    agent, signals = aimd
    for _ in range(10):
        highest = agent.act(signals.values)
    assert highest == pytest.approx(np.ones(8))
    signals.part("mark_fraction")[:] = 1.0
    for _ in range(20):
        lowest = agent.act(signals.values)
    assert lowest[:4] == pytest.approx(np.full(4, 0.001))


def test_aimd_begins_every_episode_anew(make_env: MakeEnv) -> None:
    env, agent = make_env(), AimdAgent()
    returns = [play_episode(env, agent, options={"episode_seed": 5})[0] for _ in range(2)]
    assert returns[0] == returns[1]


def test_max_leaves_the_transport_alone(make_env: MakeEnv) -> None:
    env = make_env("dumbbell-10g", transport="cubic", steps=40)
    play_episode(env, make_agent("max"), options={"episode_seed": 5})
    world = env.unwrapped
    alone = PacketNetwork(world.network.scenario, transport="cubic")
    alone.reset(5)
    for _ in range(40):
        alone.advance(250e-6)
    assert alone.ports().dropped_packets.sum() > 0, "nothing happened that a cap could have prevented"
    assert np.array_equal(world.network.hosts().delivered_bytes, alone.hosts().delivered_bytes)


def test_random_is_random_within_bounds_and_repeats_with_the_episode(make_env: MakeEnv) -> None:
    env, agent = make_env("incast-32"), make_agent("random")

    def rates(seed: int) -> Any:
        observation, _ = env.reset(options={"episode_seed": seed})
        agent.begin(env)
        return np.array([agent.act(observation) for _ in range(50)])

    first = rates(1)
    assert np.array_equal(first, rates(1))
    assert not np.array_equal(first, rates(2))
    assert first.min() >= 0.001
    assert first.max() <= 1.0
    assert first.mean() == pytest.approx(0.5005, abs=0.03)
    assert len(np.unique(first)) > 0.99 * first.size


def test_the_oracle_gives_the_active_flows_their_fair_shares(make_env: MakeEnv) -> None:
    env = make_env(overrides={"workload.start_jitter_s": 0.0, "workload.flows_per_pair": 1})
    agent = make_agent("oracle")
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    # Nobody has begun: everybody gets what it would have if all did.
    assert agent.act(observation) == pytest.approx([0.25] * 4 + [1.0] * 4)
    for _ in range(6):
        observation, *_ = env.step(agent.act(observation))
    assert agent.act(observation) == pytest.approx([0.25] * 4 + [1.0] * 4)
    share_bps = env.unwrapped.network.oracle_rates_bps()[:4] / 10e9
    assert agent.act(observation)[:4] == pytest.approx(share_bps)


def test_the_oracle_divides_among_the_active_only(make_env: MakeEnv) -> None:
    """With starts far apart, those who have begun share the whole link."""
    env = make_env(overrides={"workload.start_jitter_s": 50e-3, "workload.flows_per_pair": 1}, steps=200)
    agent = make_agent("oracle")
    observation, _ = env.reset(seed=3)
    agent.begin(env)
    seen = set()
    for _ in range(200):
        flows = env.unwrapped.network.flows()
        answer = agent.act(observation)
        senders = flows.src[flows.started]
        n_active = len(senders)
        # A packet that waits where ways meet is no queue to be drained.
        if n_active and env.unwrapped.network.ports().queue_bytes.max() <= 1500:
            assert answer[senders] == pytest.approx(np.full(n_active, 1 / n_active))
            seen.add(n_active)
        observation, *_ = env.step(answer)
    assert seen == {1, 2, 3, 4}


def test_the_oracle_lets_queues_drain(make_env: MakeEnv) -> None:
    env = make_env(overrides={"workload.start_jitter_s": 0.0, "workload.flows_per_pair": 1}, steps=40)
    agent = make_agent("oracle")
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    for _ in range(6):
        observation, *_ = env.step(env.action_space.high)
    assert env.unwrapped.network.ports().queue_bytes.max() > 900_000
    assert agent.act(observation)[:4].max() < 0.05
    for _ in range(8):
        observation, *_ = env.step(agent.act(observation))
    assert env.unwrapped.network.ports().queue_bytes.max() < 8 * 1500
    assert agent.act(observation)[:4] == pytest.approx(np.full(4, 0.25), rel=0.05)


def test_the_oracle_knows_the_present_rates_of_links(make_env: MakeEnv) -> None:
    once = {"low": 0.004, "high": 0.004}
    slower = {"link": "west->east", "interval_s": once, "factor": {"low": 0.3, "high": 0.3}}
    env = make_env(
        overrides={
            "workload.start_jitter_s": 0.0, "workload.flows_per_pair": 1, "faults.rate_changes": [slower],
        },
        steps=100,
    )  # fmt: skip
    agent = make_agent("oracle")
    observation, _ = env.reset(seed=0)
    agent.begin(env)
    for _ in range(99):
        observation, *_ = env.step(agent.act(observation))
    network = env.unwrapped.network
    assert network.link_rate_bps.min() == pytest.approx(3e9)
    assert network.ports().queue_bytes.max() < 8 * 1500
    assert agent.act(observation)[:4] == pytest.approx(np.full(4, 0.075), rel=0.05)


@pytest.mark.parametrize("seed", [20_000, 20_001, 20_002])
def test_nobody_is_above_the_oracle_on_a_dumbbell(make_env: MakeEnv, seed: int) -> None:
    env = make_env(split="test", steps=80)
    returns = {
        name: play_episode(env, make_agent(name), options={"episode_seed": seed})[0]
        for name in ("oracle", "fixed_fair", "aimd", "random", "max")
    }
    assert max(returns.values()) == returns["oracle"]
    # What knows the topology beats what has to feel its way, and that beats not looking at all.
    assert returns["fixed_fair"] > returns["aimd"] > max(returns["random"], returns["max"])
