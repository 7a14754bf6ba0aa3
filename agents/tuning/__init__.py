"""Agents of the tuning family: fixed buckets, exact fusion, searches on the profile and on measurements.

Searches are those of :mod:`sysgym.agents.plan_tuning`. All but the oracle read the profile and the measured
times of the plans that they try.
"""

from __future__ import annotations

from sysgym.agents.info import AgentInfo

_FAMILY = "tuning"


def _rule(name: str, entry: str, summary: str) -> AgentInfo:
    return AgentInfo(name, summary, f"sysgym.agents.tuning.fixed:{entry}", family=_FAMILY)


def _search(name: str, entry: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    return AgentInfo(
        name, summary, f"sysgym.agents.plan_tuning:{entry}", privileged=privileged, family=_FAMILY
    )


def _learned(name: str, summary: str) -> AgentInfo:
    return AgentInfo(name, summary, "sysgym.agents.learned.loading:load_agent", learned=True, family=_FAMILY)


AGENTS = (
    _rule("25_mb", "CappedBuckets", "buckets of 25 MiB, PyTorch's default; the size is a parameter"),
    _rule("best_cap", "BestCap", "the best of 20 bucket sizes by the profile"),
    _rule("fusion", "Fusion", "exact fusion of gradients on one channel, by a dynamic program"),
    _rule("fusion_by_need", "FusionByNeed", "exact fusion, with the first layers sent first"),
    _search("tuning/random", "RandomAgent", "random changes"),
    _search("critical_path", "CriticalPath", "the best change by the profile, repeated while it helps"),
    _search("tuning/random_search", "RandomSearch", "random plans; the best by the profile are measured"),
    _search("tuning/annealing", "Annealing", "annealing on the profile; the best of its plans are measured"),
    _search("local_search", "LocalSearch", "measured changes, best by the profile first"),
    _search(
        "tuning/oracle",
        "Oracle",
        "local searches on the true times",
        privileged=True,
    ),
    _learned("tuning/maskable_ppo", "PPO among the changes (sb3-contrib)"),
    _learned("tuning/maskable_ppo_set", "maskable_ppo with one encoder shared by all buckets (Deep Sets)"),
)
"""Agents of the family, besides the general learning algorithms with discrete actions."""
