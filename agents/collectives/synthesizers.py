"""Agents that synthesise a schedule for the links at hand: matchings, searches, an integer program."""

from __future__ import annotations

import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.collectives.base import Synthesizer
from sysgym.agents.collectives.milp import check_size, optimal_plan
from sysgym.agents.collectives.search import RULES, TACOS_LIKE, annealing, restarts
from sysgym.emulator.collectives.schedule import Plan
from sysgym.emulator.collectives.spread import Spread


class TacosAgent(Synthesizer):
    """Random matchings of free links and chunks, after TACOS; the best of several runs.

    Args:
        runs: Number of matchings for a phase.
    """

    name, STREAM = "tacos", 0x7AC05

    def __init__(self, runs: int = 16) -> None:
        """Set the number of matchings."""
        self.runs = in_range(self.name, "runs", runs, least=1)

    def phase_plan(self, start: Spread, rng: np.random.Generator) -> Plan:
        """Return the best of the matchings."""
        return restarts(start, TACOS_LIKE, self.runs, rng)


class RestartsAgent(Synthesizer):
    """Matchings by several rules, some of which wait for faster links; the best of several runs.

    Args:
        runs: Number of matchings for a phase.
    """

    name, STREAM = "restarts", 0x5E57A

    def __init__(self, runs: int = 32) -> None:
        """Set the number of matchings."""
        self.runs = in_range(self.name, "runs", runs, least=1)

    def phase_plan(self, start: Spread, rng: np.random.Generator) -> Plan:
        """Return the best of the matchings."""
        return restarts(start, RULES, self.runs, rng)


class AnnealingAgent(Synthesizer):
    """Simulated annealing of the keys that order chunks in the best rule's matching.

    Args:
        runs: Number of matchings for a phase.
    """

    name, STREAM = "annealing", 0xA22EA

    def __init__(self, runs: int = 200) -> None:
        """Set the number of matchings."""
        self.runs = in_range(self.name, "runs", runs, least=1)

    def phase_plan(self, start: Spread, rng: np.random.Generator) -> Plan:
        """Return the best plan found."""
        return annealing(start, self.runs, rng)


class MilpAgent(Synthesizer):
    """The optimum of small tasks by mixed-integer programs, with the schedule of annealing as upper bound.

    Each phase is solved separately, so an all-reduce is the sum of two optima. The plan of a reduction is
    optimal before it is reversed, which makes no difference without switches. Larger tasks raise an error.
    """

    name, STREAM = "milp", 0x3117

    def phase_plan(self, start: Spread, rng: np.random.Generator) -> Plan:
        """Return the optimal plan of the phase on free links."""
        alone = Spread(start.task, start.phase)
        check_size(alone)
        first = annealing(alone, 100, rng)
        played = alone.fork()
        for chunk, hop in zip(first.chunks, first.hops, strict=True):
            played.send(chunk, hop)
        return optimal_plan(alone, first, played.time_s)[0]
