"""PPO with one policy network for every host."""

from __future__ import annotations

from sysgym.agents.learned.training.algorithms import Algorithm

# A shared network learns from all hosts at once; the horizon is the drain time of a full buffer.
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
