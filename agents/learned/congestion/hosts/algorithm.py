"""PPO with one policy network for every host, which observes all ports or those on the host's paths."""

from __future__ import annotations

from dataclasses import replace

from sysgym.agents.learned.training.algorithms import FINAL_LEARNING_RATE, Algorithm
from sysgym.envs.congestion.datacenter.observation import DEFAULT_FEATURES, PATH_FEATURES

# A shared network learns from all hosts at once. The horizon is the time in which a full buffer drains.
PPO_HOSTS = Algorithm(
    "ppo_hosts",
    "stable_baselines3",
    "PPO",
    {
        "n_steps": 64,
        "batch_size": 256,
        "n_epochs": 10,
        "learning_rate": 1e-3,
        "gamma": 0.9,
        "gae_lambda": 0.9,
        "log_std_init": -2.0,
    },
    discrete_actions=False,
    over_sets=True,
    over_hosts=True,
    policy="sysgym.agents.learned.congestion.hosts.policy:HostPolicy",
)

# The effect of a host's rate is visible on its own paths in the same interval, so the horizon is short. A
# policy that overshoots the fair shares fills the buffers, where no single rate makes a difference, and
# nothing is learned in the rest of the episode: updates are small, and episodes short. The exploration noise
# of all hosts causes queues, and a policy trained with it leaves links underused: the noise is small.
PPO_PATHS = replace(
    PPO_HOSTS,
    name="ppo_paths",
    hyper_parameters={
        **PPO_HOSTS.hyper_parameters,
        "learning_rate": 1e-4,
        FINAL_LEARNING_RATE: 1e-5,
        "target_kl": 0.03,
        "gamma": 0.5,
        "log_std_init": -4.0,
    },
    policy="sysgym.agents.learned.congestion.hosts.policy:PathPolicy",
    features=(*DEFAULT_FEATURES, *PATH_FEATURES),
    episode_steps=60,
    action_scale="linear",
)
