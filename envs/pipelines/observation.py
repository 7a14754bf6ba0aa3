"""Observation: stages and data-parallel ranks as rows of a table, and what they have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.pipelines.job import Pipeline, as_thought
from sysgym.emulator.pipelines.plans import Plan, loads, memory_bytes, stage_times_s
from sysgym.emulator.training.replay import Replayed
from sysgym.envs.observations import Column, Columns, Observer, clipped, flags_space, limits, table_space
from sysgym.scenarios.schema.pipelines import PipelineScenario

Array = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Observation = dict[str, Array]
MOST = 20.0
N_HEADS = 3
"""Actions of a row."""


def _number(meaning: str, unit: str) -> Column:
    return Column(meaning, unit, -MOST, MOST)


ROW_COLUMNS: Columns = {
    "exists": Column("there is a choice in this row", "0 or 1", 0.0, 1.0),
    "stop": Column("the row ends the episode", "0 or 1", 0.0, 1.0),
    "is_stage": Column("the row is a stage; the others are data-parallel ranks", "0 or 1", 0.0, 1.0),
    "place": Column("number of the stage", "share of all", 0.0, 1.0),
    "layers": Column("layers of the stage", "share of all", 0.0, 1.0),
    "load": _number(
        "time of the stage for a microbatch, or total length of the rank, over the mean, less 1", "ratio"
    ),
    "before": _number("the same for the previous stage; 0 for the first stage", "ratio"),
    "after": _number("the same for the next stage; 0 for the last stage", "ratio"),
    "memory": Column("memory that the stage needs", "share of a worker's", 0.0, MOST),
    "recompute": Column("the stage recomputes its activations", "0 or 1", 0.0, 1.0),
    "longest": _number("longest microbatch of the rank over the mean, less 1", "ratio"),
    "first": _number("first microbatch of the rank over its longest one, less 1", "ratio"),
    "critical": Column("its computations on the critical path by the profile", "share of the step", 0.0, 1.0),
    "slack": Column("least slack of its computations by the profile", "share of the step", 0.0, 1.0),
}
"""Columns of ``rows``."""

JOB_COLUMNS: Columns = {
    "stages": Column("stages", "log2", 0.0, MOST),
    "ranks": Column("data-parallel ranks", "log2", 0.0, MOST),
    "microbatches": Column("microbatches of a rank", "log2", 0.0, MOST),
    "predicted": _number("time of the step by the profile, less 1", "ratio to a worker's compute time"),
    "measured": _number("true time of the step, less 1", "ratio to a worker's compute time"),
    "best": _number("least true time so far, less 1", "ratio to a worker's compute time"),
    "left": Column("changes left", "share", 0.0, 1.0),
}
"""Columns of ``job``."""

_ROW_LIMITS, _JOB_LIMITS = limits(ROW_COLUMNS), limits(JOB_COLUMNS)


class TuningState(NamedTuple):
    """State of an episode, as far as an agent may know it.

    Attributes:
        pipeline: The job.
        plan: The present plan.
        expected: Its step by the profile.
        measured_s: Its true time.
        best_s: Least true time so far.
        left: Share of the changes that are left.
        allowed: Mask of allowed actions.
    """

    pipeline: Pipeline
    plan: Plan
    expected: Replayed
    measured_s: float
    best_s: float
    left: float
    allowed: BoolArray


class PipelineTables:
    """Default observation of ``sysgym/PipelineTuning-v0``."""

    def space(self, setting: PipelineScenario, /) -> gym.Space[Any]:
        """Return the space, a ``Dict`` with a row for the end, each stage and each data-parallel rank."""
        rows = setting.control.most_rows
        return gym.spaces.Dict(
            {
                "rows": table_space(ROW_COLUMNS, rows),
                "job": table_space(JOB_COLUMNS),
                "action_mask": flags_space(N_HEADS * rows),
            }
        )

    def observe(self, state: TuningState, /) -> Observation:
        """Return the tables."""
        job = state.pipeline.scenario.job
        unit_s = computing_s(state.pipeline)
        common = [
            math.log2(job.stages),
            math.log2(job.data_ranks),
            math.log2(job.microbatches),
            state.expected.step_s / unit_s - 1.0,
            state.measured_s / unit_s - 1.0,
            state.best_s / unit_s - 1.0,
            state.left,
        ]
        return {
            "rows": clipped(row_table(state), _ROW_LIMITS),
            "job": clipped(common, _JOB_LIMITS),
            "action_mask": state.allowed.astype(np.float32),
        }


def computing_s(pipeline: Pipeline) -> float:
    """Return the time that a worker computes in a step if all have the same work, without recomputation."""
    job, layers = pipeline.scenario.job, pipeline.layers
    return float((layers.forward_s + layers.backward_s).sum()) * job.microbatches / job.stages


def row_table(state: TuningState) -> FloatArray:
    """Return the columns of all rows, float64 [rows, columns]."""
    pipeline, plan = state.pipeline, state.plan
    job, operations = pipeline.scenario.job, pipeline.operations
    table = np.zeros((pipeline.scenario.control.most_rows, len(ROW_COLUMNS)))
    table[0, :2] = 1.0
    stages, ranks = table[1 : job.stages + 1], table[job.stages + 1 : job.stages + job.data_ranks + 1]
    stages[:, 0] = stages[:, 2] = ranks[:, 0] = 1.0
    stages[:, 3] = np.arange(job.stages) / max(job.stages - 1, 1)
    stages[:, 4] = np.diff((0, *plan.ends)) / plan.ends[-1]
    took_s = np.sum(stage_times_s(pipeline, plan, as_thought(pipeline)), axis=0)
    stages[:, 5] = took_s / took_s.mean() - 1.0
    stages[1:, 6], stages[:-1, 7] = stages[:-1, 5], stages[1:, 5]
    stages[:, 8] = memory_bytes(pipeline, plan) / pipeline.scenario.machine.memory_bytes
    stages[:, 9] = plan.recompute
    of_ranks = loads(pipeline, plan)
    lengths = pipeline.lengths[list(plan.microbatches)].reshape(job.data_ranks, -1)
    ranks[:, 5] = of_ranks / of_ranks.mean() - 1.0
    ranks[:, 10] = lengths.max(axis=1) - 1.0
    ranks[:, 11] = lengths[:, 0] / lengths.max(axis=1) - 1.0
    expected = state.expected
    took = (
        np.where(expected.critical & operations.computes, expected.end_s - expected.start_s, 0.0)
        / expected.step_s
    )
    slack = np.where(operations.computes, expected.slack_s / expected.step_s, 1.0)
    for rows, of_row, n in (
        (stages, operations.stage, job.stages),
        (ranks, operations.data_rank, job.data_ranks),
    ):
        rows[:, 12] = np.bincount(of_row, took, n)
        rows[:, 13] = [slack[of_row == number].min() for number in range(n)]
    return table


OBSERVERS: Mapping[str, Observer[PipelineScenario, TuningState]] = {"default": PipelineTables()}
"""Observations of ``sysgym/PipelineTuning-v0``."""
