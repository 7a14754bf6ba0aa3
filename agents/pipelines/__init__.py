"""Agents of the pipelines family: balanced plans, searches on the profile and on measurements.

All but the oracle read the profile and the measured times of the plans that they try.
"""

from __future__ import annotations

from sysgym.agents.info import AgentInfo

_FAMILY = "pipelines"


def _heuristic(name: str, entry: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    return AgentInfo(name, summary, f"sysgym.agents.pipelines.{entry}", privileged=privileged, family=_FAMILY)


def _learned(name: str, summary: str) -> AgentInfo:
    return AgentInfo(name, summary, "sysgym.agents.learned.loading:load_agent", learned=True, family=_FAMILY)


AGENTS = (
    _heuristic("unchanged", "balanced:Unchanged", "equal numbers of layers, microbatches as they come"),
    _heuristic("balanced_stages", "balanced:BalancedStages", "the exact division of layers among stages"),
    _heuristic("longest_first", "balanced:LongestFirst", "microbatches by Graham's rule"),
    _heuristic("balanced", "balanced:Balanced", "both"),
    _heuristic("pipelines/random", "searches:RandomAgent", "random changes"),
    _heuristic(
        "pipelines/critical_path", "searches:CriticalPath", "the best change by the profile, while one helps"
    ),
    _heuristic(
        "pipelines/random_search", "searches:RandomSearch", "random plans, best by the profile measured"
    ),
    _heuristic(
        "pipelines/annealing", "searches:Annealing", "annealing on the profile, best of its plans measured"
    ),
    _heuristic(
        "pipelines/local_search", "searches:LocalSearch", "measured changes, best by the profile first"
    ),
    _heuristic("pipelines/oracle", "searches:Oracle", "local searches on the true times", privileged=True),
    _learned("pipelines/maskable_ppo", "PPO among the changes (sb3-contrib)"),
    _learned(
        "pipelines/maskable_ppo_set", "the same with one encoder shared by stages and ranks (Deep Sets)"
    ),
)
"""Agents of the family, besides the general learning algorithms with discrete actions."""
