"""Agents of the pipelines family: balanced plans, searches on the profile and on measurements.

Searches are those of :mod:`sysgym.agents.plan_tuning`. All but the oracle read the profile and the measured
times of the plans that they try.
"""

from __future__ import annotations

from sysgym.agents.info import AgentInfo

_FAMILY = "pipelines"


def _rule(name: str, entry: str, summary: str) -> AgentInfo:
    return AgentInfo(name, summary, f"sysgym.agents.pipelines.balanced:{entry}", family=_FAMILY)


def _search(name: str, entry: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    return AgentInfo(
        name, summary, f"sysgym.agents.plan_tuning:{entry}", privileged=privileged, family=_FAMILY
    )


def _learned(name: str, summary: str) -> AgentInfo:
    return AgentInfo(name, summary, "sysgym.agents.learned.loading:load_agent", learned=True, family=_FAMILY)


AGENTS = (
    _rule("unchanged", "Unchanged", "equal numbers of layers, microbatches in their original order"),
    _rule("balanced_stages", "BalancedStages", "the exact division of layers among stages"),
    _rule("longest_first", "LongestFirst", "microbatches by Graham's rule"),
    _rule("balanced", "Balanced", "balanced stages, and microbatches by Graham's rule"),
    _search("pipelines/random", "RandomAgent", "random changes"),
    _search(
        "pipelines/critical_path",
        "CriticalPath",
        "the best change by the profile, repeated while it helps",
    ),
    _search("pipelines/random_search", "RandomSearch", "random plans; the best by the profile are measured"),
    _search(
        "pipelines/annealing", "Annealing", "annealing on the profile; the best of its plans are measured"
    ),
    _search("pipelines/local_search", "LocalSearch", "measured changes, best by the profile first"),
    _search("pipelines/oracle", "Oracle", "local searches on the true times", privileged=True),
    _learned("pipelines/maskable_ppo", "PPO among the changes (sb3-contrib)"),
    _learned(
        "pipelines/maskable_ppo_set", "maskable_ppo with one encoder shared by stages and ranks (Deep Sets)"
    ),
)
"""Agents of the family, besides the general learning algorithms with discrete actions."""
