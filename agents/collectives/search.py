"""Searches over greedy matchings: random restarts, and annealing of the keys of chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sysgym.agents.collectives.matching import Rule, match, random_keys
from sysgym.emulator.collectives.collective import Phase
from sysgym.emulator.collectives.network import FloatArray
from sysgym.emulator.collectives.schedule import Plan, Schedule
from sysgym.emulator.collectives.spread import Spread

TACOS_LIKE = (Rule(),)
"""A link takes the first chunk that it can send; ties are broken at random."""

RULES = (Rule(1.0, 1.0), Rule(1.0, 0.0), Rule(0.5, 1.0), Rule(0.0, 1.0), Rule(0.0, 0.0))
"""Rules that restarts use in turns; the best one depends on the system."""

HOTTEST, COLDEST = 0.05, 0.002
"""Temperatures of annealing, in the natural logarithm of time."""

REDRAWN = 0.05
"""Share of the keys that a move of annealing draws again."""


def restarts(start: Spread, rules: Sequence[Rule], runs: int, rng: np.random.Generator) -> Plan:
    """Return the best of several matchings: one per rule without keys, the others with random keys.

    Args:
        start: State at the beginning of a phase; it is not changed.
        rules: Rules, used in turns.
        runs: Number of matchings.
        rng: Generator of the keys.
    """
    best: Plan | None = None
    best_s = math.inf
    for run in range(runs):
        spread = start.fork()
        keys = None if run < len(rules) else random_keys(spread.task, rng)
        plan = match(spread, rules[run % len(rules)], keys)
        time_s = _time_s(spread, plan)
        if time_s < best_s:
            best, best_s = plan, time_s
    assert best is not None
    return best


def annealing(start: Spread, runs: int, rng: np.random.Generator) -> Plan:
    """Return the best plan found by simulated annealing of keys (Kirkpatrick et al., Science 220, 1983).

    Every rule of :data:`RULES` is tried once, and the search continues with the best one. A move draws some
    keys again; the energy is the logarithm of the time.

    Args:
        start: State at the beginning of a phase; it is not changed.
        runs: Number of matchings.
        rng: Generator of moves.
    """
    spreads = [start.fork() for _ in RULES]
    plans = [match(spread, rule) for spread, rule in zip(spreads, RULES, strict=True)]
    times_s = [_time_s(spread, plan) for spread, plan in zip(spreads, plans, strict=True)]
    first = int(np.argmin(times_s))
    rule, best = RULES[first], plans[first]
    keys: FloatArray = np.zeros(start.state.missing.shape)
    energy = least = math.log(times_s[first])
    for run in range(len(RULES), runs):
        progress = (run - len(RULES)) / max(runs - len(RULES), 1)
        temperature = HOTTEST * (COLDEST / HOTTEST) ** progress
        redrawn = rng.random(keys.shape) < REDRAWN
        moved = np.where(redrawn, rng.random(keys.shape), keys)
        spread = start.fork()
        plan = match(spread, rule, moved)
        found = math.log(_time_s(spread, plan))
        if found <= energy or rng.random() < math.exp((energy - found) / temperature):
            keys, energy = moved, found
        if found < least:
            best, least = plan, found
    return best


def _time_s(spread: Spread, plan: Plan) -> float:
    """Return the time at the end of a phase.

    The plan of a reduction is reversed, which changes its time where hops have several links.
    """
    several_links = spread.hops.paths.shape[1] > 1
    if spread.phase is Phase.REDUCE and several_links:
        return Schedule.of_plans(spread.task, [plan]).time_s
    return spread.time_s
