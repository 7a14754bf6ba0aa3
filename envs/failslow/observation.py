"""Observation: measured factors of workers and links, past actions, and costs of actions."""

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
    "worst_fast": _factor("short moving mean of the same"),
    "worst_slow": _factor("long moving mean of the same"),
    "second": _factor("measured factor of the slowest worker of the other replicas"),
    "stage": _factor("measured factor of the slowest stage, the median of its workers'"),
    "stage_fast": _factor("short moving mean of the same"),
    "stage_slow": _factor("long moving mean of the same"),
    "link": _factor("measured factor of the exchange"),
    "link_fast": _factor("short moving mean of the same"),
    "link_slow": _factor("long moving mean of the same"),
    "step": _factor("measured time of a step, over a healthy one's"),
    "step_rebalanced": _factor("the same after microbatches were moved, as expected by the closed form"),
    "step_moved": _factor("the same after layers were moved, likewise"),
    "worst_for": _cost("time since the long moving mean of the slowest worker was below 1.1"),
    "stage_for": _cost("time since the long moving mean of the slowest stage was below 1.1"),
    "link_for": _cost("time since the long moving mean of the exchange was below 1.2"),
    "imbalance": Column(
        "slowest pace assumed when distributing microbatches, over the fastest, less 1", "ratio", 0.0, MOST
    ),
    "moved": Column("stages whose last layer is not the initial one", "share", 0.0, 1.0),
    "since_action": _cost("time since the last action; 20 before the first"),
    "since_checkpoint": _cost("work that a restart would lose"),
    "left": _cost("work that is left, exact"),
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
    """Memory of measurements; each value is for the slowest worker, the slowest stage and the exchange.

    Attributes:
        means: Moving means of the logarithms of the factors, by memory, shape (2, 3).
        since_s: Time for which the long mean has been high, shape (3,).
        action_s: Time since the last action.
    """

    means: NDArray[np.float64]
    since_s: NDArray[np.float64]
    action_s: float


class FailSlowState(NamedTuple):
    """State of an episode, as far as an agent may know it: no true factors, and no faults.

    Attributes:
        measured: Measured factors of all workers, shape (n_replicas, n_stages).
        measured_link: Measured factor of the exchange.
        measured_step: Measured time of a step over a healthy one's.
        tracked: Memory of the measurements.
        rebalanced: Expected time of a step after microbatches were moved, over a healthy one's.
        moved: The same after layers were moved.
        paces: Paces assumed when distributing microbatches, by replica.
        ends_moved: Whether the last layer of a stage is not the initial one, by stage.
        since_checkpoint_s: Work that a restart would lose, s of a healthy job.
        left_s: Work that is left, s of a healthy job.
        pauses_s: Pause of each action but ``NONE``, in the order of ``Action``.
        paused: Whether an action is still under way.
    """

    measured: NDArray[np.float64]
    measured_link: float
    measured_step: float
    tracked: Tracked
    rebalanced: float
    moved: float
    paces: tuple[float, ...]
    ends_moved: NDArray[np.bool_]
    since_checkpoint_s: float
    left_s: float
    pauses_s: NDArray[np.float64]
    paused: bool


def state_of(run: FailSlowRun, tracked: Tracked) -> FailSlowState:
    """Return what an agent may know of a run, with its memory of the measurements."""
    noticed, link, times = run.noticed(), run.measured_link, run.times
    now_s = times.expected_s(noticed, link, run.plan)
    rebalanced, moved = (
        run.measured_step * times.expected_s(noticed, link, plan) / now_s
        for plan in (run.rebalanced(), run.moved())
    )
    return FailSlowState(
        run.measured.copy(),
        link,
        run.measured_step,
        tracked,
        rebalanced,
        moved,
        tuple(run.plan.pace),
        np.array(run.plan.ends) != np.array(times.first.ends),
        run.since_checkpoint_s,
        run.work_s - run.progress_s,
        np.array([run.pause_s(action) for action in list(Action)[1:]]),
        run.paused,
    )


def now_measured(measured: NDArray[np.float64], measured_link: float) -> NDArray[np.float64]:
    """Return the logarithms of the measured factors of slowest worker, slowest stage and exchange."""
    return np.log([measured.max(), np.median(measured, axis=0).max(), measured_link])


class FailSlowNumbers:
    """Default observation of ``sysgym/FailSlow-v0``, a vector of numbers."""

    def space(self, setting: FailSlowScenario) -> gym.spaces.Box:
        """Return the space."""
        return table_space(COLUMNS)

    def observe(self, state: FailSlowState) -> NDArray[np.float32]:
        """Return the observation of a state."""
        tracked = state.tracked
        by_replica = np.sort(state.measured.max(axis=1))
        worst, stage, link = now_measured(state.measured, state.measured_link)
        row = [
            worst,
            *tracked.means[:, 0],
            np.log(by_replica[-2]),
            stage,
            *tracked.means[:, 1],
            link,
            *tracked.means[:, 2],
            np.log(state.measured_step),
            np.log(state.rebalanced),
            np.log(state.moved),
            *(tracked.since_s / 3600.0),
            max(state.paces) - 1.0,
            state.ends_moved.mean(),
            tracked.action_s / 3600.0,
            state.since_checkpoint_s / 3600.0,
            state.left_s / 3600.0,
            *(state.pauses_s / 3600.0),
            float(state.paused),
        ]
        return clipped(row, _LIMITS)


OBSERVERS: dict[str, Observer[FailSlowScenario, FailSlowState]] = {"default": FailSlowNumbers()}
"""Observations of ``sysgym/FailSlow-v0``."""
