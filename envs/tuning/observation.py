"""Observation: buckets as rows of a table, and what they have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.tuning.job import Profile
from sysgym.emulator.tuning.plans import bucket_time_s
from sysgym.emulator.tuning.timing import Plan, Step
from sysgym.envs.observations import Column, Columns, Observer, clipped, flags_space, limits, table_space
from sysgym.scenarios.schema.tuning import TuningScenario

Array = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
Observation = dict[str, Array]
MOST = 20.0


def _time(meaning: str) -> Column:
    return Column(meaning, "share of all computing", -MOST, MOST)


BUCKET_COLUMNS: Columns = {
    "exists": Column("there is a choice in this row", "0 or 1", 0.0, 1.0),
    "stop": Column("the row ends the episode; the others are buckets", "0 or 1", 0.0, 1.0),
    "size": Column("gradients of the bucket", "log10 of MB", -MOST, MOST),
    "layers": Column("layers of the bucket", "share of all", 0.0, 1.0),
    "place": Column("place in the order in which buckets are sent", "share of all", 0.0, 1.0),
    "transfer": _time("time of its transfer, by the profile"),
    "ready": _time("time from which it may be sent, by the profile"),
    "wait": _time("from then until its first byte is sent"),
    "arrival": _time("time at which it has arrived"),
    "slack": _time("from its arrival until its first layer could compute"),
    "stall": _time("time that computing waits for it"),
}
"""Columns of ``buckets``."""

JOB_COLUMNS: Columns = {
    "workers": Column("workers", "log10", 0.0, MOST),
    "compute": Column("time of all computing", "log10 of ms", -MOST, MOST),
    "transfer": _time("time of one bucket with all gradients"),
    "latency": _time("part of each transfer that does not depend on its size"),
    "predicted": _time("time of the step by the profile, less 1"),
    "measured": _time("true time of the step, less 1"),
    "best": _time("least true time so far, less 1"),
    "first": _time("true time at the beginning, less 1"),
    "left": Column("changes left", "share", 0.0, 1.0),
}
"""Columns of ``job``."""

_BUCKET_LIMITS, _JOB_LIMITS = limits(BUCKET_COLUMNS), limits(JOB_COLUMNS)


class TuningState(NamedTuple):
    """State of an episode, as far as an agent may know it.

    Attributes:
        scenario: The drawn scenario.
        profile: The job.
        plan: The present plan.
        expected: Its step by the profile.
        measured_s: Its true time.
        best_s: Least true time so far.
        first_s: True time at the beginning.
        left: Share of the changes that are left.
        allowed: Mask of allowed actions.
    """

    scenario: TuningScenario
    profile: Profile
    plan: Plan
    expected: Step
    measured_s: float
    best_s: float
    first_s: float
    left: float
    allowed: BoolArray


class TuningTables:
    """Default observation of ``sysgym/TrainingTuning-v0``."""

    def space(self, setting: TuningScenario, /) -> gym.Space[Any]:
        """Return the space, a ``Dict`` with a row for the end and for each bucket."""
        rows = n_rows(setting)
        return gym.spaces.Dict(
            {
                "buckets": table_space(BUCKET_COLUMNS, rows),
                "job": table_space(JOB_COLUMNS),
                "action_mask": flags_space(3 * rows),
            }
        )

    def observe(self, state: TuningState, /) -> Observation:
        """Return the tables."""
        return {
            "buckets": bucket_table(state),
            "job": job_row(state),
            "action_mask": state.allowed.astype(np.float32),
        }


def n_rows(scenario: TuningScenario) -> int:
    """Return the number of rows: one to stop, and one for each bucket."""
    return 1 + scenario.control.most_buckets


def bucket_table(state: TuningState) -> Array:
    """Return the columns of all rows, float32 [rows, columns]; buckets beyond the rows are not shown."""
    rows = n_rows(state.scenario)
    table = np.zeros((rows, len(BUCKET_COLUMNS)))
    profile, plan, step = state.profile, state.plan, state.expected
    n = min(len(plan.ends), rows - 1)
    starts = np.concatenate([[0], plan.ends[:-1]]).astype(np.int64)
    sizes = np.add.reduceat(profile.gradient_bytes, starts)[:n]
    unit_s = profile.compute_s
    table[0, :2] = 1.0
    shown = table[1 : n + 1]
    shown[:, 0] = 1.0
    shown[:, 2] = np.log10(np.maximum(sizes, 1.0) / 1e6)
    shown[:, 3] = np.diff((0, *plan.ends))[:n] / len(profile.forward_s)
    shown[:, 4] = np.array(plan.order[:n]) / len(plan.ends)
    shown[:, 5] = [bucket_time_s(profile, size) / unit_s for size in sizes]
    shown[:, 6] = step.ready_s[:n] / unit_s
    shown[:, 7] = (step.start_s - step.ready_s)[:n] / unit_s
    shown[:, 8] = step.end_s[:n] / unit_s
    shown[:, 9] = (step.wanted_s - step.end_s)[:n] / unit_s
    shown[:, 10] = step.stall_s[:n] / unit_s
    return clipped(table, _BUCKET_LIMITS)


def job_row(state: TuningState) -> Array:
    """Return the row that all buckets have in common, float32 [columns]."""
    profile = state.profile
    unit_s = profile.compute_s
    numbers = [
        math.log10(profile.n_workers),
        math.log10(1e3 * unit_s),
        bucket_time_s(profile, float(profile.gradient_bytes.sum())) / unit_s,
        bucket_time_s(profile, 0.0) / unit_s,
        state.expected.time_s / unit_s - 1.0,
        state.measured_s / unit_s - 1.0,
        state.best_s / unit_s - 1.0,
        state.first_s / unit_s - 1.0,
        state.left,
    ]
    return clipped(numbers, _JOB_LIMITS)


OBSERVERS: Mapping[str, Observer[TuningScenario, TuningState]] = {"default": TuningTables()}
"""Observations of ``sysgym/TrainingTuning-v0``."""
