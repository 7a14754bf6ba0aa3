"""Compile the simulators with all transports into numba's cache, before tests that need them.

python scripts/compile_simulator.py
"""

from __future__ import annotations

import gymnasium as gym

import sysgym
from sysgym.emulator.packets.engine.loop import compile_loops
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import list_transports
from sysgym.registration import ENVIRONMENTS
from sysgym.scenarios import CongestionScenario, load_scenario


def main() -> None:
    """Compile both event loops, what every environment needs, the vector forms, and every transport."""
    compile_loops()
    for env_id in ENVIRONMENTS:
        env = gym.make(env_id, disable_env_checker=True)
        _, info = env.reset(seed=0)
        env.step(env.action_space.sample(mask=info.get("action_mask")))
        env.close()
    for env_id in ("sysgym/DatacenterCC-v0", "sysgym/FlowCC-v0"):
        worlds = gym.make_vec(env_id, num_envs=2, vectorization_mode="vector_entry_point")
        worlds.reset(seed=0)
        worlds.step(worlds.action_space.sample())
        worlds.close()
    scenario = load_scenario("iroko-dumbbell-10m", expect=CongestionScenario)
    for transport in list_transports():
        network = PacketNetwork(scenario, transport=transport)
        network.reset(0)
        network.advance(0.01)


if __name__ == "__main__":
    print(f"sysgym {sysgym.__version__}: compiling the simulator")
    main()
