"""Conversion of a policy's output to rates: bounds, order and centre."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sysgym.envs.congestion.actions import SCALES, ActionScale
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


@given(st.sampled_from(SCALES), LOWS, OUTPUTS)
def test_the_inverse_asks_for_the_same_rates(name: str, low: float, output: Any) -> None:
    scale = ActionScale(name, low, 1.0)
    rates = scale.rates(output)
    assert scale.rates(scale.outputs(rates)) == pytest.approx(rates, rel=1e-5)
    assert scale.outputs(np.array([0.0, low, 1.0, 7.0])).tolist() == [-1.0, -1.0, 1.0, 1.0]


FLOOR = {"control.min_rate_fraction": 0.01}


@pytest.mark.parametrize(("form", "action"), [("log", 0.0), ("linear", -1.0 + 0.18 / 0.99), ("native", 0.1)])
def test_every_form_sets_the_same_rates(make_env: MakeEnv, form: str, action: float) -> None:
    env = make_env("incast-32", overrides=FLOOR, action_scale=form)
    env.reset(seed=0)
    observation, *_ = env.step(np.full(33, action, np.float32))
    assert observation[env.observation_part("rate")] == pytest.approx(np.full(33, 0.1))
    assert env.action_for(np.full(33, 0.1)) == pytest.approx(np.full(33, action), abs=1e-6)


def test_actions_are_symmetric_unless_they_are_native(make_env: MakeEnv) -> None:
    symmetric = gym.spaces.Box(-1.0, 1.0, (33,), np.float32)
    default: Any = gym.make("sysgym/DatacenterCC-v0", scenario="incast-32", overrides=FLOOR).unwrapped
    assert default.action_space == symmetric
    halfway = np.float32(0.5 * (default.native_bounds[0] + 1.0))
    assert default.action_for(np.full(33, halfway)) == pytest.approx(np.zeros(33), abs=1e-6)
    assert make_env("incast-32", overrides=FLOOR, action_scale="log").action_space == symmetric
    native = make_env("incast-32", overrides=FLOOR, action_scale="native")
    assert native.action_space == gym.spaces.Box(np.float32(0.01), 1.0, (33,), np.float32)
    assert native.native_bounds == (pytest.approx(0.01), 1.0)


def test_a_flows_action_is_its_presets_number_over_the_limit() -> None:
    """Aurora's numbers reach from -10 to 10; a fifth of that is 2."""
    flows: list[Any] = [
        gym.make("sysgym/FlowCC-v0", scenario="aurora-links", action_scale=form).unwrapped
        for form in ("linear", "native")
    ]
    assert [env.action_space.high.tolist() for env in flows] == [[1.0], [10.0]]
    for env in flows:
        env.reset(seed=4)
    (scaled, *_), (native, *_) = (
        env.step(np.array([action], np.float32)) for env, action in zip(flows, (0.2, 2.0), strict=True)
    )
    assert scaled == pytest.approx(native, rel=1e-5)
    asked: Any = flows[0]
    assert asked.action_for(np.array([2.0])) == pytest.approx(np.array([0.2]))


def test_an_unknown_form_has_advice() -> None:
    with pytest.raises(UnknownName, match='did you mean "native"'):
        gym.make("sysgym/DatacenterCC-v0", action_scale="nativ")
    with pytest.raises(UnknownName, match="there is: linear, native"):
        gym.make("sysgym/FlowCC-v0", action_scale="log")
