"""Candidate placements with programs: the best by data sheets, and the parts of their times."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sysgym.emulator.accelerators.cost import synthesis_space
from sysgym.emulator.accelerators.matrices import (
    Matrix,
    default_matrix,
    enumerate_matrices,
    reduction_factors,
)
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.emulator.accelerators.programs import (
    COLLECTIVES,
    Collective,
    Instruction,
    Pattern,
    Program,
    program_edges,
)
from sysgym.emulator.accelerators.programs.space import NO_EDGE
from sysgym.emulator.accelerators.step_times import FloatArray, IntArray, LevelModels, StepTimes
from sysgym.emulator.compiling import cached_kernel
from sysgym.scenarios.schema.placement import MOST_LEVELS, MOST_PROGRAM_LEVELS

ALIKE = 0.02
"""Candidates count as one if their log times differ by no more than this, however slow links and collectives
are: telling them apart gains nothing."""

MOST_PROGRAMS = 12
"""Programs per reduction that are combined if there are several reductions; one reduction has no limit."""

_ALL_REDUCE = COLLECTIVES.index(Collective.ALL_REDUCE)

_PROBES = 8
_rng = np.random.default_rng(20211020)
_LEVEL_PROBES = np.exp(0.5 * _rng.standard_normal((_PROBES, MOST_LEVELS)))
_COLLECTIVE_PROBES = np.exp(0.5 * _rng.standard_normal((_PROBES, len(COLLECTIVES))))


@dataclass(frozen=True)
class Candidate:
    """A placement, and a program for each reduction.

    Attributes:
        matrix: The placement.
        programs: One for each of the problem's reductions, in their order; empty for groups of one device.
    """

    matrix: Matrix
    programs: tuple[Program, ...]


class Candidates:
    """The candidates of a problem, fastest first by the data sheets.

    Attributes:
        problem: The problem.
        times: Parts of the K candidates' times.
        default: The axes in the order given, with all-reduces.
        default_times: Parts of its time, as one operation.
    """

    def __init__(
        self, problem: PlacementProblem, chosen: list[tuple[_Option, int]], default: _Option
    ) -> None:
        """Set up; made by :func:`best_candidates`."""
        self._chosen = chosen
        self.problem = problem
        self.times = _trimmed([option.parts(index) for option, index in chosen])
        self.default = default.candidate(0)
        self.default_times = _trimmed([default.parts(0)])

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, index: int) -> Candidate:
        option, within = self._chosen[index]
        return option.candidate(within)


@functools.lru_cache(maxsize=512)
def best_candidates(problem: PlacementProblem, n: int, algorithm: str, program_steps: int) -> Candidates:
    """Return the best placements with programs by the data sheets, no two of them alike (:data:`ALIKE`).

    A reduction that spans more than ``MOST_PROGRAM_LEVELS`` levels uses a single all-reduce.

    Args:
        problem: The problem.
        n: Largest number of candidates.
        algorithm: Algorithm of the collectives, as in :class:`~.step_times.LevelModels`.
        program_steps: Largest number of collectives in a program.

    Raises:
        ScenarioError: Times with the algorithm cannot be separated by levels.
    """
    hierarchy, reductions = problem.hierarchy, problem.reductions
    models = LevelModels(hierarchy, algorithm)
    n_programs = n if len(reductions) == 1 else min(n, MOST_PROGRAMS)
    options = [
        _Option(matrix, [_best(models, matrix, one, n_programs, program_steps) for one in reductions])
        for matrix in enumerate_matrices(hierarchy.cardinalities, problem.axes)
    ]
    sizes = np.array([option.times_s.shape[1] for option in options])
    kept = _different(np.concatenate([option.times_s for option in options], axis=1), n)
    which = np.searchsorted(np.cumsum(sizes), kept, side="right")
    within = kept - (np.cumsum(sizes) - sizes)[which]
    chosen = [(options[one], at) for one, at in zip(which.tolist(), within.tolist(), strict=True)]
    default = default_matrix(hierarchy.cardinalities, problem.axes)
    all_reduces = [_best(models, default, reduction, 1, 0) for reduction in reductions]
    return Candidates(problem, chosen, _Option(default, all_reduces))


class _Parts:
    """Parts of the time of one operation, as :class:`StepTimes` without the first axis."""

    def __init__(self, link_s: FloatArray, collective: IntArray, latency_s: float) -> None:
        self.link_s, self.collective, self.latency_s = link_s, collective, latency_s


class _Programs:
    """Different programs for one reduction, fastest first."""

    def __init__(
        self, edges: IntArray, actions: IntArray, link_s: FloatArray, latency_s: FloatArray,
        times_s: FloatArray, instructions: tuple[Instruction, ...],
    ) -> None:  # fmt: skip
        # Edges of each program [P, steps], where the last edge means none; the data of each edge; and the
        # programs' times, [1 + _PROBES, P].
        self._edges, self._actions, self._link_s, self._latency_s = edges, actions, link_s, latency_s
        self.times_s, self._instructions = times_s, instructions

    def program(self, index: int) -> Program:
        none = len(self._actions) - 1
        return tuple(
            self._instructions[self._actions[edge]] for edge in self._edges[index].tolist() if edge != none
        )

    def parts(self, index: int) -> _Parts:
        edges = self._edges[index]
        collective = self._actions[edges] % len(COLLECTIVES)
        return _Parts(self._link_s[edges], collective, float(self._latency_s[edges].sum()))


class _Option:
    """A placement with all combinations of programs for its reductions."""

    def __init__(self, matrix: Matrix, programs: list[_Programs]) -> None:
        self._matrix, self._programs = matrix, programs
        self._shape = tuple(one.times_s.shape[1] for one in programs)
        times_s = np.zeros((1 + _PROBES, 1))
        for one in programs:
            times_s = (times_s[:, :, None] + one.times_s[:, None, :]).reshape(1 + _PROBES, -1)
        self.times_s = times_s

    def candidate(self, index: int) -> Candidate:
        return Candidate(self._matrix, tuple(one.program(at) for one, at in self._at(index)))

    def parts(self, index: int) -> _Parts:
        parts = [one.parts(at) for one, at in self._at(index)]
        return _Parts(
            np.concatenate([part.link_s for part in parts]),
            np.concatenate([part.collective for part in parts]),
            sum(part.latency_s for part in parts),
        )

    def _at(self, index: int) -> Iterator[tuple[_Programs, int]]:
        return zip(self._programs, (int(at) for at in np.unravel_index(index, self._shape)), strict=True)


def _best(models: LevelModels, matrix: Matrix, reduction: Reduction, n: int, max_steps: int) -> _Programs:
    """Return the n fastest programs for a reduction, no two of them alike; an all-reduce for no steps."""
    n_levels = len(reduction_factors(matrix, reduction.axes))
    if max_steps == 0 or not 0 < n_levels <= MOST_PROGRAM_LEVELS:
        link_s, latency_s = models.all_reduce_times_s(matrix, reduction)
        instructions = (Instruction(Pattern(0, max(n_levels, 1)), Collective.ALL_REDUCE),)
        edges = np.full((1, 1), 0 if n_levels else NO_EDGE)
        return _programs(edges, np.array([_ALL_REDUCE]), link_s, latency_s, instructions, 1)
    space = synthesis_space(n_levels, max_steps)
    link_s, latency_s = models.edge_times_s(matrix, reduction, space)
    edges = program_edges(space, max_steps).astype(np.int64)
    actions = space.edge_action.astype(np.int64)
    return _programs(edges, actions, link_s, latency_s, space.instructions, n)


def _programs(
    edges: IntArray,
    actions: IntArray,
    link_s: FloatArray,
    latency_s: FloatArray,
    instructions: tuple[Instruction, ...],
    n: int,
) -> _Programs:
    """Return the n fastest of some programs, no two of them alike.

    Args:
        edges: Edges of each program, [P, steps], padded with -1.
        actions: Action of each edge.
        link_s: Times of each edge on links, [n_edges, n_levels].
        latency_s: Latency of each edge.
        instructions: Instruction of each action.
        n: Number of programs.
    """
    n_levels = link_s.shape[1]
    # The edge that means none takes no time.
    actions = np.append(actions, 0)
    link_s, latency_s = np.vstack([link_s, np.zeros((1, n_levels))]), np.append(latency_s, 0.0)
    edge_s = np.empty((1 + _PROBES, len(actions)))
    edge_s[0] = link_s.max(axis=1)
    for probe in range(_PROBES):
        slowed = (link_s * _LEVEL_PROBES[probe, :n_levels]).max(axis=1)
        edge_s[1 + probe] = slowed * _COLLECTIVE_PROBES[probe, actions % len(COLLECTIVES)]
    edge_s += latency_s
    times_s = edge_s[:, edges].sum(axis=2)
    kept = _different(times_s, n)
    none = len(actions) - 1
    kept_edges = np.where(edges[kept] == NO_EDGE, none, edges[kept])
    return _Programs(kept_edges, actions, link_s, latency_s, times_s[:, kept], instructions)


def _different(times_s: FloatArray, n: int) -> IntArray:
    """Return indices of up to n operations no two of which are alike, fastest first.

    Args:
        times_s: Nominal times, and times under the probes, [1 + _PROBES, P]; the first of equally fast
            operations counts.
        n: Number of operations.
    """
    logs = np.log(np.maximum(times_s.T, 1e-15))
    # Sums in another order differ in the last bits: times within 1e-9 are ties.
    order = np.argsort(np.round(logs[:, 0] * 1e9), kind="stable")
    return _apart(logs, order, n, ALIKE)


@cached_kernel()
def _apart(logs: FloatArray, order: IntArray, n: int, alike: float) -> IntArray:
    """Return the rows, in order, that differ from each one before by more than ``alike`` in some column."""
    kept = np.empty(n, np.int64)
    n_kept = 0
    for row in order:
        if n_kept == n:
            break
        new = True
        # Alike operations are also close in the order.
        for index in range(n_kept - 1, -1, -1):
            other = kept[index]
            same = True
            for column in range(logs.shape[1]):
                if abs(logs[row, column] - logs[other, column]) > alike:
                    same = False
                    break
            if same:
                new = False
                break
        if new:
            kept[n_kept] = row
            n_kept += 1
    return kept[:n_kept]


def _trimmed(parts: list[_Parts]) -> StepTimes:
    """Return operations stacked along the first axis, without steps that take no time."""
    n_levels = parts[0].link_s.shape[1]
    steps = [np.flatnonzero(part.link_s.any(axis=1)) for part in parts]
    most = max(1, *(len(one) for one in steps))
    link_s = np.zeros((len(parts), most, n_levels))
    collective = np.zeros((len(parts), most), np.int64)
    for row, (part, taken) in enumerate(zip(parts, steps, strict=True)):
        link_s[row, : len(taken)] = part.link_s[taken]
        collective[row, : len(taken)] = part.collective[taken]
    return StepTimes(link_s, collective, np.array([part.latency_s for part in parts]))
