"""Rewards by name, pure functions of what happened in a window."""

from __future__ import annotations

from typing import NamedTuple

from sysgym.emulator.compression.run import Window
from sysgym.envs.rewards import Reward, Weights


class WindowOutcome(NamedTuple):
    """Outcome of a window.

    Attributes:
        window: What happened.
        interval_s: Length of a whole window.
        iterations: Iterations of progress that the job needs.
        never_s: Time of the whole job without compression.
    """

    window: Window
    interval_s: float
    iterations: float
    never_s: float


def relative(outcome: WindowOutcome, weights: Weights) -> dict[str, float]:
    """Return the progress, over what no compression would have made in a window, minus the time used."""
    window = outcome.window
    scale = window.uncompressed_s / outcome.interval_s
    lost = window.iterations - (window.progress + window.rebuilt)
    ahead = window.iterations - window.used_s / window.uncompressed_s
    return {
        "speed": weights["speed"] * ahead * scale,
        "loss": -weights["loss"] * lost * scale,
        "rebuild": -weights["rebuild"] * window.rebuilt * scale,
    }


def saved(outcome: WindowOutcome, weights: Weights) -> dict[str, float]:
    """Return the share of the job that was done, minus the share of its time without compression."""
    return {
        "progress": weights["progress"] * outcome.window.progress / outcome.iterations,
        "time": -weights["time"] * outcome.window.used_s / outcome.never_s,
    }


REWARDS: dict[str, Reward[WindowOutcome]] = {
    "default": Reward(
        "default",
        relative,
        {"speed": 1.0, "loss": 1.0, "rebuild": 1.0},
        "progress a second over that without compression at the same instant, minus 1",
    ),
    "saved": Reward(
        "saved",
        saved,
        {"progress": 1.0, "time": 1.0},
        "share of the job done, minus the time over that of the job without compression",
    ),
}
"""Rewards of ``sysgym/GradCompress-v0``."""
