"""Observation: measured factors of workers and links, what was done, and what it would cost."""

from __future__ import annotations

from typing import NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.failslow.run import Action, FailSlowRun
from sysgym.envs.observations import Column, Observer, table_space
from sysgym.scenarios.schema.failslow import FailSlowScenario

MOST = 20.0
MEMORIES = (0.5, 0.9)
"""Weights of the moving means."""


def _factor(meaning: str) -> Column:
    return Column(meaning, "ln of the factor", -MOST, MOST)


def _cost(meaning: str) -> Column:
    return Column(meaning, "h", 0.0, MOST)


COLUMNS: dict[str, Column] = {
    "worst": _factor("measured factor of the slowest worker"),
    "worst_fast": _factor("its moving mean over some windows"),
    "worst_slow": _factor("its moving mean over many windows"),
    "second": _factor("measured factor of the slowest worker of the other replicas"),
    "link": _factor("measured factor of the exchange"),
    "link_fast": _factor("its moving mean over some windows"),
    "link_slow": _factor("its moving mean over many windows"),
    "step": _factor("time of a step by the measured factors, over a healthy one's"),
    "step_rebalanced": _factor("the same after microbatches were moved"),
    "worst_for": _cost("time since the slow moving mean of the slowest worker was below 1.1"),
    "link_for": _cost("time since the slow moving mean of the exchange was below 1.2"),
    "imbalance": Column("most microbatches of a replica over the mean, less 1", "ratio", 0.0, MOST),
    "since_action": _cost("time since the last action; 20 before the first"),
    "since_checkpoint": _cost("work that a restart would lose"),
    "left": _cost("work that is left"),
    "rebalance_cost": _cost("pause to move microbatches"),
    "reroute_cost": _cost("pause to move traffic away from slow links"),
    "replace_cost": _cost("pause to replace the slowest worker"),
    "restart_cost": _cost("pause to restart"),
    "paused": Column("an action is under way", "0 or 1", 0.0, 1.0),
}
"""Columns of the observation."""

_LOW, _HIGH = (np.array([getattr(column, end) for column in COLUMNS.values()]) for end in ("low", "high"))


class Tracked(NamedTuple):
    """What is remembered of measurements, each value for the slowest worker and for the exchange.

    Attributes:
        means: Moving means of the logarithms of the factors, by memory, shape (2, 2).
        since_s: For how long the slow mean has been high, shape (2,).
        action_s: Time since the last action.
    """

    means: NDArray[np.float64]
    since_s: NDArray[np.float64]
    action_s: float


class FailSlowState(NamedTuple):
    """What an agent may know of an episode.

    Attributes:
        run: The run; only its measurements and settings are used.
        tracked: What is remembered of them.
        step: Time of a step by the measured factors, over a healthy one's.
        rebalanced: The same after microbatches were moved.
    """

    run: FailSlowRun
    tracked: Tracked
    step: float
    rebalanced: float


class FailSlowNumbers:
    """Default observation of ``sysgym/FailSlow-v0``, a vector of numbers."""

    def space(self, setting: FailSlowScenario) -> gym.spaces.Box:
        """Return the space."""
        return table_space(COLUMNS)

    def observe(self, state: FailSlowState) -> NDArray[np.float32]:
        """Return the observation of a state."""
        run, tracked = state.run, state.tracked
        by_replica = np.sort(run.measured.max(axis=1))
        counts = run.microbatches
        worst, link = np.log(by_replica[-1]), np.log(run.measured_link)
        row = [
            worst,
            *tracked.means[:, 0],
            np.log(by_replica[-2]),
            link,
            *tracked.means[:, 1],
            np.log(state.step),
            np.log(state.rebalanced),
            *(tracked.since_s / 3600.0),
            counts.max() / counts.mean() - 1.0,
            tracked.action_s / 3600.0,
            run.since_checkpoint_s / 3600.0,
            (run.work_s - run.progress_s) / 3600.0,
            *(run.pause_s(action) / 3600.0 for action in list(Action)[1:]),
            float(run.paused),
        ]
        return np.asarray(np.clip(row, _LOW, _HIGH), np.float32)


OBSERVERS: dict[str, Observer[FailSlowScenario, FailSlowState]] = {"default": FailSlowNumbers()}
"""Observations of ``sysgym/FailSlow-v0``."""
