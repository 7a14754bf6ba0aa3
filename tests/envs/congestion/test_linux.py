"""The environments on the real kernel; skipped, with the reason, where that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import sysgym
from sysgym.scenarios.errors import SysgymError

REGISTERED = sysgym.__version__
FAST = {"control.episode_steps": 20}
FLOW = {
    "topology.link_rate_bps": 100e6,
    "control.decision_interval_s": 0.02,
    "control.episode_steps": 60,
    "queue.buffer_bytes": 187_500,
    "queue.ecn_threshold_bytes": 22_500,
}

pytestmark = [pytest.mark.linux, pytest.mark.usefixtures("linux_backend")]


@pytest.fixture(params=["cubic", "dctcp"])
def datacenter(request: pytest.FixtureRequest) -> Iterator[Any]:
    env = gym.make(
        "sysgym/DatacenterCC-v0",
        scenario="linux-dumbbell-100m",
        transport=request.param,
        backend="linux",
        overrides=FAST,
        disable_env_checker=True,
    )
    yield env
    env.close()


def test_a_datacenter_of_the_kernel_fills_its_link(datacenter: Any) -> None:
    observation, info = datacenter.reset(seed=0)
    assert observation in datacenter.observation_space
    assert set(info) == {"metrics", "episode_seed", "time_s"}
    over, steps = False, 0
    ones = np.ones(datacenter.action_space.shape, np.float32)
    while not over:
        observation, reward, terminated, over, info = datacenter.step(ones)
        assert observation in datacenter.observation_space
        assert not terminated
        assert reward == pytest.approx(sum(info["reward_terms"].values()))
        steps += 1
    assert steps == 20
    # 100 Mb/s less headers are 97.3 Mb/s; a slow machine may lose some of them.
    assert 70e6 < info["episode_metrics"]["goodput_bps"] < 98e6


def test_caps_of_hosts_hold_on_the_kernel() -> None:
    env = gym.make(
        "sysgym/DatacenterCC-v0",
        scenario="linux-dumbbell-100m",
        transport="cubic",
        backend="linux",
        overrides=FAST,
        disable_env_checker=True,
    )
    env.reset(seed=1)
    share = np.full(env.action_space.shape or (), 0.2, np.float32)
    for _ in range(10):
        _, _, _, _, info = env.step(share)
    # Two of the four hosts send, each at a fifth of 100 Mb/s.
    assert info["metrics"]["goodput_bps"] == pytest.approx(2 * 20e6 * 1460 / 1500, rel=0.15)
    assert info["metrics"]["queue_mean_bytes"] < 10_000
    env.close()


def test_a_flow_of_the_kernel_does_what_its_agent_says() -> None:
    env: Any = gym.make(
        "sysgym/FlowCC-v0", scenario="flow-1g-1ms", backend="linux", overrides=FLOW, disable_env_checker=True
    )
    env.reset(seed=0)
    line_rate_bps = env.unwrapped.line_rate_bps
    for share in (0.1, 0.4):
        action = env.unwrapped.action_toward(share * line_rate_bps)
        for _ in range(10):
            observation, _, _, _, info = env.step(action)
            assert observation in env.observation_space
        assert info["metrics"]["rate_bps"] == pytest.approx(share * line_rate_bps, rel=0.01)
        assert info["metrics"]["sent_bps"] == pytest.approx(share * line_rate_bps, rel=0.15)
    env.close()


def test_windows_of_the_kernel_cannot_be_multiplied() -> None:
    with pytest.raises(SysgymError, match='the preset "orca" multiplies a window'):
        gym.make("sysgym/FlowCC-v0", scenario="flow-1g-1ms", preset="orca", backend="linux")


@pytest.mark.parametrize("env_id", ["sysgym/DatacenterCC-v0", "sysgym/FlowCC-v0"])
def test_the_vector_form_is_of_the_simulator(env_id: str) -> None:
    with pytest.raises(SysgymError, match='the vector form is of the simulator, got "linux"'):
        gym.make_vec(env_id, num_envs=2, vectorization_mode="vector_entry_point", backend="linux")
