"""Agents of the collectives family: algorithms of libraries, matchings, searches, an integer program.

All read the public task: network and collective. Agents that make a whole schedule play it through the
environment's ``follow``, so that all schedules are judged by the same simulator.
"""

from __future__ import annotations

from sysgym.agents.info import AgentInfo

_FAMILY = "collectives"


def _heuristic(name: str, entry: str, summary: str) -> AgentInfo:
    return AgentInfo(name, summary, f"sysgym.agents.collectives.{entry}", family=_FAMILY)


def _learned(name: str, summary: str) -> AgentInfo:
    return AgentInfo(name, summary, "sysgym.agents.learned.loading:load_agent", learned=True, family=_FAMILY)


AGENTS = (
    _heuristic("ring", "libraries:RingAgent", "chunks around a ring along a short tour, one way or both"),
    _heuristic("tree", "libraries:TreeAgent", "binary trees, one rooted at each owner"),
    _heuristic("doubling", "libraries:DoublingAgent", "recursive doubling and halving, or Bruck's algorithm"),
    _heuristic(
        "direct", "libraries:DirectAgent", "every owner sends to every receiver, on the fastest paths"
    ),
    _heuristic("collectives/random", "simple:RandomAgent", "uniformly random candidates"),
    _heuristic("earliest", "simple:EarliestAgent", "the candidate that arrives first"),
    _heuristic("tacos", "synthesizers:TacosAgent", "random matchings of free links and chunks, after TACOS"),
    _heuristic(
        "restarts",
        "synthesizers:RestartsAgent",
        "matchings by several rules, some of which wait for fast links",
    ),
    _heuristic("collectives/annealing", "synthesizers:AnnealingAgent", "annealing of the order of chunks"),
    _heuristic("milp", "synthesizers:MilpAgent", "exact for small tasks: a mixed-integer program (HiGHS)"),
    _learned("collectives/maskable_ppo", "PPO among the candidates (sb3-contrib)"),
    _learned(
        "collectives/maskable_ppo_set", "maskable_ppo with one encoder shared by all candidates (Deep Sets)"
    ),
)
"""Agents of the family, besides the general learning algorithms with discrete actions."""
