"""Parallel environments: PettingZoo's tests, equality with FlowCC, and refusals."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import sysgym
from sysgym.envs.congestion import parallel_env
from sysgym.scenarios.errors import MissingExtra, SysgymError, UnknownName
from tests.envs.congestion.actions import log_rate_action

REGISTERED = sysgym.__version__
SHORT = {"control.episode_steps": 12}


def make(scenario: str = "iroko-dumbbell-1g", **arguments: Any) -> Any:
    overrides = SHORT | arguments.pop("overrides", {})
    return parallel_env(scenario, overrides=overrides, **arguments)


FORMS: list[dict[str, Any]] = [
    {"agents": "flows"},
    {"agents": "flows", "preset": "aurora"},
    {"agents": "flows", "preset": "orca"},
    {"agents": "hosts"},
    {"agents": "hosts", "scenario": "incast-32", "transport": "dctcp"},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_pettingzoo_accepts_it(form: dict[str, Any]) -> None:
    parallel_api_test(make(**form), num_cycles=30)


@pytest.mark.filterwarnings("ignore:No agents present but not all possible_agents")
def test_pettingzoo_accepts_a_number_of_flows_that_varies() -> None:
    """Its test warns of agents that are possible and not there, which is what this is about."""
    env = make("dumbbell-10g", agents="flows")
    parallel_api_test(env, num_cycles=30)
    counts = set()
    for seed in range(8):
        env.reset(seed=seed)
        assert set(env.agents) <= set(env.possible_agents)
        counts.add(len(env.agents))
    assert len(counts) > 1
    assert max(counts) == len(env.possible_agents)


@pytest.mark.parametrize("form", [FORMS[0], FORMS[1], FORMS[3]], ids=str)
def test_pettingzoo_s_seed_test(form: dict[str, Any]) -> None:
    parallel_seed_test(lambda: make(**form), num_cycles=10)


def play(env: Any, actions: Callable[[int, str], float], steps: int = 12, seed: int = 20_005) -> list[Any]:
    env.reset(options={"episode_seed": seed})
    return [
        env.step({agent: np.array([actions(step, agent)], np.float32) for agent in env.agents})
        for step in range(steps)
    ]


def test_fair_rates_give_everybody_the_fair_share() -> None:
    """Two flows over one link at half its rate each: no queue, no loss, equal goodput."""
    env = make(agents="flows", overrides={"control.episode_steps": 30})
    values = {"least": 0.001e9, "line": 1e9}
    half = log_rate_action(0.48e9, values["least"], values["line"])
    last = play(env, lambda step, agent: half, steps=30)[-1]
    metrics = last[4]["flow_0"]["metrics"], last[4]["flow_1"]["metrics"]
    for one in metrics:
        assert one["rate_bps"] == pytest.approx(0.48e9, rel=1e-4)
        assert one["sent_bps"] == pytest.approx(0.48e9, rel=0.01)
        assert one["loss_fraction"] == 0.0
    # The goodput term, less what it costs that packets of two hosts meet at one port.
    assert last[1]["flow_0"] == pytest.approx(0.45, abs=0.04)


def test_one_can_take_from_the_other() -> None:
    env = make(agents="flows", overrides={"control.episode_steps": 40})
    last = play(env, lambda step, agent: 1.0 if agent == "flow_0" else 0.6, steps=40)[-1]
    goodput = [last[4][agent]["metrics"]["goodput_bps"] for agent in ("flow_0", "flow_1")]
    assert goodput[0] > 2.0 * goodput[1]


def test_flows_of_one_host_have_rates_of_their_own() -> None:
    env = make(agents="flows", overrides={"workload.flows_per_pair": 2, "control.episode_steps": 20})
    rates = {"flow_0": -0.5, "flow_1": 0.0, "flow_2": 0.2, "flow_3": -0.9}
    infos = play(env, lambda step, agent: rates[agent], steps=20)[-1][4]
    assert list(infos) == list(rates)
    for agent in rates:
        metrics = infos[agent]["metrics"]
        # A packet more or less in the interval.
        one_packet_bps = 12_000 / metrics["interval_s"]
        assert metrics["sent_bps"] == pytest.approx(metrics["rate_bps"], abs=one_packet_bps)


def test_sharing_the_mean() -> None:
    own = play(make(agents="hosts"), lambda step, agent: 0.3)
    mean = play(make(agents="hosts", sharing="mean"), lambda step, agent: 0.3)
    for alone, together in zip(own, mean, strict=True):
        assert len(set(together[1].values())) == 1
        assert sum(together[1].values()) == pytest.approx(sum(alone[1].values()))


def test_an_agent_alone_is_the_sender_of_flow_cc() -> None:
    """The same scenario and preset give the same numbers in both forms."""
    single: Any = gym.make("sysgym/FlowCC-v0", scenario="flow-1g-1ms", overrides=SHORT).unwrapped
    env = make("flow-1g-1ms", agents="flows")
    assert env.possible_agents == ["flow_0"]
    assert env.observation_space("flow_0") == single.observation_space
    observation, _ = single.reset(options={"episode_seed": 4})
    several, _ = env.reset(options={"episode_seed": 4})
    assert several["flow_0"] == pytest.approx(observation, abs=0.03)
    for _ in range(10):
        action = np.array([0.9], np.float32)
        observation, reward, *_ = single.step(action)
        several, rewards, *_ = env.step({"flow_0": action})
        assert several["flow_0"] == pytest.approx(observation, abs=0.03)
        assert rewards["flow_0"] == pytest.approx(reward, abs=0.03)


@pytest.mark.parametrize(
    ("scenario", "overrides"),
    [
        ("flow-1g-1ms", {"reward.weights": {"loss": 50.0}}),
        ("flow-1g-1ms", {"reward.name": "orca"}),
        ("flow-1g-1ms", {"flow.preset": "aurora", "flow.history": 4}),
        ("aurora-links", {"workload.kind": "long_lived"}),
    ],
)
def test_the_scenario_means_what_it_means_for_flow_cc(scenario: str, overrides: dict[str, Any]) -> None:
    overrides = SHORT | overrides
    single: Any = gym.make("sysgym/FlowCC-v0", scenario=scenario, overrides=overrides).unwrapped
    env = make(scenario, agents="flows", overrides=overrides)
    assert (env.preset, env.reward, env.history) == (single.preset, single.reward, single.history)
    assert env._weights.tolist() == single._weights.tolist()
    single.reset(options={"episode_seed": 4})
    env.reset(options={"episode_seed": 4})
    action = np.array([0.1], np.float32)
    for _ in range(5):
        expected = single.step(action)[-1]["metrics"]["interval_s"]
        found = env.step(dict.fromkeys(env.agents, action))[-1]["flow_0"]["metrics"]["interval_s"]
        assert found == pytest.approx(expected, rel=0.05)


def test_an_interval_follows_the_longest_round_trip_of_all() -> None:
    overrides = {"flow.decision_rtts": 1.0, "workload.flows_per_pair": 2}
    env = make("flow-1g-1ms", agents="flows", overrides=overrides)
    infos = play(env, lambda step, agent: 0.3, steps=6)
    for before, after in pairwise(infos):
        longest_s = max(one["metrics"]["rtt_mean_s"] for one in before[4].values())
        assert after[4]["flow_0"]["metrics"]["interval_s"] == pytest.approx(longest_s, rel=1e-6)


def test_a_reward_of_another_environment_is_refused() -> None:
    with pytest.raises(UnknownName, match="reward of a flow"):
        make(agents="hosts", overrides={"reward.name": "step"})
    assert (
        make(agents="hosts", reward="datacenter", overrides={"reward.name": "step"}).reward.name
        == "datacenter"
    )


def test_an_unknown_option_of_reset_is_refused() -> None:
    with pytest.raises(
        UnknownName, match='no reset option is named "episode_sed"; did you mean "episode_seed"'
    ):
        make().reset(options={"episode_sed": 3})


def test_it_survives_pickling() -> None:
    env = make(agents="flows", history=3)
    again = pickle.loads(pickle.dumps(env))
    one, other = (play(each, lambda step, agent: 0.1 * step) for each in (env, again))
    assert [step[1] for step in one] == [step[1] for step in other]


def test_the_network_is_shown_before_the_warm_up() -> None:
    env = make(agents="flows")
    seen: list[float] = []
    env.before_warmup = lambda network: seen.append(network.now_s)
    env.reset(seed=1)
    assert seen == [0.0]


def test_the_last_step_has_the_episode_and_no_agents_are_left() -> None:
    env = make(agents="flows")
    last = play(env, lambda step, agent: 0.0)[-1]
    assert all(last[3].values())
    assert env.agents == []
    assert 0.5 < last[4]["flow_0"]["episode_metrics"]["jain_index"] <= 1.0
    with pytest.raises(gym.error.ResetNeeded):
        env.step({})


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"scenario": "incast-32"}, SysgymError, 'agents="hosts"'),
        ({"agents": "hosts", "preset": "orca"}, SysgymError, "a host has none"),
        ({"transport": "dctcp"}, SysgymError, "sets its flows' rates itself"),
        ({"agents": "switches"}, UnknownName, "flows"),
        ({"sharing": "all"}, UnknownName, "mean"),
    ],
)
def test_what_cannot_be(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make(**arguments)


@pytest.mark.parametrize("action", [None, np.ones(2, np.float32), np.array([np.nan], np.float32)])
def test_impossible_actions_are_errors(action: Any) -> None:
    env = make(agents="flows")
    env.reset(seed=0)
    actions = {"flow_0": np.zeros(1, np.float32)} | ({} if action is None else {"flow_1": action})
    with pytest.raises(ValueError, match="flow_1"):
        env.step(actions)


def test_without_the_extra_it_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.delitem(sys.modules, "sysgym.envs.congestion.parallel", raising=False)
    with pytest.raises(MissingExtra, match=r"sysgym\[multiagent\]"):
        parallel_env("dumbbell-10g")
