"""Algorithms of collective libraries, which use the order of the devices but not the links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sysgym.agents.collectives.base import Synthesizer
from sysgym.agents.collectives.logical import direct_plan, doubling_plan, ring_plan, tour, tree_plan
from sysgym.emulator.collectives.collective import Phase
from sysgym.emulator.collectives.schedule import Plan, Schedule
from sysgym.emulator.collectives.spread import Spread
from sysgym.emulator.collectives.task import SynthesisTask

PlanOf = Callable[[Phase], Plan]


class LibraryAgent(Synthesizer):
    """Base class of agents with a library algorithm, which use the fastest of its variants."""

    def variants(self, task: SynthesisTask) -> Sequence[PlanOf]:
        """Return the variants: functions that return the plan of a phase."""
        raise NotImplementedError

    def plans(self, task: SynthesisTask, rng: np.random.Generator) -> list[Plan]:
        """Return the plans of the fastest variant."""
        found = [[plan_of(phase) for phase in task.collective.phases] for plan_of in self.variants(task)]
        return min(found, key=lambda plans: Schedule.of_plans(task, plans).time_s)

    def phase_plan(self, start: Spread, rng: np.random.Generator) -> Plan:
        """Return the plan of the first variant."""
        return self.variants(start.task)[0](start.phase)


class RingAgent(LibraryAgent):
    """A ring along a short tour of the system, one way around or both, whichever is faster."""

    name = "ring"

    def variants(self, task: SynthesisTask) -> Sequence[PlanOf]:
        """Return the ring in both directions, and in one."""
        order = tour(task)
        return (
            lambda phase: ring_plan(task, phase, order, both_ways=True),
            lambda phase: ring_plan(task, phase, order, both_ways=False),
        )


class TreeAgent(LibraryAgent):
    """Binary trees, one rooted at each owner; chunks of one owner alternate between mirror images."""

    name = "tree"

    def variants(self, task: SynthesisTask) -> Sequence[PlanOf]:
        """Return the trees in tour order and in device order."""
        return _along_orders(task, tree_plan)


class DoublingAgent(LibraryAgent):
    """Recursive doubling (mirrored: halving); Bruck's algorithm if the group size is not a power of two."""

    name = "doubling"

    def variants(self, task: SynthesisTask) -> Sequence[PlanOf]:
        """Return doubling in tour order and in device order."""
        return _along_orders(task, doubling_plan)


class DirectAgent(LibraryAgent):
    """Every owner sends to all devices that want its chunk, on the fastest paths."""

    name = "direct"

    def variants(self, task: SynthesisTask) -> Sequence[PlanOf]:
        """Return direct sending in tour order and in device order."""
        return _along_orders(task, direct_plan)


def _along_orders(
    task: SynthesisTask, plan: Callable[[SynthesisTask, Phase, list[int]], Plan]
) -> Sequence[PlanOf]:
    shortest, numbered = tour(task), list(task.collective.members)
    return (lambda phase: plan(task, phase, shortest), lambda phase: plan(task, phase, numbered))
