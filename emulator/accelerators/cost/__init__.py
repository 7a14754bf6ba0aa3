"""Costs of collectives: shared links, efficiency by size, programs and placements."""

from sysgym.emulator.accelerators.cost.efficiency import SIMAI_2_NODES, SIMAI_128_NODES, EfficiencyCurve
from sysgym.emulator.accelerators.cost.model import PROGRAMS, CostModel, Programs, StepCost, synthesis_space

__all__ = [
    "PROGRAMS",
    "SIMAI_2_NODES",
    "SIMAI_128_NODES",
    "CostModel",
    "EfficiencyCurve",
    "Programs",
    "StepCost",
    "synthesis_space",
]
