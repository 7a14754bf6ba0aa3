"""Presets and rewards as objects: the user's own, by name and as objects, and errors."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

import sysgym
from sysgym.envs.congestion.flow import presets
from sysgym.envs.congestion.flow.intervals import FlowInterval
from sysgym.envs.congestion.flow.presets import (
    PRESETS,
    REWARDS,
    Feature,
    FlowReward,
    Preset,
    register_flow_reward,
    register_preset,
)
from sysgym.envs.congestion.flow.presets.datacenter import DATACENTER, ask, decide
from sysgym.envs.congestion.flow.presets.orca import ORCA
from sysgym.scenarios.errors import SysgymError

REGISTERED = sysgym.__version__
SHORT = {"control.episode_steps": 5}


def observe(interval: FlowInterval, out: NDArray[np.float32]) -> None:
    """Write the goodput, and whether anything was lost."""
    out[0] = min(interval.goodput_bps / interval.line_rate_bps, 1.0)
    out[1] = 1.0 if interval.lost_bps > 0.0 else 0.0


def pay(interval: FlowInterval, weights: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Pay for goodput alone."""
    out[0] = weights[0] * interval.goodput_bps / interval.line_rate_bps


GREEDY = FlowReward("greedy", ("goodput",), pay, {"goodput": 2.0})
SHARE = Preset(
    name="share",
    features=(
        Feature("goodput", "payload delivered", "fraction of the line rate", 0.0, 1.0),
        Feature("lossy", "whether packets were lost", "0 or 1", 0.0, 1.0),
    ),
    observe=observe,
    decide=decide,
    ask=ask,
    reward=GREEDY,
    history=3,
)


def make(**arguments: Any) -> Any:
    return gym.make("sysgym/FlowCC-v0", scenario="flow-1g-1ms", overrides=SHORT, **arguments).unwrapped


def test_a_preset_of_ones_own() -> None:
    env = make(preset=SHARE)
    assert env.observation_space.shape == (6,)
    assert env.observation_index[0] == "goodput, this interval [fraction of the line rate]"
    env.reset(seed=0)
    for _ in range(4):
        observation, reward, _, _, info = env.step(env.sender.action_toward(0.5e9))
    goodput = info["metrics"]["goodput_bps"] / 1e9
    assert goodput == pytest.approx(0.5 * 1460 / 1500, rel=0.05)
    assert observation[:2] == pytest.approx([goodput, 0.0])
    assert reward == pytest.approx(2.0 * goodput)
    assert info["reward_terms"] == {"goodput": reward}


def test_a_reward_of_ones_own() -> None:
    env = make(reward=GREEDY)
    env.reset(seed=0)
    *_, info = env.step(np.ones(1, np.float32))
    assert list(info["reward_terms"]) == ["goodput"]
    assert env.preset is DATACENTER


def test_registered_ones_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "PRESETS", dict(PRESETS))
    monkeypatch.setattr(presets, "REWARDS", dict(REWARDS))
    assert register_preset(SHARE) is SHARE
    register_preset(SHARE)  # the same file may be read twice
    assert make(preset="share").preset is SHARE
    assert make(reward="greedy").reward is GREEDY
    with pytest.raises(SysgymError, match='the preset "share" exists already'):
        register_preset(replace(SHARE, history=4))
    with pytest.raises(SysgymError, match='"orca" exists already'):
        register_flow_reward(replace(ORCA.reward, weights={}))


def test_the_vector_form_and_copies_take_it() -> None:
    vector = gym.make_vec(
        "sysgym/FlowCC-v0",
        num_envs=2,
        vectorization_mode="vector_entry_point",
        scenario="flow-1g-1ms",
        preset=SHARE,
        overrides=SHORT,
    )
    vector.reset(seed=4)
    observations, rewards, *_ = vector.step(np.full((2, 1), 0.5, np.float32))
    alone = make(preset=SHARE)
    alone.reset(seed=5)
    copy = pickle.loads(pickle.dumps(alone))
    for env in (alone, copy):
        observation, reward, *_ = env.step(np.full(1, 0.5, np.float32))
        np.testing.assert_array_equal(observations[1], observation)
        assert rewards[1] == reward
    vector.close()


def misspelt(interval: Any, out: Any) -> None:
    """Name a field that there is not."""
    out[0] = interval.goodput


def out_of_bounds(interval: Any, out: Any) -> None:
    """Write a third feature."""
    out[2] = interval.goodput_bps


def test_what_cannot_be_compiled_is_named() -> None:
    with pytest.raises(SysgymError, match=r"misspelt .*test_presets.py:\d+\) cannot be compiled: .*goodput"):
        make(preset=replace(SHARE, observe=misspelt))


def test_what_a_preset_raises_comes_out() -> None:
    env = make(preset=replace(SHARE, observe=out_of_bounds))
    with pytest.raises(IndexError):
        env.reset(seed=0)
