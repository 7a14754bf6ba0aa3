"""MultiJobPlacement: masks, slowdowns, pictures, and equal episodes from equal seeds."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from sysgym.envs.placement.jobs_observation import JOB_COLUMNS, NODE_COLUMNS
from sysgym.envs.placement.metrics import JOBS_METRICS, JOBS_STEP_METRICS
from sysgym.envs.placement.multijob import MultiJobPlacement
from sysgym.scenarios.errors import ScenarioError

Rollout = Callable[..., list[Any]]
Digest = Callable[[list[Any]], str]
JOB = {name: index for index, name in enumerate(JOB_COLUMNS)}
NODE = {name: index for index, name in enumerate(NODE_COLUMNS)}


def make(scenario: str = "multi-job-small", **arguments: Any) -> MultiJobPlacement:
    env = gym.make("sysgym/MultiJobPlacement-v0", scenario=scenario, split="test", **arguments).unwrapped
    assert isinstance(env, MultiJobPlacement)
    return env


def test_equal_seeds_give_equal_episodes_and_it_can_be_pickled(rollout: Rollout, digest: Digest) -> None:
    env = make()
    expected = digest(rollout(env, seed=3, episodes=3))
    assert digest(rollout(make(), seed=3, episodes=3)) == expected
    assert digest(rollout(pickle.loads(pickle.dumps(env)), seed=3, episodes=3)) == expected
    assert digest(rollout(make(), seed=4, episodes=3)) != expected


def test_every_metric_is_reported_and_described(rollout: Rollout) -> None:
    step: set[str] = set()
    episode: set[str] = set()
    for observation, *rest in rollout(make("multi-job-unseen"), seed=0, episodes=2):
        info = rest[-1]
        step |= info["metrics"].keys()
        episode |= info.get("episode_metrics", {}).keys()
        assert np.array_equal(info["action_mask"], observation["action_mask"])
        assert all(type(value) is float for value in info.get("episode_metrics", {}).values())
    assert (step, episode) == (set(JOBS_STEP_METRICS), set(JOBS_METRICS))


def test_blocks_go_where_they_are_put_and_are_observed() -> None:
    env = make()
    observation, _ = env.reset(options={"episode_seed": 20_000})
    jobs, inside = env.system.jobs, env.system.hierarchy.cardinalities[-1]
    assert observation["jobs"][:, JOB["exists"]].sum() == len(jobs)
    assert observation["nodes"][:, NODE["exists"]].sum() == env.counts.shape[1]
    placed = 0
    over = False
    while not over:
        row = env.current
        assert observation["jobs"][:, JOB["current"]].argmax() == row
        allowed = np.flatnonzero(env.action_masks())
        assert np.all(env.free[allowed] >= jobs[row].block_devices)
        node = int(allowed[-1])
        before = env.counts.copy()
        observation, reward, over, _, info = env.step(node)
        placed += 1
        before[row, node] += 1
        assert np.array_equal(env.counts, before)
        sizes = np.array([job.block_devices for job in jobs])
        free = 1.0 - sizes @ env.counts / inside
        assert observation["nodes"][: len(free), NODE["free"]] == pytest.approx(free)
    assert placed == sum(job.blocks for job in jobs)
    metrics = info["episode_metrics"]
    assert metrics["mean_slowdown"] == pytest.approx(env.system.slowdowns(env.counts).mean())
    assert reward == pytest.approx(np.log(metrics["default_slowdown"] / metrics["mean_slowdown"]), abs=1e-9)
    assert metrics["worst_slowdown"] >= metrics["mean_slowdown"]
    assert not observation["jobs"][:, JOB["current"]].any()


def test_a_forbidden_action_ends_the_episode_with_the_default() -> None:
    env = make()
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(int(np.flatnonzero(~env.action_masks())[-1]))
    assert (reward, terminated) == (-1.0, True)
    metrics = info["episode_metrics"]
    assert (metrics["valid"], metrics["speedup"]) == (0.0, 1.0)
    assert metrics["mean_slowdown"] == metrics["default_slowdown"]


def test_three_levels_are_seen() -> None:
    levels = [
        {"name": name, "cardinality": size, "bandwidth_bytes_per_s": rate, "latency_s": 1e-6}
        for name, size, rate in (("pod", 2, 1e10), ("node", 2, 1e10), ("gpu", 8, 1e11))
    ]
    system = {"system.source": "levels", "system.preset": None, "system.nodes": 1, "system.levels": levels}
    env = make(overrides=system)
    env.reset(seed=0)
    observation, *_ = env.step(0)
    row = env.current
    share = observation["nodes"][:4, NODE["own_near"]]
    if env.counts[row].sum():
        assert share == pytest.approx([1 / env.system.jobs[row].blocks] * 2 + [0.0] * 2)
    observation, *_ = env.step(int(np.flatnonzero(env.action_masks())[-1]))
    assert env.counts.shape[1] == 4
    if (env.counts[0] > 0).sum() == 2 and len(env.system.jobs) > 0:
        assert observation["nodes"][0, NODE["use_near"]] > 0.0


def test_it_is_drawn_and_told() -> None:
    env = make(render_mode="ansi")
    env.reset(options={"episode_seed": 20_001})
    assert "blocks placed" in str(env.render())
    over = False
    while not over:
        _, _, over, _, _ = env.step(int(np.flatnonzero(env.action_masks())[0]))
    text = str(env.render())
    assert "mean slowdown" in text
    assert "job 0" in text
    assert "node 0" in text
    picture = make(render_mode="rgb_array")
    picture.reset(options={"episode_seed": 20_001})
    image = picture.render()
    assert isinstance(image, np.ndarray)
    assert image.ndim == 3
    assert image.dtype == np.uint8
    assert image.std() > 1.0


def test_a_scenario_without_jobs_is_an_error() -> None:
    with pytest.raises(ScenarioError, match=r"jobs[\s\S]*a table of jobs"):
        make("p2-systems")
