"""Agents of the placement family: rules, searches, and measurement policies.

An agent plays all environments of the family for which it is defined; for others, ``begin`` raises an error
that names the supported ones. All agents read the public problem and cost model; only the oracle reads the
hidden state of ``JointPlacement-v0``.
"""

from __future__ import annotations

from sysgym.agents.info import AgentInfo

_FAMILY = "placement"


def _heuristic(name: str, entry: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    entry = f"sysgym.agents.placement.{entry}"
    return AgentInfo(name, summary, entry, privileged=privileged, family=_FAMILY)


def _learned(name: str, summary: str) -> AgentInfo:
    return AgentInfo(name, summary, "sysgym.agents.learned.loading:load_agent", learned=True, family=_FAMILY)


AGENTS = (
    _heuristic("default", "simple:DefaultAgent", "axes in the order given; a single all-reduce"),
    _heuristic("placement/random", "simple:RandomAgent", "uniformly random allowed actions"),
    _heuristic(
        "greedy", "greedy:GreedyAgent", "axes with the most traffic inside; cheapest progress; nominally best"
    ),
    _heuristic(
        "blueconnect", "simple:BlueConnectAgent", "reduce-scatter inside, all-reduce across, all-gather"
    ),
    _heuristic("packed", "jobs:PackedAgent", "several jobs: one node filled after another"),
    _heuristic("spread", "jobs:SpreadAgent", "several jobs: every block on the emptiest node"),
    _heuristic("annealing", "annealing:AnnealingAgent", "simulated annealing with the closed-form model"),
    _heuristic(
        "exhaustive",
        "exhaustive:ExhaustiveAgent",
        "all placements with the axes in this order, and all programs",
    ),
    _heuristic("topk", "topk:TopKAgent", "the k best by the model, then simulated or measured"),
    _heuristic("ucb", "measuring:UcbAgent", "upper confidence bounds with independent candidates"),
    _heuristic(
        "bayes", "measuring:BayesAgent", "learns the true bandwidths of levels, measures while it pays off"
    ),
    _heuristic(
        "placement/oracle",
        "oracle:OracleAgent",
        "commits to the truly best candidate, read from the hidden state",
        privileged=True,
    ),
    _learned("maskable_ppo", "PPO among the actions that are allowed (sb3-contrib)"),
    _learned("maskable_ppo_set", "maskable_ppo with one encoder shared by all choices (Deep Sets)"),
)
"""Agents of the family, besides the general learning algorithms with discrete actions."""
