"""Simulation of a reduction program as flows, the more exact model of its time.

The transfers of each step, of all groups at once, share the links by max-min fairness; the next step begins
when the last transfer has arrived. The closed forms take the bytes over the fullest link of a step, and the
longest way of a piece over the hops; here a transfer begins when what it waits for has arrived, and links are
shared anew whenever one begins or ends.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.flows.links import LinkGraph
from sysgym.emulator.accelerators.flows.schedules import ALGORITHMS
from sysgym.emulator.accelerators.flows.simulation import Timeline, simulate
from sysgym.emulator.accelerators.flows.tables import FloatArray
from sysgym.emulator.accelerators.flows.transfers import Transfers, lower_collective
from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.matrices import Matrix, reduction_factors, reduction_groups
from sysgym.emulator.accelerators.problem import Reduction
from sysgym.emulator.accelerators.programs import (
    Collective,
    Instruction,
    Program,
    check_program,
    format_instruction,
    lower,
    rows_held,
    start_state,
)
from sysgym.emulator.accelerators.programs.states import step_in_place
from sysgym.scenarios.errors import UnknownName


@dataclass(frozen=True, eq=False)
class StepRun:
    """The run of one step of a program.

    Attributes:
        instruction: Instruction of the step.
        label: The instruction as text.
        start_s: Start of the step, after the program's start.
        transfers: Transfers of all groups.
        timeline: Times of each transfer, after the step's start.
    """

    instruction: Instruction
    label: str
    start_s: float
    transfers: Transfers
    timeline: Timeline

    @property
    def time_s(self) -> float:
        """Duration of the step."""
        return self.timeline.time_s


@dataclass(frozen=True, eq=False)
class ProgramRun:
    """The run of a program.

    Attributes:
        links: Links of the devices.
        steps: Steps in the order in which they ran.
    """

    links: LinkGraph
    steps: tuple[StepRun, ...]

    @property
    def time_s(self) -> float:
        """End of the last step; 0 for a program without steps."""
        return self.steps[-1].start_s + self.steps[-1].time_s if self.steps else 0.0


class InstructionGroups(NamedTuple):
    """One step of a program on devices.

    Attributes:
        instruction: Instruction of the step.
        groups: Devices of every group, int32 [n_groups, n_members].
        vector_bytes: Bytes of each group's whole vector, float64 [n_groups].
        factors: Factors of a group's levels, outermost first.
    """

    instruction: Instruction
    groups: NDArray[np.int32]
    vector_bytes: FloatArray
    factors: tuple[int, ...]


def instruction_groups(
    hierarchy: Hierarchy, matrix: Matrix, reduction: Reduction, program: Program
) -> Iterator[InstructionGroups]:
    """Yield the steps of a program with the devices of all reduction groups.

    Args:
        hierarchy: The devices.
        matrix: The placement.
        reduction: The reduction, with the bytes on each device.
        program: Program of the levels that the reduction spans; empty for a single device.

    Raises:
        InvalidProgram: The program is not valid.
        ScenarioError: The matrix does not fit the hierarchy, or there is no such axis.
    """
    factors = tuple(factor for _, factor in reduction_factors(matrix, reduction.axes))
    groups = _reduction_groups(hierarchy.cardinalities, matrix, reduction.axes)
    for instruction, shares in zip(program, vector_shares(program, factors), strict=True):
        pattern = instruction.pattern
        yield InstructionGroups(
            instruction,
            lower(pattern, factors, groups),
            np.tile(shares * reduction.size_bytes, len(groups)),
            factors[pattern.low : pattern.high],
        )


@functools.lru_cache(maxsize=4096)
def vector_shares(program: Program, factors: tuple[int, ...]) -> tuple[FloatArray, ...]:
    """Return the whole vector of each group of each step, as a share of the reduction's, float64 [n_groups].

    Args:
        program: The program.
        factors: Factors of the levels that the reduction spans, outermost first.

    Raises:
        InvalidProgram: The program is not valid.
    """
    return tuple(
        shares[instruction.pattern.groups(factors)[:, 0]]
        for instruction, shares in zip(program, _shares(program, factors), strict=True)
    )


@functools.lru_cache(maxsize=64)
def link_graph(hierarchy: Hierarchy) -> LinkGraph:
    """Return the links of a hierarchy; the result is cached."""
    return LinkGraph(hierarchy)


def program_time_s(
    hierarchy: Hierarchy,
    matrix: Matrix,
    reduction: Reduction,
    program: Program,
    algorithm: str = "ring",
    *,
    chunks: int | None = None,
) -> float:
    """Return the simulated time of a program in all reduction groups at once, in seconds.

    Args:
        hierarchy: The devices.
        matrix: The placement.
        reduction: The reduction, with the bytes on each device.
        program: Program of the levels that the reduction spans; empty for a single device.
        algorithm: ``ring``, ``halving_doubling`` or ``tree``.
        chunks: Pieces of each pipeline of a chain or tree; None for as many as its length needs.

    Raises:
        InvalidProgram: The program is not valid.
        UnknownName: There is no such algorithm.
        ScenarioError: The matrix does not fit the hierarchy, or there is no such axis.
    """
    return simulate_program(hierarchy, matrix, reduction, program, algorithm, chunks=chunks).time_s


def simulate_program(
    hierarchy: Hierarchy,
    matrix: Matrix,
    reduction: Reduction,
    program: Program,
    algorithm: str = "ring",
    *,
    chunks: int | None = None,
    record_rates: bool = False,
) -> ProgramRun:
    """Run a program in all reduction groups at once; arguments and errors are as in :func:`program_time_s`.

    Args:
        hierarchy: The devices.
        matrix: The placement.
        reduction: The reduction, with the bytes on each device.
        program: Program of the levels that the reduction spans.
        algorithm: ``ring``, ``halving_doubling`` or ``tree``.
        chunks: Pieces of each pipeline of a chain or tree.
        record_rates: Record every change of a rate.
    """
    if algorithm not in ALGORITHMS:
        raise UnknownName("algorithm", algorithm, ALGORITHMS)
    links = link_graph(hierarchy)
    n_levels = len(reduction_factors(matrix, reduction.axes))
    steps: list[StepRun] = []
    start_s = 0.0
    for step in instruction_groups(hierarchy, matrix, reduction, program):
        transfers = lower_collective(
            links,
            step.groups,
            step.instruction.collective,
            step.vector_bytes,
            algorithm=algorithm,
            factors=step.factors,
            chunks=chunks,
        )
        timeline = simulate(transfers.flows, links.bandwidth_bytes_per_s, record_rates=record_rates)
        label = format_instruction(step.instruction, n_levels)
        steps.append(StepRun(step.instruction, label, start_s, transfers, timeline))
        start_s += timeline.time_s
    return ProgramRun(links, tuple(steps))


@functools.lru_cache(maxsize=256)
def _reduction_groups(
    cardinalities: tuple[int, ...], matrix: Matrix, axes: tuple[int, ...]
) -> NDArray[np.int32]:
    groups = reduction_groups(cardinalities, matrix, axes)
    groups.flags.writeable = False
    return groups


@functools.lru_cache(maxsize=1024)
def _shares(program: Program, factors: tuple[int, ...]) -> tuple[FloatArray, ...]:
    """Return a group's whole vector as a share of the rows, for each step of a valid program.

    It is the part that the first member holds before the step, or after it for an AllGather. float64 [k].
    """
    check_program(program, factors)
    state = start_state(factors)
    held = [rows_held(state).mean(axis=1)]
    for instruction in program:
        step_in_place(state, instruction.pattern, instruction.collective, factors)
        held.append(rows_held(state).mean(axis=1))
    return tuple(
        after if instruction.collective is Collective.ALL_GATHER else before
        for instruction, (before, after) in zip(program, itertools.pairwise(held), strict=True)
    )
