"""Agents of the tuning family: fixed buckets, exact fusion, searches on the profile and on measurements.

All but the oracle read the profile and the measured times of the plans that they try.
"""

from __future__ import annotations

from sysgym.agents.info import AgentInfo

_FAMILY = "tuning"


def _heuristic(name: str, entry: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    return AgentInfo(name, summary, f"sysgym.agents.tuning.{entry}", privileged=privileged, family=_FAMILY)


def _learned(name: str, summary: str) -> AgentInfo:
    return AgentInfo(name, summary, "sysgym.agents.learned.loading:load_agent", learned=True, family=_FAMILY)


AGENTS = (
    _heuristic("25_mb", "fixed:CappedBuckets", "buckets of 25 MB, as in PyTorch; the size is a parameter"),
    _heuristic("best_cap", "fixed:BestCap", "the best of 20 bucket sizes by the profile"),
    _heuristic("fusion", "fixed:Fusion", "exact fusion of gradients on one channel, by a dynamic program"),
    _heuristic("fusion_by_need", "fixed:FusionByNeed", "the same, first layers first"),
    _heuristic("tuning/random", "searches:RandomAgent", "random changes"),
    _heuristic("critical_path", "searches:CriticalPath", "the best change by the profile, while one helps"),
    _heuristic("tuning/random_search", "searches:RandomSearch", "random plans, best by the profile measured"),
    _heuristic(
        "tuning/annealing", "searches:Annealing", "annealing on the profile, best of its plans measured"
    ),
    _heuristic("local_search", "searches:LocalSearch", "measured changes, best by the profile first"),
    _heuristic(
        "tuning/oracle",
        "searches:Oracle",
        "local searches on the true times",
        privileged=True,
    ),
    _learned("tuning/maskable_ppo", "PPO among the changes (sb3-contrib)"),
    _learned("tuning/maskable_ppo_set", "the same with one encoder shared by all buckets (Deep Sets)"),
)
"""Agents of the family, besides the general learning algorithms with discrete actions."""
