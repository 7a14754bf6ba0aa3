"""Agents of the diagnosis family: by durations, by answers, and by answers relative to similar parts.

All but the oracle read the observation only.
"""

from __future__ import annotations

from sysgym.agents.info import AgentInfo

_FAMILY = "diagnosis"


def _heuristic(name: str, entry: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    return AgentInfo(name, summary, f"sysgym.agents.diagnosis.{entry}", privileged=privileged, family=_FAMILY)


def _learned(name: str, summary: str) -> AgentInfo:
    return AgentInfo(name, summary, "sysgym.agents.learned.loading:load_agent", learned=True, family=_FAMILY)


AGENTS = (
    _heuristic("longest", "rules:Longest", "names the part with the longest durations, without questions"),
    _heuristic(
        "latest_throughout",
        "rules:LatestThroughout",
        "names the part that is late both at its worst and throughout",
    ),
    _heuristic(
        "largest_share",
        "rules:LargestShare",
        "asks about the latest parts, names the one with the largest share",
    ),
    _heuristic(
        "narrowing",
        "rules:Narrowing",
        "asks about stages and data-parallel ranks first, then about their ranks",
    ),
    _heuristic(
        "contrast", "rules:Contrast", "names the part whose share is furthest above that of similar parts"
    ),
    _heuristic("diagnosis/random", "rules:RandomAgent", "names a random part"),
    _heuristic("diagnosis/oracle", "rules:Oracle", "names the worst fault", privileged=True),
    _learned("diagnosis/maskable_ppo", "PPO among the parts (sb3-contrib)"),
    _learned("diagnosis/maskable_ppo_set", "maskable_ppo with one encoder shared by all parts (Deep Sets)"),
)
"""Agents of the family, besides the general learning algorithms with discrete actions."""
