"""Compile the simulators with all transports into numba's cache, before tests that need them.

python scripts/compile_simulator.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np

import sysgym
from sysgym.agents import make_agent, play_episode
from sysgym.emulator.packets.engine.loop import compile_loops
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport, get_transport, list_transports
from sysgym.emulator.packets.transports.searched.neural import N_PARAMETERS, neural_transport
from sysgym.registration import ENVIRONMENTS
from sysgym.scenarios import CongestionScenario, load_scenario


def main() -> None:
    """Compile the event loops, what environments and agents need, the vector forms, and all transports."""
    compile_loops()
    for env_id in ENVIRONMENTS:
        _step(gym.make(env_id, disable_env_checker=True))
    _step(gym.make("sysgym/DatacenterCC-v0", scenario="leafspine-link-failure", disable_env_checker=True))
    _step_two("sysgym/DatacenterCC-v0")
    for preset in ("datacenter", "aurora", "orca"):
        _step(gym.make("sysgym/FlowCC-v0", preset=preset, disable_env_checker=True))
        _step_two("sysgym/FlowCC-v0", preset=preset)
    _advance([*list_transports(), neural_transport([0.0] * N_PARAMETERS)])
    # One simulates flows, the other searches programs.
    for env_id, agent in (("CollectivePlacement", "topk"), ("ReductionProgram", "exhaustive")):
        env = gym.make(f"sysgym/{env_id}-v0", disable_env_checker=True)
        play_episode(env, make_agent(agent, family="placement"))
        env.close()

    for agent in ("ring", "tacos"):
        env = gym.make("sysgym/CollectiveSynthesis-v0", disable_env_checker=True)
        play_episode(env, make_agent(agent, family="collectives"))
        env.close()


def _step(env: gym.Env[Any, Any]) -> None:
    _, info = env.reset(seed=0)
    env.step(env.action_space.sample(mask=info.get("action_mask")))
    env.close()


def _step_two(env_id: str, **arguments: Any) -> None:
    worlds = gym.make_vec(env_id, num_envs=2, vectorization_mode="vector_entry_point", **arguments)
    worlds.reset(seed=0)
    worlds.step(worlds.action_space.sample())
    worlds.close()


def _advance(transports: Iterable[str | Transport]) -> None:
    """Let packets flow under each transport, and read all that a network counts."""
    for named in transports:
        transport = get_transport(named) if isinstance(named, str) else named
        switches = {"queue.classes": transport.needs_classes, "queue.trim": transport.needs_trimming}
        scenario = load_scenario("iroko-dumbbell-10m", overrides=switches, expect=CongestionScenario)
        network = PacketNetwork(scenario, transport=transport)
        network.reset(0)
        network.advance(0.01)
        flows = np.arange(1)
        network.scale_windows(flows, 1.0)
        network.flow_counters(flows)
        network.clear_maxima()
        network.oracle_rates_bps()


if __name__ == "__main__":
    print(f"sysgym {sysgym.__version__}: compiling the simulator")
    main()
