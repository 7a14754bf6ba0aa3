"""Observation: measured factors of workers and links, what was done, and what it would cost."""

from __future__ import annotations

from typing import NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.failslow.run import Action, FailSlowRun
from sysgym.envs.observations import Column, Observer, clipped, limits, table_space
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
    "stage": _factor("measured factor of the slowest stage, the median of its workers'"),
    "stage_fast": _factor("its moving mean over some windows"),
    "stage_slow": _factor("its moving mean over many windows"),
    "link": _factor("measured factor of the exchange"),
    "link_fast": _factor("its moving mean over some windows"),
    "link_slow": _factor("its moving mean over many windows"),
    "step": _factor("measured time of a step, over a healthy one's"),
    "step_rebalanced": _factor("the same after microbatches were moved, as expected by the closed form"),
    "step_moved": _factor("the same after layers were moved, likewise"),
    "worst_for": _cost("time since the slow moving mean of the slowest worker was below 1.1"),
    "stage_for": _cost("time since the slow moving mean of the slowest stage was below 1.1"),
    "link_for": _cost("time since the slow moving mean of the exchange was below 1.2"),
    "imbalance": Column(
        "slowest pace by which microbatches are dealt, over the fastest one, less 1", "ratio", 0.0, MOST
    ),
    "moved": Column("stages that do not end where they ended at first", "share", 0.0, 1.0),
    "since_action": _cost("time since the last action; 20 before the first"),
    "since_checkpoint": _cost("work that a restart would lose"),
    "left": _cost("work that is left"),
    "rebalance_cost": _cost("pause to move microbatches"),
    "move_layers_cost": _cost("pause to move layers"),
    "reroute_cost": _cost("pause to move traffic away from slow links"),
    "replace_cost": _cost("pause to replace the slowest worker"),
    "checkpoint_cost": _cost("pause to write a checkpoint"),
    "restart_cost": _cost("pause to restart"),
    "paused": Column("an action is under way", "0 or 1", 0.0, 1.0),
}
"""Columns of the observation."""

_LIMITS = limits(COLUMNS)


class Tracked(NamedTuple):
    """What is remembered of measurements, each value for the slowest worker, the slowest stage, the exchange.

    Attributes:
        means: Moving means of the logarithms of the factors, by memory, shape (2, 3).
        since_s: For how long the slow mean has been high, shape (3,).
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
        rebalanced: Expected time of a step after microbatches were moved, over a healthy one's.
        moved: The same after layers were moved.
    """

    run: FailSlowRun
    tracked: Tracked
    rebalanced: float
    moved: float


def now_measured(run: FailSlowRun) -> NDArray[np.float64]:
    """Return the logarithms of the measured factors of slowest worker, slowest stage and exchange."""
    return np.log([run.measured.max(), np.median(run.measured, axis=0).max(), run.measured_link])


class FailSlowNumbers:
    """Default observation of ``sysgym/FailSlow-v0``, a vector of numbers."""

    def space(self, setting: FailSlowScenario) -> gym.spaces.Box:
        """Return the space."""
        return table_space(COLUMNS)

    def observe(self, state: FailSlowState) -> NDArray[np.float32]:
        """Return the observation of a state."""
        run, tracked = state.run, state.tracked
        by_replica = np.sort(run.measured.max(axis=1))
        worst, stage, link = now_measured(run)
        other = np.array(run.plan.ends) != np.array(run.times.first.ends)
        row = [
            worst,
            *tracked.means[:, 0],
            np.log(by_replica[-2]),
            stage,
            *tracked.means[:, 1],
            link,
            *tracked.means[:, 2],
            np.log(run.measured_step),
            np.log(state.rebalanced),
            np.log(state.moved),
            *(tracked.since_s / 3600.0),
            max(run.plan.pace) - 1.0,
            other.mean(),
            tracked.action_s / 3600.0,
            run.since_checkpoint_s / 3600.0,
            (run.work_s - run.progress_s) / 3600.0,
            *(run.pause_s(action) / 3600.0 for action in list(Action)[1:]),
            float(run.paused),
        ]
        return clipped(row, _LIMITS)


OBSERVERS: dict[str, Observer[FailSlowScenario, FailSlowState]] = {"default": FailSlowNumbers()}
"""Observations of ``sysgym/FailSlow-v0``."""
