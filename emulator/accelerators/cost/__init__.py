"""What collectives cost: closed forms, NCCL's constants, shared links, programs and placements, bounds."""

from sysgym.emulator.accelerators.cost.model import PROGRAMS, CostModel, Programs, StepCost, synthesis_space
from sysgym.emulator.accelerators.cost.nccl import SIMAI_2_NODES, SIMAI_128_NODES, EfficiencyCurve

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
