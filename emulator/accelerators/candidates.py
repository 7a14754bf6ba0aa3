"""Placements with programs as candidates: what their time is made of, and the best of them by data sheets.

A step takes as long as the fullest link of any level, and its rounds' latencies. Where a level's links, or a
collective, are slower than the data sheets say, they are so in all candidates alike: so the times of a
candidate's steps on the links of each level are all that one needs to know of it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sysgym.emulator.accelerators.cost import CostModel, synthesis_space
from sysgym.emulator.accelerators.cost.contention import ALGORITHMS
from sysgym.emulator.accelerators.hierarchy import Hierarchy
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
    ProgramSpace,
    program_edges,
)
from sysgym.emulator.accelerators.programs.space import NO_EDGE
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.schema.placement import MOST_LEVELS, MOST_PROGRAM_LEVELS

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

ALIKE = 0.02
"""Candidates whose log times differ by no more than this, however slow links and collectives are, are one:
nothing can be gained by telling them apart."""

MOST_PROGRAMS = 12
"""Programs for each of several reductions that are combined; with one reduction there is no limit."""

_NO_LIMIT = 1e60
"""A bandwidth that takes no time, bytes/s."""

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


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Times of K operations, by step and level.

    Attributes:
        link_s: Nominal time of each step on the fullest link of each level, [K, n_steps, n_levels]; zeros
            where an operation has fewer steps than others.
        collective: Index of each step's collective, [K, n_steps].
        latency_s: Latencies of all steps together, [K].
    """

    link_s: FloatArray
    collective: IntArray
    latency_s: FloatArray

    def __len__(self) -> int:
        return len(self.latency_s)

    def __getitem__(self, rows: slice | IntArray) -> StepTimes:
        return StepTimes(self.link_s[rows], self.collective[rows], self.latency_s[rows])

    def times_s(self, level_slowdown: FloatArray, collective_slowdown: FloatArray) -> FloatArray:
        """Return the time of each operation where links and collectives take longer, [K, n].

        Args:
            level_slowdown: Factors of the levels' links, [n, n_levels].
            collective_slowdown: Factors of the collectives, [n, n_collectives] or [1, n_collectives].
        """
        slowed = (self.link_s[:, :, None, :] * level_slowdown).max(axis=3)
        slowed *= np.moveaxis(collective_slowdown[:, self.collective], 0, 2)
        return np.asarray(slowed.sum(axis=1) + self.latency_s[:, None])

    @cached_property
    def nominal_s(self) -> FloatArray:
        """Time of each operation by the data sheets, [K]."""
        return self.link_s.max(axis=2).sum(axis=1) + self.latency_s

    @cached_property
    def level_shares(self) -> FloatArray:
        """Share of the nominal time in which each level has the fullest link, [K, n_levels]."""
        fullest = self.link_s.argmax(axis=2)[:, :, None] == np.arange(self.link_s.shape[2])
        return self._shares(np.where(fullest, self.link_s, 0.0).sum(axis=1))

    @cached_property
    def collective_shares(self) -> FloatArray:
        """Share of the nominal time that each collective is on links, [K, n_collectives]."""
        link_s = self.link_s.max(axis=2)[:, :, None]
        return self._shares(np.where(self.collective[:, :, None] == range(len(COLLECTIVES)), link_s, 0.0).sum(1))

    @cached_property
    def latency_share(self) -> FloatArray:
        """Share of the nominal time that is latency, [K]."""
        return self._shares(self.latency_s[:, None])[:, 0]

    def _shares(self, part_s: FloatArray) -> FloatArray:
        return np.asarray(part_s / np.maximum(self.nominal_s, 1e-300)[:, None])


class Candidates:
    """What there is to choose from, fastest first by the data sheets.

    Attributes:
        problem: What is placed and reduced.
        times: What the K candidates' times are made of.
        default: Axes in the order given, and all-reduces.
        default_times: What its time is made of, one operation.
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

    A reduction that spans more than ``MOST_PROGRAM_LEVELS`` levels is done by one all-reduce.

    Args:
        problem: What is placed and reduced.
        n: Most candidates.
        algorithm: Of the collectives, as in :class:`CostModel`; ``auto`` is the fastest by data sheets of
            those that serve all groups that occur.
        program_steps: Most collectives of a program.
    """
    hierarchy, reductions = problem.hierarchy, problem.reductions
    models = LevelModels(hierarchy, algorithm)
    n_programs = n if len(reductions) == 1 else min(n, MOST_PROGRAMS)
    options = [
        _Option(matrix, [models.programs(matrix, one, n_programs, program_steps) for one in reductions])
        for matrix in enumerate_matrices(hierarchy.cardinalities, problem.axes)
    ]
    sizes = np.array([option.times_s.shape[1] for option in options])
    kept = _different(np.concatenate([option.times_s for option in options], axis=1), n)
    which = np.searchsorted(np.cumsum(sizes), kept, side="right")
    within = kept - (np.cumsum(sizes) - sizes)[which]
    chosen = [(options[one], at) for one, at in zip(which.tolist(), within.tolist(), strict=True)]
    default = default_matrix(hierarchy.cardinalities, problem.axes)
    all_reduces = [models.all_reduce(default, reduction) for reduction in reductions]
    return Candidates(problem, chosen, _Option(default, all_reduces))


class _Parts:
    """What the time of one operation is made of: as :class:`StepTimes` without the first axis."""

    def __init__(self, link_s: FloatArray, collective: IntArray, latency_s: float) -> None:
        self.link_s, self.collective, self.latency_s = link_s, collective, latency_s


class _Programs:
    """Different programs for one reduction, fastest first."""

    def __init__(
        self, edges: IntArray, actions: IntArray, link_s: FloatArray, latency_s: FloatArray,
        times_s: FloatArray, instructions: tuple[Instruction, ...],
    ) -> None:  # fmt: skip
        # Edges of each program [P, steps], the last one standing for none; what holds for each edge; and
        # the programs' times, [1 + _PROBES, P].
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
    """A placement, with programs for each reduction: all combinations of them."""

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


class LevelModels:
    """The cost model taken apart: what each level's links take, and latencies.

    Args:
        hierarchy: The system by its data sheets.
        algorithm: As in :func:`best_candidates`.
    """

    def __init__(self, hierarchy: Hierarchy, algorithm: str) -> None:
        """Set up; the class documentation describes the arguments."""
        names = [name for name in ALGORITHMS if name != "auto"] if algorithm == "auto" else [algorithm]
        n_levels = hierarchy.n_levels
        # For each algorithm a model in which only one level's links take time, for each; and one with latencies.
        self._models = [
            [CostModel(_only(hierarchy, level), name) for level in [*range(n_levels), None]] for name in names
        ]

    def edge_times_s(
        self, matrix: Matrix, reduction: Reduction, space: ProgramSpace
    ) -> tuple[FloatArray, FloatArray]:
        """Return times of a program space's edges: on links [n_edges, n_levels], of latencies [n_edges].

        Args:
            matrix: The placement.
            reduction: Axes and size.
            space: Of as many levels as the reduction spans.
        """
        return self._fastest(lambda model: model.edge_times_s(matrix, reduction, space))

    def all_reduce(self, matrix: Matrix, reduction: Reduction) -> _Programs:
        """Return a single all-reduce; nothing where groups are single devices."""
        n_levels = len(reduction_factors(matrix, reduction.axes))
        link_s, latency_s = self._fastest(
            lambda model: np.array([model.all_reduce_time_s(matrix, reduction)])
        )
        instructions = (Instruction(Pattern(0, max(n_levels, 1)), Collective.ALL_REDUCE),)
        return _programs(
            np.zeros((1, 1), np.int64) if n_levels else np.full((1, 1), NO_EDGE),
            np.array([_ALL_REDUCE]),
            link_s,
            latency_s,
            instructions,
            1,
        )

    def programs(self, matrix: Matrix, reduction: Reduction, n: int, max_steps: int) -> _Programs:
        """Return the n fastest programs for a reduction, no two of them alike."""
        n_levels = len(reduction_factors(matrix, reduction.axes))
        if not 0 < n_levels <= MOST_PROGRAM_LEVELS:
            return self.all_reduce(matrix, reduction)
        space = synthesis_space(n_levels, max_steps)
        link_s, latency_s = self.edge_times_s(matrix, reduction, space)
        edges = program_edges(space, max_steps).astype(np.int64)
        return _programs(edges, space.edge_action, link_s, latency_s, space.instructions, n)

    def link_times_s(self, matrix: Matrix, reduction: Reduction, max_steps: int) -> FloatArray:
        """Return the time of a reduction on the fullest link of each level, summed over its steps, [n_levels].

        Args:
            matrix: The placement.
            reduction: Axes and size.
            max_steps: Steps of the longest program, of which the best is taken; 0: a single all-reduce.
        """
        found = (
            self.programs(matrix, reduction, 1, max_steps) if max_steps else self.all_reduce(matrix, reduction)
        )
        return np.asarray(found.parts(0).link_s.sum(axis=0))

    def _fastest(self, times_s: Callable[[CostModel], FloatArray]) -> tuple[FloatArray, FloatArray]:
        found = []
        for models in self._models:
            try:
                *link_s, latency_s = (times_s(model) for model in models)
            except SysgymError:
                # Defined for powers of two only; where it is the only one that was asked for, an error.
                if len(self._models) == 1:
                    raise
                continue
            found.append((np.stack(link_s, axis=1), latency_s))
        best_link_s, best_latency_s = found[0]
        for link_s, latency_s in found[1:]:
            faster = link_s.max(axis=1) + latency_s < best_link_s.max(axis=1) + best_latency_s
            best_link_s = np.where(faster[:, None], link_s, best_link_s)
            best_latency_s = np.where(faster, latency_s, best_latency_s)
        return best_link_s, best_latency_s


def _programs(
    edges: IntArray,
    actions: NDArray[np.integer],
    link_s: FloatArray,
    latency_s: FloatArray,
    instructions: tuple[Instruction, ...],
    n: int,
) -> _Programs:
    """Return the n fastest of some programs, no two of them alike.

    Args:
        edges: Of each program, [P, steps], padded with -1.
        actions: Of each edge.
        link_s: Of each edge, [n_edges, n_levels].
        latency_s: Of each edge.
        instructions: Of each action.
        n: How many.
    """
    n_levels = link_s.shape[1]
    # The edge that stands for none takes no time.
    actions = np.append(actions, 0).astype(np.int64)
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
        times_s: Nominal times, and those under the probes, [1 + _PROBES, P]; of equally fast ones the first
            counts.
        n: How many.
    """
    logs = np.log(np.maximum(times_s.T, 1e-15))
    # Sums in another order differ in the last bits: ties are those up to 1e-9.
    order = np.argsort(np.round(logs[:, 0] * 1e9), kind="stable")
    return _apart(logs, order, n, ALIKE)


@njit(cache=True, nogil=True)
def _apart(logs: FloatArray, order: IntArray, n: int, alike: float) -> IntArray:
    """Return the rows, in order, that differ from each one before by more than ``alike`` in some column."""
    kept = np.empty(n, np.int64)
    n_kept = 0
    for row in order:
        if n_kept == n:
            break
        new = True
        # Those that are alike are close in the order too.
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
    """Return operations one below the other, their steps without those that take no time moved to the front."""
    n_levels = parts[0].link_s.shape[1]
    steps = [np.flatnonzero(part.link_s.any(axis=1)) for part in parts]
    most = max(1, *(len(one) for one in steps))
    link_s = np.zeros((len(parts), most, n_levels))
    collective = np.zeros((len(parts), most), np.int64)
    for row, (part, taken) in enumerate(zip(parts, steps, strict=True)):
        link_s[row, : len(taken)] = part.link_s[taken]
        collective[row, : len(taken)] = part.collective[taken]
    return StepTimes(link_s, collective, np.array([part.latency_s for part in parts]))


def _only(hierarchy: Hierarchy, kept: int | None) -> Hierarchy:
    """Return a hierarchy in which nothing takes time but one level's links, or with None the latencies."""
    levels = [
        dataclasses.replace(
            level,
            bandwidth_bytes_per_s=level.bandwidth_bytes_per_s if index == kept else _NO_LIMIT,
            latency_s=level.latency_s if kept is None else 0.0,
        )
        for index, level in enumerate(hierarchy.levels)
    ]
    return dataclasses.replace(hierarchy, levels=tuple(levels))
