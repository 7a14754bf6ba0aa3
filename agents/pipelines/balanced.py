"""Agents with one plan, made from the profile."""

from __future__ import annotations

from sysgym.agents.plan_tuning import PlanningAgent
from sysgym.emulator.pipelines.balancing import balanced_ranks, balanced_stages
from sysgym.emulator.pipelines.plans import Plan
from sysgym.envs.pipelines.pipeline_tuning import PipelineTuning


class PipelineAgent(PlanningAgent[PipelineTuning]):
    """Base class of agents that measure one plan and stop."""

    plays = PipelineTuning


class Unchanged(PipelineAgent):
    """The initial plan, unchanged."""

    name = "unchanged"

    def plan(self, world: PipelineTuning) -> Plan:
        """Return the plan."""
        return world.plan


class BalancedStages(PipelineAgent):
    """The division of layers whose slowest stage is fastest."""

    name = "balanced_stages"

    def plan(self, world: PipelineTuning) -> Plan:
        """Return the plan."""
        return balanced_stages(world.pipeline, world.plan)


class LongestFirst(PipelineAgent):
    """Microbatches by Graham's rule: the longest first, to the least loaded rank."""

    name = "longest_first"

    def plan(self, world: PipelineTuning) -> Plan:
        """Return the plan."""
        return balanced_ranks(world.pipeline, world.plan)


class Balanced(PipelineAgent):
    """Layers and microbatches balanced."""

    name = "balanced"

    def plan(self, world: PipelineTuning) -> Plan:
        """Return the plan."""
        return balanced_ranks(world.pipeline, balanced_stages(world.pipeline, world.plan))
