"""PPO of RLlib on the native vector form of an environment.

python examples/rllib_ppo.py
python examples/rllib_ppo.py --scenario dumbbell-10g --iterations 50 --checkpoint runs/rllib

``scripts/agents/run_rllib.sh`` makes a virtual environment with RLlib, which needs a certain release of
Gymnasium. An iteration is one episode of each environment; its mean return is printed. The checkpoint is
also written after Ctrl-C. It is RLlib's and contains pickles: load your own only.
"""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import Any

import gymnasium as gym

from sysgym.scenarios import load_scenario

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported

import ray
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

ENV_ID = "sysgym:sysgym/DatacenterCC-v0"
"""Id with its module, which registers it in each of Ray's processes."""
NAME = "congestion"
"""Name under which RLlib knows the environment."""

GAMMA = 0.5
"""Discount: an action has little effect after some intervals (docs/training.md)."""
LONGEST_SAMPLING_S = 600.0


def make_envs(settings: dict[str, Any]) -> gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]:
    """Return the vector form, or a single environment where RLlib asks for one, without ``num_envs``."""
    arguments = {"scenario": settings["scenario"], "split": "train"}
    if "num_envs" not in settings:
        return gym.make(ENV_ID, **arguments)
    # RLlib expects the autoreset mode "next_step", the default.
    return gym.make_vec(
        ENV_ID, num_envs=settings["num_envs"], vectorization_mode="vector_entry_point", **arguments
    )


def new_algorithm(scenario: str, n_envs: int, seed: int) -> Algorithm:
    """Return PPO with one process that plays all environments."""
    a_batch = n_envs * load_scenario(scenario).control.episode_steps
    config = (
        PPOConfig()
        .environment(NAME, env_config={"scenario": scenario})
        .env_runners(
            num_env_runners=1,
            num_envs_per_env_runner=n_envs,
            gym_env_vectorize_mode="vector_entry_point",
            sample_timeout_s=LONGEST_SAMPLING_S,
        )
        .training(
            gamma=GAMMA,
            lambda_=0.9,
            lr=1e-3,
            train_batch_size_per_learner=a_batch,
            minibatch_size=128,
            num_epochs=10,
            # Returns lie in the hundreds: the default of 10 would clip the loss of almost all values.
            vf_clip_param=1e6,
        )
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh"))
        # Returns are those of the newest episodes, of one iteration.
        .reporting(metrics_num_episodes_for_smoothing=n_envs)
        .debugging(seed=seed)
    )
    return config.build_algo()


def main() -> None:
    """Train, and write a checkpoint."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--scenario", default="iroko-dumbbell-10m")
    options.add_argument("--iterations", type=int, default=5)
    options.add_argument("--envs", type=int, default=4)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--checkpoint", type=Path, default=Path("runs/rllib-ppo"))
    options.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    given = options.parse_args()
    if given.resume and not given.checkpoint.is_dir():
        options.error(f"--resume: no checkpoint in {given.checkpoint}; train one without --resume first")
    torch.set_num_threads(1)  # small networks are slower with several
    register_env(NAME, make_envs)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    algorithm = new_algorithm(given.scenario, given.envs, given.seed)
    if given.resume:
        algorithm.restore_from_path(str(given.checkpoint.absolute()))
    try:
        for _ in range(given.iterations):
            found = algorithm.train()
            played = found["env_runners"]
            print(
                f"iteration {found['training_iteration']:3d}"
                f"  {played['num_env_steps_sampled_lifetime']:7.0f} steps"
                f"  return {played['episode_return_mean']:8.1f}",
                flush=True,
            )
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    algorithm.save_to_path(str(given.checkpoint.absolute()))
    print(f"checkpoint: {given.checkpoint}")
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
