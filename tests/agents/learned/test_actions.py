"""Between a policy's output and rates: bounds, order and the middle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sysgym.agents.learned.actions import SCALES, ActionScale, ScaledActions
from sysgym.scenarios.errors import UnknownName

MakeEnv = Callable[..., Any]

LOWS = st.floats(2.0**-20, 0.5, width=32)
OUTPUTS = arrays.arrays(np.float32, st.integers(1, 20), elements=st.floats(-1e3, 1e3, width=32))


@given(st.sampled_from(SCALES), LOWS, st.floats(0.5, 1.0, width=32), OUTPUTS)
def test_rates_are_within_bounds_and_in_order(name: str, low: float, high: float, output: Any) -> None:
    rates = ActionScale(name, low, high).rates(output)
    assert rates.dtype == np.float32
    assert rates.shape == output.shape
    assert rates.min() >= np.float32(low)
    assert rates.max() <= np.float32(high)
    assert np.all(np.diff(rates[np.argsort(output)]) >= 0.0)


@given(st.sampled_from(SCALES), LOWS, st.floats(0.5, 1.0, width=32))
def test_the_ends_are_exact(name: str, low: float, high: float) -> None:
    scale = ActionScale(name, low, high)
    ends = np.array([low, high], np.float32)
    assert np.array_equal(scale.rates(np.array([-1.0, 1.0])), ends)
    assert np.array_equal(scale.rates(np.array([-7.0, 7.0])), ends)
    assert np.array_equal(scale.rates(np.array([-np.inf, np.inf])), ends)


@given(LOWS, st.floats(-1.0, 0.9), st.floats(0.01, 0.1))
def test_equal_steps_are_equal_factors_or_equal_differences(low: float, start: float, step: float) -> None:
    outputs = np.array([-1.0, -1.0 + step, start, start + step])
    log = ActionScale("log", low, 1.0).rates(outputs).astype(np.float64)
    assert log[1] / log[0] == pytest.approx(log[3] / log[2], rel=1e-5)
    linear = ActionScale("linear", low, 1.0).rates(outputs).astype(np.float64)
    assert linear[1] - linear[0] == pytest.approx(linear[3] - linear[2], abs=1e-6)


def test_the_middle() -> None:
    middle = np.zeros(1)
    assert ActionScale("log", 0.01, 1.0).rates(middle) == pytest.approx(0.1)
    assert ActionScale("linear", 0.01, 1.0).rates(middle) == pytest.approx(0.505)


def test_an_unknown_scale_has_advice() -> None:
    with pytest.raises(UnknownName, match='did you mean "log"'):
        ActionScale("logg", 0.1, 1.0)


def test_the_learner_sees_a_symmetric_box_and_the_network_rates(make_env: MakeEnv) -> None:
    env = make_env("incast-32", overrides={"control.min_rate_fraction": 0.01})
    scaled = ScaledActions(env, "log")
    assert scaled.action_space == gym.spaces.Box(-1.0, 1.0, env.action_space.shape, np.float32)
    scaled.reset(seed=0)
    observation, *_ = scaled.step(np.zeros(33, np.float32))
    rate = env.unwrapped.observation_part("rate")
    assert observation[rate] == pytest.approx(np.full(33, 0.1))
