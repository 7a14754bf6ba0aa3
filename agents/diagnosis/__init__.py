"""Agents of the diagnosis family: by durations alone, by answers, by answers against those of like parts.

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
    _heuristic("longest", "rules:Longest", "names the part with the longest durations, without a question"),
    _heuristic(
        "latest_throughout", "rules:LatestThroughout", "names the part that is late at its worst and always"
    ),
    _heuristic("largest_share", "rules:LargestShare", "asks about the latest parts, names the largest share"),
    _heuristic("narrowing", "rules:Narrowing", "stages and data-parallel ranks first, then their ranks"),
    _heuristic("contrast", "rules:Contrast", "the share that is furthest above that of like parts"),
    _heuristic("diagnosis/random", "rules:RandomAgent", "any part"),
    _heuristic("diagnosis/oracle", "rules:Oracle", "the worst fault", privileged=True),
    _learned("diagnosis/maskable_ppo", "PPO among the parts (sb3-contrib)"),
    _learned("diagnosis/maskable_ppo_set", "the same with one encoder shared by all parts (Deep Sets)"),
)
"""Agents of the family, besides the general learning algorithms with discrete actions."""
