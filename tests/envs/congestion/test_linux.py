"""The environments on the Linux kernel; skipped, with the reason, if that is not possible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from pettingzoo.test import parallel_api_test
from stable_baselines3 import PPO

import sysgym
from sysgym.agents.congestion.max import MaxAgent
from sysgym.agents.learned.congestion.shared_policy import ParallelToVectorEnv
from sysgym.agents.protocol import play_episode
from sysgym.emulator.linux.client import LinuxNetwork
from sysgym.emulator.linux.service.discovery import let_go, share_private_service
from sysgym.emulator.network import Controls, PerFlow
from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.transports.searched.adaptive_target import CONSTANTS, adaptive_target_transport
from sysgym.emulator.packets.transports.searched.neural import N_PARAMETERS, neural_transport
from sysgym.envs.congestion import parallel_env
from sysgym.envs.congestion.backends import network_on
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import SysgymError
from tests.envs.congestion.actions import log_rate_action

REGISTERED = sysgym.__version__
FAST = {"control.episode_steps": 20}
SHORT = {"control.episode_steps": 6, "control.decision_interval_s": 0.005, "control.warmup_s": 0.05}
FLOW = {
    "topology.link_rate_bps": 100e6,
    "control.decision_interval_s": 0.02,
    "control.episode_steps": 60,
    "queue.buffer_bytes": 187_500,
    "queue.ecn_threshold_bytes": 22_500,
}

pytestmark = [pytest.mark.linux, pytest.mark.usefixtures("linux_backend")]


@pytest.fixture(scope="module", autouse=True)
def one_service_for_all(linux_backend: None) -> Iterator[None]:
    """Networks open in a fifth of a second where the service that this process has started lives on."""
    service = share_private_service()
    yield
    let_go(service)


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
    assert set(info) == {"metrics", "reward_terms", "episode_seed", "time_s"}
    over, steps = False, 0
    ones = np.ones(datacenter.action_space.shape, np.float32)
    while not over:
        observation, reward, terminated, over, info = datacenter.step(ones)
        assert observation in datacenter.observation_space
        assert not terminated
        assert reward == pytest.approx(sum(info["reward_terms"].values()))
        steps += 1
    assert steps == 20
    # 100 Mb/s less headers are 97.3 Mb/s; a slow machine may lose some of them. What waited behind a hole
    # before the episode's 0.4 s counts when that is filled: up to a full buffer, 3.75 Mb/s.
    assert 70e6 < info["episode_metrics"]["goodput_bps"] < 101.1e6


def test_caps_of_hosts_hold_on_the_kernel() -> None:
    env = gym.make(
        "sysgym/DatacenterCC-v0",
        scenario="linux-dumbbell-100m",
        transport="cubic",
        backend="linux",
        action_scale="native",
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
    line_rate_bps = env.unwrapped.sender.line_rate_bps
    for share in (0.1, 0.4):
        action = env.unwrapped.sender.action_toward(share * line_rate_bps)
        for _ in range(10):
            observation, _, _, _, info = env.step(action)
            assert observation in env.observation_space
        assert info["metrics"]["rate_bps"] == pytest.approx(share * line_rate_bps, rel=0.01)
        assert info["metrics"]["sent_bps"] == pytest.approx(share * line_rate_bps, rel=0.15)
    env.close()


def test_orca_multiplies_a_window_of_the_kernel() -> None:
    """In an interval far shorter than a round trip, most of what happens to the window is the action."""
    overrides = {
        "topology.core_rate_bps": 50e6,
        "queue.buffer_bytes": 300_000,
        "transport.max_window_packets": 256,
        "control.warmup_s": 0.3,
        "control.decision_interval_s": 0.004,
    }
    env: Any = gym.make(
        "sysgym/FlowCC-v0",
        scenario="flow-1g-1ms",
        preset="orca",
        backend="linux",
        overrides=FLOW | overrides,
        disable_env_checker=True,
    ).unwrapped
    env.reset(seed=0)
    windows = []
    for action in (0.0, -1.0, 1.0):
        observation, _, _, _, info = env.step(np.array([action], np.float32))
        assert observation in env.observation_space
        assert info["metrics"]["rate_bps"] > 0.0
        windows.append(float(env.sender.interval["cwnd_packets"]))
    before, quarter, again = windows
    assert before > 60
    assert quarter < 0.6 * before
    assert 1.9 * quarter < again <= 256  # where a loss has halved it meanwhile
    env.close()


def test_a_law_that_nobody_multiplies_is_the_kernel_s_own() -> None:
    """CUBIC of RFC 9438 in our program beside the kernel's: two flows, when slow start is over."""
    scenario = load_scenario("linux-dumbbell-100m", expect=CongestionScenario)
    flows, measured = np.arange(2), {}
    for transport in ("cubic", "scaled_cubic"):
        factors = PerFlow(flows, np.ones(2)) if transport == "scaled_cubic" else None
        with LinuxNetwork(scenario, transport=transport) as network:
            network.reset(20_000)
            network.advance(0.4)
            before, began_s, delivered = network.ports(), network.now_s, network.hosts().delivered_bytes
            for _ in range(50):
                network.step(Controls(window_factors=factors), 0.02)
            after, duration_s = network.ports(), network.now_s - began_s
        goodput_bps = (network.hosts().delivered_bytes - delivered).sum() * 8 / duration_s
        queue_bytes = (after.queue_byte_s - before.queue_byte_s).max() / duration_s
        measured[transport] = (goodput_bps, queue_bytes, network.hosts())
    ours, theirs = measured["scaled_cubic"], measured["cubic"]
    assert ours[0] == pytest.approx(theirs[0], rel=0.05)
    assert ours[1] == pytest.approx(theirs[1], rel=0.2)
    # A sample from every ACK, which tells of one packet or two.
    hosts = ours[2]
    assert 0.4 < hosts.rtt_samples.sum() / hosts.acked_packets.sum() < 1.0
    rtt_s = hosts.rtt_sum_s.sum() / hosts.rtt_samples.sum()
    assert rtt_s == pytest.approx(theirs[2].rtt_sum_s.sum() / theirs[2].rtt_samples.sum(), rel=0.25)


def test_what_cannot_be_multiplied_is_named() -> None:
    with pytest.raises(
        SysgymError, match='"newvegas" cannot be multiplied on the kernel: use reno, cubic, dctcp'
    ):
        gym.make("sysgym/FlowCC-v0", preset="orca", transport="newvegas", backend="linux")


NEURAL = [neural_transport([value] * N_PARAMETERS) for value in (0.0, 0.1)]
ADAPTIVE_TARGET = [
    adaptive_target_transport([getattr(constant, which) for constant in CONSTANTS])
    for which in ("value", "least")
]


@pytest.mark.parametrize("laws", [NEURAL, ADAPTIVE_TARGET], ids=["neural", "adaptive_target"])
def test_a_law_brings_its_parameters_to_the_kernel(laws: list[Transport]) -> None:
    """For a datacenter, and for one flow among others; a world has one set of them."""
    law, other = laws
    for env_id, scenario in (("DatacenterCC", "linux-dumbbell-100m"), ("FlowCC", "linux-flow-100m")):
        env = gym.make(
            f"sysgym/{env_id}-v0",
            scenario=scenario,
            transport=law,
            backend="linux",
            overrides=FAST,
            disable_env_checker=True,
        )
        _, info = play_episode(env, MaxAgent())
        assert info["episode_metrics"]["goodput_bps"] > 20e6
        env.close()
    dumbbell = load_scenario("linux-dumbbell-100m", expect=CongestionScenario)
    with pytest.raises(SysgymError, match=f'"{law.name}" have different parameters'):
        network_on("linux", dumbbell, law, {0: other})


def test_laws_with_parameters_of_their_own_share_a_kernel() -> None:
    scenario = load_scenario("linux-dumbbell-100m", expect=CongestionScenario)
    # A law that notices soon that its decreases are in vain; others may wait for seconds
    # (docs/linux-validation.md).
    impatient = {"patience": 1.3, "patience_again": 1.3}
    other = adaptive_target_transport([impatient.get(one.name, one.value) for one in CONSTANTS])
    with closing(network_on("linux", scenario, NEURAL[0], {1: other})) as network:
        network.reset(20_000)
        network.advance(1.0)
        assert np.all(network.flows().delivered_bytes[:2] > 0.05 * 100e6 / 8)


def test_agents_multiply_windows_of_the_kernel() -> None:
    env = parallel_env("linux-dumbbell-100m", preset="orca", backend="linux", overrides=SHORT)
    parallel_api_test(env, num_cycles=12)
    env.close()


def test_flows_of_the_kernel_have_their_agents_rates() -> None:
    env = parallel_env(
        "linux-dumbbell-100m",
        backend="linux",
        overrides={"control.episode_steps": 15, "control.warmup_s": 0.05},
    )
    parallel_api_test(env, num_cycles=16)
    env.reset(seed=0)
    rates_bps = {"flow_0": 20e6, "flow_1": 60e6}
    actions = {
        agent: np.array([log_rate_action(rate_bps, 1e6, 100e6)], np.float32)
        for agent, rate_bps in rates_bps.items()
    }
    infos = [env.step(actions)[4] for _ in range(15)]
    for agent, rate_bps in rates_bps.items():
        assert infos[-1][agent]["metrics"]["rate_bps"] == pytest.approx(rate_bps, rel=1e-3)
        for name, carried in (("sent_bps", rate_bps), ("goodput_bps", rate_bps * 1460 / 1500)):
            found = np.mean([info[agent]["metrics"][name] for info in infos[5:]])
            assert found == pytest.approx(carried, rel=0.1), (agent, name)
        assert infos[-1][agent]["metrics"]["loss_fraction"] == 0.0
    assert infos[-1]["flow_0"]["episode_metrics"]["jain_index"] < 0.99
    env.close()


def test_hosts_of_the_kernel_have_their_agents_caps() -> None:
    env = parallel_env(
        "linux-dumbbell-100m",
        agents="hosts",
        transport="cubic",
        backend="linux",
        overrides={"control.episode_steps": 12, "control.warmup_s": 0.05},
    )
    parallel_api_test(env, num_cycles=13)
    env.reset(seed=0)
    action = np.array([log_rate_action(30e6, 1e6, 100e6)], np.float32)
    for _ in range(12):
        _, _, _, _, infos = env.step(dict.fromkeys(env.agents, action))
    for host in ("h0", "h1"):
        assert infos[host]["metrics"]["goodput_bps"] == pytest.approx(30e6 * 1460 / 1500, rel=0.15)
        assert infos[host]["metrics"]["in_flight_bytes"] > 0
    assert infos["h2"]["metrics"]["sent_bps"] == 0.0  # it only receives
    env.close()


def test_a_shared_policy_trained_on_the_simulator_acts_on_the_kernel() -> None:
    """Two senders, one policy: untrained they send a tenth of what they have learned in some seconds."""
    overrides = {
        "control.episode_steps": 20,
        "control.decision_interval_s": 0.01,
        "control.warmup_s": 0.02,
    }

    def world(backend: str = "packets") -> Any:
        return parallel_env("linux-dumbbell-100m", backend=backend, overrides=overrides)

    slots = ParallelToVectorEnv(world, n_worlds=4)
    model = PPO(
        "MlpPolicy",
        slots,
        n_steps=32,
        batch_size=128,
        gamma=0.5,
        learning_rate=3e-3,
        policy_kwargs={"log_std_init": -1.0, "net_arch": [32]},
        seed=0,
        device="cpu",
    )

    def goodput_bps(backend: str) -> float:
        env, found = world(backend), []
        seen, _ = env.reset(options={"episode_seed": 20_000})
        while env.agents:
            actions, _ = model.predict(np.stack(list(seen.values())), deterministic=True)
            seen, _, _, _, infos = env.step(dict(zip(env.agents, actions, strict=True)))
            found.append(sum(info["metrics"]["goodput_bps"] for info in infos.values()))
        env.close()
        return float(np.mean(found[5:]))

    untrained = goodput_bps("packets")
    model.learn(4 * 3 * 32 * slots.num_envs)
    trained = goodput_bps("packets")
    assert trained > 2.0 * untrained
    assert goodput_bps("linux") == pytest.approx(trained, rel=0.4)


@pytest.mark.parametrize("env_id", ["sysgym/DatacenterCC-v0", "sysgym/FlowCC-v0"])
def test_the_vector_form_is_of_the_simulator(env_id: str) -> None:
    with pytest.raises(SysgymError, match='the vector form requires the simulator, got "linux"'):
        gym.make_vec(env_id, num_envs=2, vectorization_mode="vector_entry_point", backend="linux")
