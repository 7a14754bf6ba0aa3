"""Observation: the parts of a job as rows of a table, with their durations and the answers so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.diagnosis.case import Case
from sysgym.emulator.diagnosis.parts import DATA_RANK, PART_KINDS, RANK, STAGE, Part, operations_of
from sysgym.envs.observations import Column, Columns, Observer, clipped, flags_space, limits, table_space
from sysgym.scenarios.schema.diagnosis import DiagnosisScenario

Array = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Observation = dict[str, Array]
MOST = 20.0
NOT_ASKED = -1.0


def _flag(meaning: str) -> Column:
    return Column(meaning, "0 or 1", 0.0, 1.0)


def _share(meaning: str) -> Column:
    return Column(f"{meaning}; -1 if not asked", "share of the lost time", -MOST, MOST)


PART_COLUMNS: Columns = {
    "exists": _flag("there is a part in this row"),
    "is_stage": _flag("the part is a stage"),
    "is_kind": _flag("it is a kind of operations"),
    "is_data_rank": _flag("it is a data-parallel rank, which cannot be named"),
    "is_rank": _flag("it is a rank"),
    "computes": Column("operations of the part that compute", "share", 0.0, 1.0),
    "excess": Column("mean duration of these operations over the ideal, less 1", "ratio", -MOST, MOST),
    "steady": Column("10th percentile of the same over the steps", "ratio", -MOST, MOST),
    "late": Column("time above the ideal, mean over its ranks", "share of a step", -MOST, MOST),
    "share": _share("answer to a question about it"),
    "share_of_stage": _share("of a rank: the answer about its stage"),
    "share_of_data_rank": _share("of a rank: the answer about its data-parallel rank"),
}
"""Columns of ``parts``."""

JOB_COLUMNS: Columns = {
    "slowdown": Column("time of a step over that without stragglers, less 1", "ratio", -MOST, MOST),
    "ranks": Column("ranks", "log2", 0.0, MOST),
    "stages": Column("stages", "log2", 0.0, MOST),
    "left": Column("questions left", "share", 0.0, 1.0),
}
"""Columns of ``job``."""

_PART_LIMITS, _JOB_LIMITS = limits(PART_COLUMNS), limits(JOB_COLUMNS)


class DiagnosisState(NamedTuple):
    """State of an episode, as far as an agent may know it: no faults, and no answers that were not asked for.

    Attributes:
        parts: Parts that can be asked about or named: ranks, stages and data-parallel ranks.
        slowdown: Time of a step over that without stragglers.
        known: Columns of the parts that do not change, float64 [n_parts, 9].
        parents: Rows of each rank, its stage and its data-parallel rank, int64 [n_ranks, 3].
        answers: Answer about each part; -1: not asked. float64 [n_parts].
        left: Share of the questions that are left.
        allowed: Mask of allowed actions.
    """

    parts: Sequence[Part]
    slowdown: float
    known: FloatArray
    parents: IntArray
    answers: FloatArray
    left: float
    allowed: BoolArray


class DiagnosisTables:
    """Default observation of ``sysgym/TrainingDiagnosis-v0``."""

    def space(self, setting: DiagnosisScenario, /) -> gym.Space[Any]:
        """Return the space, a ``Dict`` with a row for each part."""
        rows = setting.control.most_parts
        return gym.spaces.Dict(
            {
                "parts": table_space(PART_COLUMNS, rows),
                "job": table_space(JOB_COLUMNS),
                "action_mask": flags_space(2 * rows),
            }
        )

    def observe(self, state: DiagnosisState, /) -> Observation:
        """Return the tables."""
        table = np.zeros((len(state.allowed) // 2, len(PART_COLUMNS)))
        n = len(state.parts)
        table[:n, :9] = state.known
        table[:n, 9] = state.answers
        table[:n, 10:] = NOT_ASKED
        ranks, *above = state.parents.T
        for column, rows in enumerate(above, start=10):
            table[ranks, column] = state.answers[rows]
        job = [
            state.slowdown - 1.0,
            math.log2(len(ranks)),
            math.log2(sum(part.what == STAGE for part in state.parts)),
            state.left,
        ]
        return {
            "parts": clipped(table, _PART_LIMITS),
            "job": clipped(job, _JOB_LIMITS),
            "action_mask": state.allowed.astype(np.float32),
        }


def known_columns(case: Case) -> FloatArray:
    """Return the columns of the parts that do not change in an episode, float64 [n_parts, 9]."""
    what_if = case.what_if
    above_s = np.maximum(what_if.durations - what_if.ideal, 0.0)
    rows = []
    for part in case.parts:
        here = operations_of(what_if.operations, part)
        ideal_s = float(what_if.ideal[here].sum())
        took_s = what_if.durations[:, here].sum(axis=1)
        excess = took_s / ideal_s - 1.0 if ideal_s > 0.0 else np.zeros(len(took_s))
        n_ranks = len(np.unique(what_if.operations.rank[here]))
        rows.append(
            [
                1.0,
                *(float(part.what == what) for what in PART_KINDS),
                float(what_if.operations.computes[here].mean()),
                float(excess.mean()),
                float(np.percentile(excess, 10)),
                float(above_s[:, here].sum(axis=1).mean()) / n_ranks / what_if.step_s,
            ]
        )
    return np.array(rows)


def parents_of(case: Case) -> IntArray:
    """Return the rows of each rank, its stage and its data-parallel rank, int64 [n_ranks, 3]."""
    operations = case.what_if.operations
    row_of = {part: row for row, part in enumerate(case.parts)}
    _, first = np.unique(operations.rank, return_index=True)
    columns = ((RANK, operations.rank), (STAGE, operations.stage), (DATA_RANK, operations.data_rank))
    return np.array(
        [[row_of[Part(what, int(column[one]))] for what, column in columns] for one in first.tolist()]
    )


OBSERVERS: Mapping[str, Observer[DiagnosisScenario, DiagnosisState]] = {"default": DiagnosisTables()}
"""Observations of ``sysgym/TrainingDiagnosis-v0``."""
