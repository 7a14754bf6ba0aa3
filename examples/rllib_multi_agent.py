"""PPO of RLlib with one policy for all senders of a network.

python examples/rllib_multi_agent.py
python examples/rllib_multi_agent.py --scenario dumbbell-10g --agents flows --iterations 50

Every host or flow is an agent of PettingZoo's ParallelEnv, and all share the parameters of one policy.
``scripts/agents/run_rllib.sh`` makes a virtual environment with RLlib, which needs a certain release of
Gymnasium. An iteration is one episode of each environment; the mean return of an agent is printed. The
checkpoint is also written after Ctrl-C. It is RLlib's and contains pickles: load your own only.
"""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import Any

from sysgym.envs.congestion import parallel_env
from sysgym.scenarios import load_scenario

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported

import ray
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env

NAME = "senders"
POLICY = "sender"
GAMMA = 0.5
"""Discount: an action has little effect after some intervals (docs/training.md)."""
LONGEST_SAMPLING_S = 600.0


class Senders(ParallelPettingZooEnv):  # type: ignore[misc]
    """RLlib's form of ``parallel_env``.

    Args:
        settings: Arguments of ``parallel_env``.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        env = parallel_env(**settings)
        # RLlib takes the agents of the first episode for all there are; others have more or fewer flows.
        self.possible_agents = list(env.possible_agents)
        super().__init__(env)
        self.observation_spaces = {agent: env.observation_space(agent) for agent in self.possible_agents}
        self.action_spaces = {agent: env.action_space(agent) for agent in self.possible_agents}


def new_algorithm(scenario: str, agents: str, n_envs: int, seed: int) -> Algorithm:
    """Return PPO with one policy, and one process that plays all environments."""
    config = (
        PPOConfig()
        .environment(NAME, env_config={"scenario": scenario, "agents": agents, "split": "train"})
        .env_runners(num_env_runners=1, num_envs_per_env_runner=n_envs, sample_timeout_s=LONGEST_SAMPLING_S)
        .multi_agent(policies={POLICY}, policy_mapping_fn=lambda agent, episode, **_: POLICY)
        .training(
            gamma=GAMMA,
            lambda_=0.9,
            lr=1e-3,
            # Counted in steps of environments, in each of which all agents decide.
            train_batch_size_per_learner=n_envs * load_scenario(scenario).control.episode_steps,
            minibatch_size=256,
            num_epochs=5,
            # Returns lie in the hundreds: the default of 10 would clip the loss of almost all values.
            vf_clip_param=1e6,
        )
        .rl_module(
            rl_module_spec=MultiRLModuleSpec(
                rl_module_specs={
                    POLICY: RLModuleSpec(
                        model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh")
                    )
                }
            )
        )
        # Returns are those of the newest episodes, of one iteration.
        .reporting(metrics_num_episodes_for_smoothing=n_envs)
        .debugging(seed=seed)
    )
    return config.build_algo()


def main() -> None:
    """Train, and write a checkpoint."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--scenario", default="iroko-dumbbell-10m")
    options.add_argument("--agents", default="flows", choices=("flows", "hosts"))
    options.add_argument("--iterations", type=int, default=5)
    options.add_argument("--envs", type=int, default=2)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--checkpoint", type=Path, default=Path("runs/rllib-multi-agent"))
    options.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    given = options.parse_args()
    if given.resume and not given.checkpoint.is_dir():
        options.error(f"--resume: no checkpoint in {given.checkpoint}; train one without --resume first")
    torch.set_num_threads(1)  # small networks are slower with several
    register_env(NAME, Senders)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    algorithm = new_algorithm(given.scenario, given.agents, given.envs, given.seed)
    if given.resume:
        algorithm.restore_from_path(str(given.checkpoint.absolute()))
    try:
        for _ in range(given.iterations):
            found = algorithm.train()
            played = found["env_runners"]
            of_agents = played["agent_episode_returns_mean"].values()
            print(
                f"iteration {found['training_iteration']:3d}"
                f"  {played['num_env_steps_sampled_lifetime']:7.0f} steps"
                f"  return of an agent {sum(of_agents) / len(of_agents):8.1f}",
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
