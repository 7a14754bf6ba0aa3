"""Agents of the failslow family: rules on measured factors, detection of changes, escalation by lost time.

All but the clairvoyant read the observation only.
"""

from __future__ import annotations

from sysgym.agents.info import AgentInfo

_FAMILY = "failslow"


def _heuristic(name: str, entry: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    return AgentInfo(name, summary, f"sysgym.agents.failslow.{entry}", privileged=privileged, family=_FAMILY)


AGENTS = (
    _heuristic("failslow/never", "rules:Never", "no action: waits until faults are over"),
    _heuristic("failslow/random", "rules:RandomAgent", "occasional random actions"),
    _heuristic("always_restart", "rules:AlwaysRestart", "restarts whenever a step is slow"),
    _heuristic("threshold", "rules:Threshold", "replaces slow workers, moves traffic from slow links"),
    _heuristic("cusum", "rules:Cusum", "like threshold, after a cumulative sum has detected a change"),
    _heuristic(
        "ski_rental", "escalation:SkiRental", "more expensive actions once the lost time equals their cost"
    ),
    _heuristic("payback", "payback:Payback", "the action that pays off if faults last as long again"),
    _heuristic(
        "clairvoyant",
        "clairvoyant:Clairvoyant",
        "the best action for the true durations",
        privileged=True,
    ),
)
"""Agents of the family, besides the general learning algorithms with discrete actions."""
