"""Rewards by name, pure functions of what happened in a step."""

from __future__ import annotations

from typing import NamedTuple

from sysgym.emulator.bursts.multiplexing import Window
from sysgym.envs.rewards import Reward, Weights


class LayerOutcome(NamedTuple):
    """Outcome of a layer's GPU count.

    Attributes:
        time: Time that the layer adds to an iteration, over that of the iteration on one GPU.
        idle: Idle GPU time during the layer, over the number of GPUs and the time of an iteration on one GPU,
            times its value.
    """

    time: float
    idle: float


class WindowOutcome(NamedTuple):
    """Outcome of a window of background work.

    Attributes:
        window: What happened.
        excess: Slowdown of the foreground beyond the limit.
    """

    window: Window
    excess: float


def plan_price(outcome: LayerOutcome, weights: Weights) -> dict[str, float]:
    """Return minus the time of the layer, plus the value of the GPUs that are idle."""
    return {"time": -weights["time"] * outcome.time, "idle": weights["idle"] * outcome.idle}


def throughput(outcome: WindowOutcome, weights: Weights) -> dict[str, float]:
    """Return the throughput of foreground and background, minus a penalty for a slow foreground."""
    window = outcome.window
    return {
        "foreground": weights["foreground"] / window.slowdown,
        "background": weights["background"] * window.background,
        "excess": -weights["excess"] * outcome.excess,
    }


PLAN_REWARDS: dict[str, Reward[LayerOutcome]] = {
    "default": Reward(
        "default",
        plan_price,
        {"time": 1.0, "idle": 1.0},
        "minus the price of the layer: its time less the value of the idle GPUs",
    ),
}
"""Rewards of ``sysgym/BurstPlan-v0``."""

MUX_REWARDS: dict[str, Reward[WindowOutcome]] = {
    "default": Reward(
        "default",
        throughput,
        {"foreground": 1.0, "background": 1.0, "excess": 10.0},
        "throughput of foreground and background, minus ten times the excess of the slowdown",
    ),
}
"""Rewards of ``sysgym/BurstMux-v0``."""
