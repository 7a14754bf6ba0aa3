"""A reduction program run as flows: the more exact model of its time.

Every step's transfers, of all groups at once, share the links by max-min fairness; the next step begins when
the last transfer has arrived. The closed forms take for a step its bytes over the busiest link and for every
hop the largest latency; here a hop has the latency of the level it crosses, and counts only where something
waits for it.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np

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
    """One step of a program, as it ran.

    Attributes:
        instruction: What ran.
        label: The instruction as text.
        start_s: When it began, after the program's start.
        transfers: Of all groups.
        timeline: When each transfer ran, after the step's start.
    """

    instruction: Instruction
    label: str
    start_s: float
    transfers: Transfers
    timeline: Timeline

    @property
    def time_s(self) -> float:
        """How long it took."""
        return self.timeline.time_s


@dataclass(frozen=True, eq=False)
class ProgramRun:
    """A program, as it ran.

    Attributes:
        links: Of the devices.
        steps: In the order in which they ran.
    """

    links: LinkGraph
    steps: tuple[StepRun, ...]

    @property
    def time_s(self) -> float:
        """When the last step has ended; 0 for a program without steps."""
        return self.steps[-1].start_s + self.steps[-1].time_s if self.steps else 0.0


@functools.lru_cache(maxsize=64)
def link_graph(hierarchy: Hierarchy) -> LinkGraph:
    """Return the links of a hierarchy; kept for the next call."""
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
        matrix: Where the axes lie on them.
        reduction: What is reduced, and how many bytes on each device.
        program: Of the levels that the reduction spans; of a single device the empty one.
        algorithm: ``ring``, ``halving_doubling`` or ``tree``.
        chunks: Pieces of each pipeline of a chain or tree; None: as many as its length needs.

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
    """Run a program in all reduction groups at once; arguments and errors as :func:`program_time_s`.

    Args:
        hierarchy: The devices.
        matrix: Where the axes lie on them.
        reduction: What is reduced, and how many bytes on each device.
        program: Of the levels that the reduction spans.
        algorithm: ``ring``, ``halving_doubling`` or ``tree``.
        chunks: Pieces of each pipeline of a chain or tree.
        record_rates: Keep every change of a rate.
    """
    if algorithm not in ALGORITHMS:
        raise UnknownName("algorithm", algorithm, ALGORITHMS)
    links = link_graph(hierarchy)
    factors = tuple(factor for _, factor in reduction_factors(matrix, reduction.axes))
    groups = reduction_groups(hierarchy.cardinalities, matrix, reduction.axes)
    check_program(program, factors)
    steps: list[StepRun] = []
    start_s = 0.0
    for instruction, shares in zip(program, _shares(program, factors), strict=True):
        pattern = instruction.pattern
        first_members = pattern.groups(factors)[:, 0]
        transfers = lower_collective(
            links,
            lower(pattern, factors, groups),
            instruction.collective,
            np.tile(shares[first_members] * reduction.size_bytes, len(groups)),
            algorithm=algorithm,
            factors=factors[pattern.low : pattern.high],
            chunks=chunks,
        )
        timeline = simulate(transfers.flows, links.bandwidth_bytes_per_s, record_rates=record_rates)
        label = format_instruction(instruction, len(factors))
        steps.append(StepRun(instruction, label, start_s, transfers, timeline))
        start_s += timeline.time_s
    return ProgramRun(links, tuple(steps))


@functools.lru_cache(maxsize=1024)
def _shares(program: Program, factors: tuple[int, ...]) -> tuple[FloatArray, ...]:
    """Return for each step of a valid program the share of the rows that the whole vector of a group is.

    Of a group it is what its first member holds: before the step, after it for an AllGather. float64 [k].
    """
    state = start_state(factors)
    held = [rows_held(state).mean(axis=1)]
    for instruction in program:
        step_in_place(state, instruction.pattern, instruction.collective, factors)
        held.append(rows_held(state).mean(axis=1))
    return tuple(
        after if instruction.collective is Collective.ALL_GATHER else before
        for instruction, (before, after) in zip(program, itertools.pairwise(held), strict=True)
    )
