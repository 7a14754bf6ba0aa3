"""``sysgym/CollectiveSynthesis-v0``: checkers, steps, rewards, the end of episodes, schedules of others."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_with_gymnasium
from stable_baselines3.common.env_checker import check_env as check_with_sb3

import sysgym
from sysgym.emulator.collectives.checking import check_schedule
from sysgym.emulator.collectives.schedule import Plan, Schedule
from sysgym.envs.collectives.metrics import EPISODE_METRICS, STEP_METRICS
from sysgym.scenarios import list_scenarios
from sysgym.scenarios.errors import ScenarioError, SysgymError

Rollout = Callable[..., list[Any]]
Digest = Callable[[list[Any]], str]

REGISTERED = sysgym.__version__
ENV_ID = "sysgym/CollectiveSynthesis-v0"
SHIPPED = [info.name for info in list_scenarios("collectives")]
FAULTS = {"faults.slow_cables": 2, "faults.failed_cables": 1}


def make(**arguments: Any) -> Any:
    return gym.make(ENV_ID, **arguments).unwrapped


@pytest.mark.parametrize("scenario", SHIPPED)
def test_both_checkers_accept_every_shipped_scenario(scenario: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_with_gymnasium(make(scenario=scenario), skip_render_check=True)
        check_with_sb3(make(scenario=scenario))
    messages = [str(warning.message) for warning in caught]
    assert [text for text in messages if "unconventional shape" not in text] == []


@pytest.mark.parametrize(
    "operation", ["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast"]
)
def test_any_choice_of_candidates_performs_the_collective(operation: str, rollout: Rollout) -> None:
    changes = {"collective.operation": operation, "collective.group_fraction": 0.6}
    for topology in ("mesh-2x3", "nodes-2x2", "dgx1-1"):
        env = make(overrides={"system.topology": topology, **changes, **FAULTS})
        for seed in range(2):
            trace = rollout(env, action_seed=seed, seed=seed)
            assert all(env.observation_space.contains(observation) for observation, *_ in trace)
            check_schedule(env.schedule)
            metrics = trace[-1][4]["episode_metrics"]
            assert metrics["time_s"] == env.schedule.time_s
            assert metrics["bound_s"] <= metrics["time_s"] * (1 + 1e-9)
            assert metrics["transfers"] == env.schedule.n_transfers <= len(trace) - 1


def test_the_return_is_minus_the_time_over_the_bound(rollout: Rollout) -> None:
    for split in ("train", "test"):
        env = make(scenario="collectives-unseen", split=split, overrides={"system.topology": "nodes-2x3"})
        for seed in range(3):
            trace = rollout(env, seed=seed)
            metrics = trace[-1][4]["episode_metrics"]
            total = sum(reward for _, reward, *_ in trace[1:])
            assert total == pytest.approx(-metrics["time_s"] / metrics["bound_s"])


def test_the_other_reward_is_the_regret_at_the_end(rollout: Rollout) -> None:
    trace = rollout(make(reward="regret"), seed=4)
    *before, last = [reward for _, reward, *_ in trace[1:]]
    assert set(before) == {0.0}
    assert last == -trace[-1][4]["episode_metrics"]["regret"]


def test_returned_types_are_pythons_and_metrics_are_described(rollout: Rollout) -> None:
    env = make()
    for observation, *rest in rollout(env, seed=0, episodes=2):
        info = rest[-1]
        assert set(info["metrics"]) == set(STEP_METRICS)
        assert all(type(value) is float for value in info["metrics"].values())
        assert np.array_equal(info["action_mask"], observation["action_mask"])
        assert (
            info["metrics"]["allowed"] == info["action_mask"].sum() == observation["candidates"][:, 0].sum()
        )
        if len(rest) == 1:
            continue  # what reset returned
        reward, terminated, truncated, _ = rest
        assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
        assert reward == sum(info["reward_terms"].values())
        assert ("episode_metrics" in info) == terminated
        if terminated:
            assert set(info["episode_metrics"]) == set(EPISODE_METRICS)
            assert all(type(value) is float for value in info["episode_metrics"].values())
            assert info["action_mask"].sum() == 0


def test_a_forbidden_action_ends_the_episode_and_the_schedule_is_completed() -> None:
    env = make(overrides={"system.topology": "ring-4", "collective.operation": "all_reduce"})
    env.reset(seed=1)
    row = int(np.flatnonzero(~env.action_masks())[0])
    _, reward, terminated, _, info = env.step(row)
    assert terminated
    assert info["episode_metrics"]["valid"] == 0.0
    assert info["reward_terms"]["invalid"] == -1.0
    check_schedule(env.schedule)
    assert reward == pytest.approx(-1.0 - info["episode_metrics"]["time_s"] / env.bound_s)
    assert "not valid" in env._text()


@pytest.mark.parametrize("scenario", SHIPPED)
@pytest.mark.parametrize("before", [0, 5])
def test_a_forbidden_action_is_worse_than_the_first_and_the_last_candidates(
    scenario: str, before: int
) -> None:
    regrets = {}
    for choice in ("forbidden", "first", "last"):
        env = make(scenario=scenario, split="test")
        env.reset(options={"episode_seed": 20_001})
        rewards = []
        while env.outcome is None:
            allowed = np.flatnonzero(env.action_masks())
            row = int(allowed[-1 if choice == "last" else 0])
            if choice == "forbidden" and env.steps == before:
                # With all rows taken no action is forbidden; this is what one would do.
                env._mask[row] = False
            _, reward, _, _, info = env.step(row)
            rewards.append(reward)
        metrics = info["episode_metrics"]
        regrets[choice] = metrics["regret"]
        assert metrics["valid"] == (choice != "forbidden")
        invalid = 0.0 if metrics["valid"] else 1.0
        assert sum(rewards) == pytest.approx(-metrics["time_s"] / metrics["bound_s"] - invalid)
        assert metrics["busbw_bps"] > 0.0
        assert 0.0 < metrics["link_use_fraction"] <= 1.0 + 1e-9
        if choice == "forbidden":
            one_by_one_s = float(env.task.durations_s[env.schedule.hops].sum())
            assert metrics["time_s"] == pytest.approx(one_by_one_s)
            assert env.schedule.time_s <= one_by_one_s
    assert regrets["forbidden"] > regrets["first"]
    assert regrets["forbidden"] >= regrets["last"] - 1e-9


def test_candidates_are_what_a_transfer_of_them_does() -> None:
    env = make(scenario="collectives-unseen", overrides={"system.topology": "nodes-2x3"})
    observation, _ = env.reset(seed=3)
    arrivals = []
    for _ in range(12):
        allowed = int(observation["action_mask"].sum())
        assert np.all(np.diff(observation["candidates"][:allowed, 3]) >= 0), "sorted by arrival"
        assert not observation["candidates"][allowed:].any()
        row = allowed // 2
        increase = float(observation["candidates"][row, 4]) * env.task.mean_duration_s
        before_s = env.time_s
        observation, reward, *_ = env.step(row)
        assert env.time_s - before_s == pytest.approx(increase, rel=1e-5, abs=1e-9)
        assert reward == pytest.approx(-increase / env.bound_s, rel=1e-5, abs=1e-7)
        arrivals.append(env.time_s)
    assert arrivals == sorted(arrivals)


def test_schedules_of_others_are_played_transfer_by_transfer() -> None:
    sound = {"collective.chunks": 1, "faults.slow_cables": 0, "faults.failed_cables": 0}
    env = make(overrides={"system.topology": "ring-4", "collective.operation": "all_gather", **sound})
    env.reset(seed=0)
    hops = env.task.hops.fastest
    around = [((d - step) % 4, hops[d, (d + 1) % 4]) for step in range(3) for d in range(4)]
    env.follow([Plan.of(around)])
    for _ in around:
        assert env.action_masks().sum() == 1
        *_, info = env.step(0)
    assert info["episode_metrics"]["time_s"] == Schedule.of_plans(env.task, [Plan.of(around)]).time_s
    assert info["episode_metrics"]["regret"] == pytest.approx(np.log(1.5)), (
        "one way around: three steps, not two"
    )
    env.reset(seed=0)
    for plans, words in (
        ([], "expected 1 plans before the first step, got 0"),
        ([Plan.of(around[4:])], "chunk 3 over hop .*: the sender does not have it"),
    ):
        with pytest.raises(SysgymError, match=words):
            env.follow(plans)
    env.reset(seed=0)
    env.follow([Plan.of(around[:2])])
    env.step(0)
    with pytest.raises(SysgymError, match="the plan ends while 10 chunks are lacking"):
        env.step(0)


def test_it_can_be_pickled_in_the_middle(rollout: Rollout, digest: Digest) -> None:
    env = make(scenario="collectives-unseen", overrides={"system.topology": "mesh-2x3"})
    again = pickle.loads(pickle.dumps(env))
    assert digest(rollout(again, seed=1)) == digest(rollout(env, seed=1))


def test_files_of_other_tools_are_systems(tmp_path: Any, rollout: Rollout) -> None:
    pytest.importorskip("yaml")
    path = tmp_path / "three.yml"
    path.write_text(
        "topology: [FullyConnected, Switch]\nnpus_count: [3, 2]\nbandwidth: [50, 25]\nlatency: [500, 700]\n"
    )
    changes = {"system.topology": "file", "system.file": str(path)}
    env = make(overrides=changes)
    assert rollout(env, seed=0)[-1][4]["episode_metrics"]["n_devices"] == 6.0
    with pytest.raises(ScenarioError, match="a path with topology"):
        make(overrides={"system.topology": "file"})


@pytest.mark.parametrize("topology", ["torus-2x2x3", "leaf-spine-2x2x2", "dgx1-1"])
def test_pictures_and_texts_of_any_state(topology: str) -> None:
    env = make(
        overrides={"system.topology": topology, "collective.operation": "all_reduce"}, render_mode="rgb_array"
    )
    env.reset(seed=0)
    empty = env.render()
    assert empty.shape[2] == 3
    assert empty.dtype == np.uint8
    over = False
    while not over:
        over = env.step(0)[2]
    done = env.render()
    assert (empty != done).any() if empty.shape == done.shape else True
    env.render_mode = "ansi"
    text = env.render()
    assert "all-reduce of 1 GB over" in text
    assert "times the bound" in text
