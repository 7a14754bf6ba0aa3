"""Learned agents available for every family."""

from __future__ import annotations

from sysgym.agents.info import AgentInfo


def _learned(name: str, summary: str) -> AgentInfo:
    return AgentInfo(name, summary, "sysgym.agents.learned.loading:load_agent", learned=True)


AGENTS = (
    _learned("ppo", "proximal policy optimisation (stable-baselines3)"),
    _learned("a2c", "advantage actor-critic (stable-baselines3)"),
    _learned("reinforce", "policy gradient without a critic (stable-baselines3's A2C, its critic unused)"),
    _learned("sac", "soft actor-critic (stable-baselines3)"),
    _learned("td3", "twin delayed deterministic policy gradient (stable-baselines3)"),
    _learned("ddpg", "deep deterministic policy gradient (stable-baselines3)"),
    _learned("tqc", "truncated quantile critics (sb3-contrib)"),
    _learned("trpo", "trust region policy optimisation (sb3-contrib)"),
    AgentInfo(
        "onnx",
        "a policy written by sysgym export, in ONNX Runtime; the file is the checkpoint",
        "sysgym.agents.learned.deploy.onnx_agent:load_onnx",
        learned=True,
    ),
)
