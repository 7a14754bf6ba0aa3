"""Presets of FlowCC by name, one file each.

To add a preset, write a file with a :class:`Preset` and add a line to the list below and
to the tables of ``flow_cc.py``, or call :func:`register_preset` in your own file, loaded with ``--plugin``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.envs.congestion.flow.presets.aurora import AURORA
from sysgym.envs.congestion.flow.presets.base import Feature, FlowReward, Preset, clipped
from sysgym.envs.congestion.flow.presets.datacenter import DATACENTER
from sysgym.envs.congestion.flow.presets.orca import ORCA
from sysgym.scenarios.errors import SysgymError, UnknownName
from sysgym.scenarios.schema.tables import Reward

__all__ = [
    "PRESETS",
    "REWARDS",
    "Feature",
    "FlowReward",
    "Preset",
    "clipped",
    "flow_reward_and_weights",
    "get_flow_reward",
    "get_preset",
    "register_flow_reward",
    "register_preset",
]

PRESETS: dict[str, Preset] = {preset.name: preset for preset in (AURORA, DATACENTER, ORCA)}

REWARDS: dict[str, FlowReward] = {preset.reward.name: preset.reward for preset in PRESETS.values()}


def register_preset(preset: Preset) -> Preset:
    """Register a preset and its reward by name.

    Raises:
        SysgymError: If another preset or another reward has the name.
    """
    if PRESETS.get(preset.name, preset) != preset:
        raise SysgymError(f'the preset "{preset.name}" exists already')
    register_flow_reward(preset.reward)
    PRESETS[preset.name] = preset
    return preset


def register_flow_reward(reward: FlowReward) -> FlowReward:
    """Register a flow reward by name.

    Raises:
        SysgymError: If another reward has the name.
    """
    if REWARDS.get(reward.name, reward) != reward:
        raise SysgymError(f'the flow reward "{reward.name}" exists already')
    REWARDS[reward.name] = reward
    return reward


def get_preset(preset: str | Preset) -> Preset:
    """Return a preset given by name or as an object; raises UnknownName."""
    if isinstance(preset, Preset):
        return preset
    if preset not in PRESETS:
        raise UnknownName("preset", preset, PRESETS)
    return PRESETS[preset]


def get_flow_reward(reward: str | FlowReward) -> FlowReward:
    """Return a flow reward given by name or as an object; raises UnknownName."""
    if isinstance(reward, FlowReward):
        return reward
    if reward not in REWARDS:
        raise UnknownName("reward of a flow", reward, REWARDS)
    return REWARDS[reward]


def flow_reward_and_weights(
    preset: Preset, table: Reward, reward: str | FlowReward | None
) -> tuple[FlowReward, NDArray[np.float64]]:
    """Return the reward of a sender, and the weights of its terms in their order.

    The weights of the scenario belong to the scenario's reward. Another one has its own weights.

    Args:
        preset: Preset of the sender, which has a reward.
        table: Table ``reward`` of the scenario.
        reward: Reward that the caller asks for, or its name; None: that of the scenario, or of the preset if
            the scenario names none.

    Raises:
        UnknownName: If there is no such reward, or it has no weight that the scenario sets.
    """
    of_scenario = preset.reward if table.name == "default" else REWARDS.get(table.name)
    chosen = get_flow_reward(reward or of_scenario or table.name)
    return chosen, chosen.weight_array(table.weights if chosen == of_scenario else {})
