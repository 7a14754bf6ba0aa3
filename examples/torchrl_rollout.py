"""Environments in TorchRL: its wrapper, its check of the specifications, and a rollout.

python examples/torchrl_rollout.py

TorchRL wraps what Gymnasium makes: single environments, and the native vector form. It resets ended episodes
itself, so the vector form does not. Episodes are short here, so that a rollout has several.
"""

from __future__ import annotations

import argparse

import gymnasium as gym
from torchrl.envs import GymWrapper
from torchrl.envs.utils import check_env_specs

import sysgym  # noqa: F401  registers the environments

ENV_ID = "sysgym/DatacenterCC-v0"


def main() -> None:
    """Check both forms, and print a rollout of each."""
    parser = argparse.ArgumentParser(description="Wrap environments for TorchRL.")
    parser.add_argument("--scenario", default="incast-32")
    parser.add_argument("--steps", type=int, default=20)
    asked = parser.parse_args()
    arguments = {"scenario": asked.scenario, "overrides": {"control.episode_steps": 8}}
    single = GymWrapper(gym.make(ENV_ID, **arguments))
    many = GymWrapper(
        gym.make_vec(
            ENV_ID,
            num_envs=3,
            vectorization_mode="vector_entry_point",
            autoreset_mode="disabled",
            **arguments,
        )
    )
    for name, env in (("single", single), ("vector", many)):
        env.set_seed(1)
        check_env_specs(env, return_contiguous=False)
        rollout = env.rollout(asked.steps, break_when_any_done=False)
        observed, paid = rollout["observation"], rollout["next", "reward"]
        ended = int(rollout["next", "done"].sum())
        print(
            f"{name}: observations {tuple(observed.shape)}, {ended} episodes, mean reward {paid.mean():.3f}"
        )
        env.close()


if __name__ == "__main__":
    main()
