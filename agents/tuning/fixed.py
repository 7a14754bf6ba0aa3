"""Agents with a plan from a rule or from a dynamic program."""

from __future__ import annotations

import numpy as np

from sysgym.agents.arguments import in_range
from sysgym.agents.plan_tuning import PlanningAgent
from sysgym.emulator.tuning.plans import MIB, by_need, capped, fused, pytorch_default
from sysgym.emulator.tuning.timing import Plan
from sysgym.envs.tuning.tuning import TrainingTuning


class TuningAgent(PlanningAgent[TrainingTuning]):
    """Base class of agents that measure one plan of buckets and stop."""

    plays = TrainingTuning


class CappedBuckets(TuningAgent):
    """Buckets of a size, by the rule of PyTorch's DistributedDataParallel.

    Args:
        cap_mib: Size at which a bucket is closed, MiB; None: PyTorch's default, 1 MiB for the first bucket
            and 25 MiB for the others.

    Raises:
        SysgymError: If the size is not positive.
    """

    name = "25_mb"

    def __init__(self, cap_mib: float | None = None) -> None:
        self._cap_bytes = None
        if cap_mib is not None:
            self._cap_bytes = MIB * in_range(self.name, "cap_mib", cap_mib, above=0.0)

    def plan(self, world: TrainingTuning) -> Plan:
        """Return the plan."""
        if self._cap_bytes is None:
            return pytorch_default(world.profile)
        return capped(world.profile, self._cap_bytes)


class BestCap(TuningAgent):
    """The best of 20 bucket sizes by the profile, in the order of readiness or of need."""

    name = "best_cap"

    def plan(self, world: TrainingTuning) -> Plan:
        """Return the plan."""
        profile = world.profile
        total_bytes = float(profile.gradient_bytes.sum())
        plans = [capped(profile, cap) for cap in np.geomspace(total_bytes / 200.0, total_bytes, 20)]
        return min([*plans, *(by_need(plan) for plan in plans)], key=world.predict)


class Fusion(TuningAgent):
    """The exact fusion of gradients on one channel, sent as they become ready."""

    name = "fusion"

    def plan(self, world: TrainingTuning) -> Plan:
        """Return the plan."""
        return fused(world.profile)


class FusionByNeed(TuningAgent):
    """Exact fusion, with the buckets that the next forward pass needs first sent first."""

    name = "fusion_by_need"

    def plan(self, world: TrainingTuning) -> Plan:
        """Return the plan."""
        return by_need(fused(world.profile))
