"""Observations by name: what an agent may know of an episode, and the tables that it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from sysgym.emulator.accelerators.candidates import Candidates
from sysgym.emulator.accelerators.matrices import Matrix, Step
from sysgym.emulator.accelerators.problem import PlacementProblem
from sysgym.emulator.accelerators.programs import COLLECTIVES, n_patterns
from sysgym.emulator.accelerators.programs.space import NO_EDGE
from sysgym.envs.observations import Observer, flags_space, table_space
from sysgym.envs.placement.observation import (
    AXIS_COLUMNS,
    BUDGET_COLUMNS,
    CANDIDATE_COLUMNS,
    LEVEL_COLUMNS,
    MOST_HOLDERS,
    MOST_SPENT,
    NEXT_COLUMNS,
    PROGRESS_COLUMNS,
    REDUCTION_COLUMNS,
    SPAN_COLUMNS,
    Array,
    BoolArray,
    IntArray,
    Observation,
    axes_table,
    holds_table,
    levels_table,
    logs_space,
    matrix_table,
    megabytes,
    next_table,
    reductions_table,
)
from sysgym.envs.placement.tasks import ProgramTask
from sysgym.scenarios import PlacementScenario
from sysgym.scenarios.schema.placement import (
    MOST_AXES,
    MOST_LEVELS,
    MOST_PROGRAM_LEVELS,
    MOST_REDUCTIONS,
)
from sysgym.scenarios.schema.placement_tables import Joint

N_INSTRUCTIONS = n_patterns(MOST_PROGRAM_LEVELS) * len(COLLECTIVES)
"""Number of instructions on the largest number of levels."""


class PlacementState(NamedTuple):
    """Progress of a placement.

    Attributes:
        problem: The problem.
        steps: All decisions, pairs of (level, prime).
        n_chosen: Number of decisions taken.
        matrix: Factors placed so far.
        allowed: Mask of allowed actions.
    """

    problem: PlacementProblem
    steps: Sequence[Step]
    n_chosen: int
    matrix: Matrix
    allowed: BoolArray


class PlacementTables:
    """Default observation of ``sysgym/CollectivePlacement-v0``."""

    def space(self, scenario: PlacementScenario, /) -> gym.Space[Any]:
        """Return the space, a ``Dict``, the same for all scenarios."""
        return gym.spaces.Dict(
            {
                "levels": table_space(LEVEL_COLUMNS, MOST_LEVELS),
                "axes": table_space(AXIS_COLUMNS, MOST_AXES),
                "reductions": table_space(REDUCTION_COLUMNS, MOST_REDUCTIONS),
                "matrix": logs_space(MOST_AXES, MOST_LEVELS),
                "next": table_space(NEXT_COLUMNS),
                "action_mask": flags_space(MOST_AXES),
            }
        )

    def observe(self, state: PlacementState, /) -> Observation:
        """Return the tables."""
        return {
            "levels": levels_table(state.problem.hierarchy).copy(),
            "axes": axes_table(state.problem, state.matrix),
            "reductions": reductions_table(state.problem).copy(),
            "matrix": matrix_table(state.matrix),
            "next": next_table(state.steps, state.n_chosen),
            "action_mask": state.allowed.astype(np.float32),
        }


class ProgramState(NamedTuple):
    """Progress of a program.

    Attributes:
        task: The reduction, and the time of every instruction.
        node: Node of the program in the space of the task.
        spent_s: Time of the instructions so far.
        steps_left: Number of instructions that may still follow.
        allowed: Mask of allowed actions.
    """

    task: ProgramTask
    node: int
    spent_s: float
    steps_left: int
    allowed: BoolArray


class ProgramTables:
    """Default observation of ``sysgym/ReductionProgram-v0``."""

    def space(self, scenario: PlacementScenario, /) -> gym.Space[Any]:
        """Return the space, a ``Dict``, the same for all scenarios."""
        return gym.spaces.Dict(
            {
                "levels": table_space(SPAN_COLUMNS, MOST_PROGRAM_LEVELS),
                "progress": table_space(PROGRESS_COLUMNS),
                "holds": flags_space(MOST_HOLDERS, MOST_HOLDERS**2),
                "costs": logs_space(N_INSTRUCTIONS),
                "action_mask": flags_space(N_INSTRUCTIONS),
            }
        )

    def observe(self, state: ProgramState, /) -> Observation:
        """Return the tables."""
        task, node = state.task, state.node
        spent = state.spent_s / task.all_reduce_time_s if task.all_reduce_time_s else 0.0
        progress = [megabytes(task.reduction.size_bytes), state.steps_left, min(spent, MOST_SPENT)]
        edges = task.space.edge_of_action[node]
        valid = np.flatnonzero(edges != NO_EDGE)
        costs = np.zeros(N_INSTRUCTIONS, np.float32)
        costs[valid] = task.edge_log_cost[edges[valid]]
        return {
            "levels": task.span.copy(),
            "progress": np.array(progress, np.float32),
            "holds": holds_table(task.space)[node].copy(),
            "costs": costs,
            "action_mask": state.allowed.astype(np.float32),
        }


class JointState(NamedTuple):
    """Known properties of K candidates.

    Attributes:
        problem: The problem.
        candidates: The candidates, with their nominal times.
        order: Index of the candidate in each row.
        measured_s: Measured times of the candidate in each row.
        table: Columns of ``candidates`` of all rows; it changes with the next measurement.
        n_measured: Number of measurements taken.
        joint: Price and number of measurements, and how far off things can be.
        allowed: Mask of allowed actions.
    """

    problem: PlacementProblem
    candidates: Candidates
    order: IntArray
    measured_s: Sequence[Sequence[float]]
    table: Array
    n_measured: int
    joint: Joint
    allowed: BoolArray


class JointTables:
    """Default observation of ``sysgym/JointPlacement-v0``."""

    def space(self, scenario: PlacementScenario, /) -> gym.Space[Any]:
        """Return the space, a ``Dict`` with a row for each of the scenario's candidates."""
        rows = scenario.joint.candidates
        return gym.spaces.Dict(
            {
                "candidates": table_space(CANDIDATE_COLUMNS, rows),
                "budget": table_space(BUDGET_COLUMNS),
                "action_mask": flags_space(2 * rows),
            }
        )

    def observe(self, state: JointState, /) -> Observation:
        """Return the tables."""
        joint = state.joint
        left = joint.budget - state.n_measured
        budget = [left, left / joint.budget if joint.budget else 0.0, joint.measurement_price]
        if joint.truth == "factors":
            budget += [
                joint.noise_log_sd,
                joint.bandwidth_log_sd,
                joint.collective_log_sd,
                joint.background_share_mean,
                joint.background_share_sd,
            ]
        else:
            budget += [0.0] * (len(BUDGET_COLUMNS) - len(budget))
        return {
            "candidates": state.table.copy(),
            "budget": np.array(budget, np.float32),
            "action_mask": state.allowed.astype(np.float32),
        }


PLACEMENT: Mapping[str, Observer[PlacementScenario, PlacementState]] = {"default": PlacementTables()}
"""Observations of ``sysgym/CollectivePlacement-v0``."""

PROGRAM: Mapping[str, Observer[PlacementScenario, ProgramState]] = {"default": ProgramTables()}
"""Observations of ``sysgym/ReductionProgram-v0``."""

JOINT: Mapping[str, Observer[PlacementScenario, JointState]] = {"default": JointTables()}
"""Observations of ``sysgym/JointPlacement-v0``."""
