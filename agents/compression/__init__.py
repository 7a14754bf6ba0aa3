"""Agents of the compression family: one method throughout, rules of the cost model, the optimum.

All but the oracle read the observation and the public job: its cost model and the losses of the methods.
"""

from __future__ import annotations

from sysgym.agents.info import AgentInfo

_FAMILY = "compression"


def _heuristic(name: str, entry: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    return AgentInfo(
        name, summary, f"sysgym.agents.compression.{entry}", privileged=privileged, family=_FAMILY
    )


AGENTS = (
    _heuristic("never", "constant:Never", "no compression"),
    _heuristic("half_precision", "constant:HalfPrecision", "16 bits per value"),
    _heuristic("powersgd_1", "constant:PowerSGD1", "PowerSGD of rank 1"),
    _heuristic("powersgd_4", "constant:PowerSGD4", "PowerSGD of rank 4"),
    _heuristic("powersgd_8", "constant:PowerSGD8", "PowerSGD of rank 8"),
    _heuristic("powersgd_16", "constant:PowerSGD16", "PowerSGD of rank 16"),
    _heuristic("top_k_1_percent", "constant:TopK1Percent", "Top-K with 1 % of the values"),
    _heuristic("top_k_10_percent", "constant:TopK10Percent", "Top-K with 10 % of the values"),
    _heuristic("sign", "constant:Sign", "sign-SGD with majority vote"),
    _heuristic("compression/random", "constant:RandomAgent", "a uniformly random method in every window"),
    _heuristic("crossover", "rules:CrossoverAgent", "the method with the most expected progress per second"),
    _heuristic("accordion", "rules:AccordionAgent", "strong compression, but not in critical phases"),
    _heuristic(
        "compression/oracle",
        "oracle:OracleAgent",
        "the fastest run, by a dynamic program that knows all conditions",
        privileged=True,
    ),
)
"""Agents of the family, besides the general learning algorithms with discrete actions."""
