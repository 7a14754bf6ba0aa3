"""Presets of FlowCC by name: ways of being a flow's sender, one file each.

A new one is a file with a :class:`Preset` and a line in the list below, or a user's own file, given with
``--plugin``, that calls :func:`register_preset`.
"""

from __future__ import annotations

from sysgym.envs.congestion.flow.presets.aurora import AURORA
from sysgym.envs.congestion.flow.presets.base import Feature, FlowReward, Preset, clipped
from sysgym.envs.congestion.flow.presets.datacenter import DATACENTER
from sysgym.envs.congestion.flow.presets.orca import ORCA
from sysgym.scenarios.errors import SysgymError, UnknownName

__all__ = [
    "PRESETS",
    "REWARDS",
    "Feature",
    "FlowReward",
    "Preset",
    "clipped",
    "get_flow_reward",
    "get_preset",
    "register_flow_reward",
    "register_preset",
]

PRESETS: dict[str, Preset] = {preset.name: preset for preset in (AURORA, DATACENTER, ORCA)}

REWARDS: dict[str, FlowReward] = {preset.reward.name: preset.reward for preset in PRESETS.values()}


def register_preset(preset: Preset) -> Preset:
    """Make a preset, and its reward, known by their names.

    Raises:
        SysgymError: If another preset, or another reward, has the name.
    """
    if PRESETS.get(preset.name, preset) != preset:
        raise SysgymError(f'there is a preset "{preset.name}" already')
    register_flow_reward(preset.reward)
    PRESETS[preset.name] = preset
    return preset


def register_flow_reward(reward: FlowReward) -> FlowReward:
    """Make a reward of flows known by its name.

    Raises:
        SysgymError: If another reward has the name.
    """
    if REWARDS.get(reward.name, reward) != reward:
        raise SysgymError(f'there is a reward of a flow "{reward.name}" already')
    REWARDS[reward.name] = reward
    return reward


def get_preset(preset: str | Preset) -> Preset:
    """Return a preset by its name, or as it is; raises UnknownName."""
    if isinstance(preset, Preset):
        return preset
    if preset not in PRESETS:
        raise UnknownName("preset", preset, PRESETS)
    return PRESETS[preset]


def get_flow_reward(reward: str | FlowReward) -> FlowReward:
    """Return a reward of flows by its name, or as it is; raises UnknownName."""
    if isinstance(reward, FlowReward):
        return reward
    if reward not in REWARDS:
        raise UnknownName("reward of a flow", reward, REWARDS)
    return REWARDS[reward]
