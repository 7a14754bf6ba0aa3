"""The kernel's steppers on a simulated network give the results of the compiled ones."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.envs.congestion import parallel_env
from sysgym.envs.congestion.stepping.linux_stepper import LinuxFlowStepper, LinuxNetworkStepper
from sysgym.scenarios.errors import SysgymError

REGISTERED = sysgym.__version__
SHORT = {"control.episode_steps": 8}


def flow_env(scenario: str, *, kernel: bool, **arguments: Any) -> Any:
    overrides = SHORT | arguments.pop("overrides", {})
    env: Any = gym.make("sysgym/FlowCC-v0", scenario=scenario, overrides=overrides, **arguments).unwrapped
    if kernel:
        law = env.transport.name
        env.sender.stepper = LinuxFlowStepper(1, env.preset, env.history, env.reward, env._weights, law)
    return env


def network_env(scenario: str, *, kernel: bool, **arguments: Any) -> Any:
    env: Any = gym.make("sysgym/DatacenterCC-v0", scenario=scenario, overrides=SHORT, **arguments).unwrapped
    if kernel:
        env._stepper = LinuxNetworkStepper(1, env.fabric, has_law=not env.transport.rate_driven)
    return env


def assert_alike(one: Any, other: Any) -> None:
    """Compare observations, rewards and infos; intervals of simulated time are whole nanoseconds."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_alike(one[key], other[key])
    elif isinstance(one, tuple):
        for part, counterpart in zip(one, other, strict=True):
            assert_alike(part, counterpart)
    else:
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("scenario", "arguments"),
    [
        ("flow-1g-1ms", {}),
        ("flow-1g-1ms", {"preset": "aurora"}),
        ("flow-1g-1ms", {"preset": "orca"}),
        ("flow-1g-1ms", {"transport": "dctcp"}),
        ("flow-datacenter", {}),
    ],
)
def test_a_flow_is_moved_alike(scenario: str, arguments: dict[str, Any]) -> None:
    compiled, by_steps = (flow_env(scenario, kernel=kernel, **arguments) for kernel in (False, True))
    assert_alike(compiled.reset(seed=3), by_steps.reset(seed=3))
    rng = np.random.default_rng(0)
    for _ in range(8):
        action = rng.uniform(-1.0, 1.0, 1).astype(np.float32)
        assert_alike(compiled.step(action), by_steps.step(action))


@pytest.mark.parametrize(
    ("scenario", "transport"), [("dumbbell-10g", "paced"), ("incast-32", "dctcp"), ("parking-lot-4", "paced")]
)
def test_a_network_is_moved_alike(scenario: str, transport: str) -> None:
    compiled, by_steps = (
        network_env(scenario, kernel=kernel, transport=transport) for kernel in (False, True)
    )
    assert_alike(compiled.reset(seed=3), by_steps.reset(seed=3))
    rng = np.random.default_rng(0)
    for _ in range(8):
        action = rng.uniform(-1.0, 1.0, compiled.action_space.shape).astype(np.float32)
        assert_alike(compiled.step(action), by_steps.step(action))


@pytest.mark.parametrize(
    "arguments",
    [
        {"agents": "flows"},
        {"agents": "flows", "preset": "orca"},
        {"agents": "hosts"},
        {"agents": "hosts", "transport": "dctcp"},
    ],
    ids=str,
)
def test_many_agents_are_moved_alike(arguments: dict[str, Any]) -> None:
    compiled, by_steps = (parallel_env("iroko-dumbbell-1g", overrides=SHORT, **arguments) for _ in range(2))
    by_steps._new_stepper = lambda n: LinuxFlowStepper(
        n, by_steps.preset, by_steps.history, by_steps.reward, by_steps._weights, by_steps.transport.name
    )
    assert_alike(compiled.reset(seed=3), by_steps.reset(seed=3))
    rng = np.random.default_rng(0)
    for _ in range(8):
        actions = {agent: rng.uniform(-1.0, 1.0, 1).astype(np.float32) for agent in compiled.agents}
        assert_alike(compiled.step(actions), by_steps.step(actions))


@pytest.mark.parametrize("kernel", [False, True])
def test_a_flow_that_nothing_slows_down_says_so(kernel: bool) -> None:
    """Beside other flows of its host, a flow under DCTCP has neither a pace nor a cap of its own."""
    long = {"control.episode_steps": 60}
    env = flow_env("flow-datacenter", kernel=kernel, transport="dctcp", overrides=long)
    env.reset(options={"episode_seed": 20_000})
    env.step(np.ones(1, np.float32))
    with pytest.raises(SysgymError, match='shares host 0 with others, and "dctcp" has no pace'):
        env.step(np.zeros(1, np.float32))
