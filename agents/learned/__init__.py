"""Learned agents: training with stable-baselines3, checkpoints, and policies that run without torch.

    from sysgym.agents.learned import load, train
    checkpoint = train("ppo", "iroko-dumbbell-10m", total_steps=40_000, out="runs/ppo")
    agent = load(checkpoint)

Training requires the extra ``train``; playing a checkpoint of an ordinary policy does not.
"""

from __future__ import annotations

from sysgym.agents.learned.agent import LearnedAgent
from sysgym.agents.learned.loading import load
from sysgym.agents.learned.training.train import train

__all__ = ["LearnedAgent", "load", "train"]
