"""Rendering of episodes: devices in boxes, programs as timelines, candidates as points."""

from sysgym.envs.placement.render.joint import JointScene, joint_picture, joint_text
from sysgym.envs.placement.render.placement import PlacementScene, placement_picture, placement_text
from sysgym.envs.placement.render.program import ProgramScene, program_picture, program_text

__all__ = [
    "JointScene",
    "PlacementScene",
    "ProgramScene",
    "joint_picture",
    "joint_text",
    "placement_picture",
    "placement_text",
    "program_picture",
    "program_text",
]
