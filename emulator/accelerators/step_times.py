"""Parts of the cost model: times of steps on the links of each level, and of their latencies.

A step of a ring, tree or chain takes as long as the fullest link of any level, and longer by the latencies
that it waits for meanwhile (:mod:`~sysgym.emulator.accelerators.cost.rounds`). A level's
links or a collective that are slower than the data sheets say are so in all operations alike. The times of
the steps on the links of each level are therefore sufficient to describe an operation.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.accelerators.cost import CostModel
from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.accelerators.matrices import Matrix
from sysgym.emulator.accelerators.problem import PlacementProblem, Reduction
from sysgym.emulator.accelerators.programs import COLLECTIVES, ProgramSpace
from sysgym.scenarios.errors import ScenarioError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

PIPELINED = ("ring", "tree")
"""Algorithms whose steps take as long as the fullest link of any level."""

_NO_LIMIT = 1e60
"""A bandwidth so large that sending takes no time, bytes/s."""

_NO_TIME_S = 1e-30


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Times of K operations, by step and level.

    Attributes:
        link_s: Nominal time of each step on the fullest link of each level, [K, n_steps, n_levels]; zeros
            where an operation has fewer steps than others.
        collective: Index of each step's collective, [K, n_steps].
        latency_s: Time of all steps together beyond their fullest links, by the data sheets, [K].
    """

    link_s: FloatArray
    collective: IntArray
    latency_s: FloatArray

    def __len__(self) -> int:
        return len(self.latency_s)

    def __getitem__(self, rows: slice | IntArray) -> StepTimes:
        return StepTimes(self.link_s[rows], self.collective[rows], self.latency_s[rows])

    def times_s(self, level_slowdown: FloatArray, collective_slowdown: FloatArray) -> FloatArray:
        """Return the time of each operation with slower links and collectives, [K, n].

        Args:
            level_slowdown: Factors of the levels' links, [n, n_levels].
            collective_slowdown: Factors of the collectives, [n, n_collectives] or [1, n_collectives].
        """
        slowed = (self.link_s[:, :, None, :] * level_slowdown).max(axis=3)
        slowed *= collective_slowdown[:, self.collective].transpose(1, 2, 0)
        return np.asarray(slowed.sum(axis=1) + self.latency_s[:, None])

    @cached_property
    def nominal_s(self) -> FloatArray:
        """Time of each operation by the data sheets, [K]."""
        return np.asarray(self.link_s.max(axis=2).sum(axis=1) + self.latency_s)

    @cached_property
    def level_shares(self) -> FloatArray:
        """Share of the nominal time in which each level has the fullest link, [K, n_levels]."""
        fullest = self.link_s.argmax(axis=2)[:, :, None] == np.arange(self.link_s.shape[2])
        return self._shares(np.where(fullest, self.link_s, 0.0).sum(axis=1))

    @cached_property
    def collective_shares(self) -> FloatArray:
        """Share of the nominal time that each collective is on links, [K, n_collectives]."""
        link_s = self.link_s.max(axis=2)[:, :, None]
        return self._shares(
            np.where(self.collective[:, :, None] == range(len(COLLECTIVES)), link_s, 0.0).sum(1)
        )

    @cached_property
    def latency_share(self) -> FloatArray:
        """Share of the nominal time that is latency, [K]."""
        return self._shares(self.latency_s[:, None])[:, 0]

    def _shares(self, part_s: FloatArray) -> FloatArray:
        return np.asarray(part_s / np.maximum(self.nominal_s, 1e-300)[:, None])


class LevelModels:
    """Cost models in which only one level's links take time, and the model of the whole.

    Args:
        hierarchy: The system by its data sheets.
        algorithm: An algorithm whose steps use the links of all levels at once, see :data:`PIPELINED`.

    Raises:
        ScenarioError: The algorithm's rounds use one level after another.
    """

    def __init__(self, hierarchy: Hierarchy, algorithm: str) -> None:
        """Set up; the class documentation describes the arguments."""
        if algorithm not in PIPELINED:
            expected = " or ".join(f'"{name}"' for name in PIPELINED)
            advice = "the others' steps are rounds on one level after another"
            raise ScenarioError(
                f"<{hierarchy.name}>", "problem.algorithm", algorithm, expected, advice=advice
            )
        self._links = [CostModel(_only(hierarchy, level), algorithm) for level in range(hierarchy.n_levels)]
        self._whole = CostModel(hierarchy, algorithm)

    def edge_times_s(
        self, matrix: Matrix, reduction: Reduction, space: ProgramSpace
    ) -> tuple[FloatArray, FloatArray]:
        """Return times of a program space's edges: on links [n_edges, n_levels], and beyond them [n_edges].

        Args:
            matrix: The placement.
            reduction: Axes and size.
            space: Program space with as many levels as the reduction spans.
        """
        links_s = [model.edge_times_s(matrix, reduction, space) for model in self._links]
        return _parts(np.stack(links_s, axis=1), self._whole.edge_times_s(matrix, reduction, space))

    def all_reduce_times_s(self, matrix: Matrix, reduction: Reduction) -> tuple[FloatArray, FloatArray]:
        """Return times of a single all-reduce: on links [1, n_levels], and beyond them [1].

        Args:
            matrix: The placement.
            reduction: Axes and size.
        """
        links_s = [[model.all_reduce_time_s(matrix, reduction) for model in self._links]]
        return _parts(np.array(links_s), np.array([self._whole.all_reduce_time_s(matrix, reduction)]))


def link_times_s(
    model: CostModel, problem: PlacementProblem, matrix: Matrix, program_steps: int = 0
) -> FloatArray:
    """Return the time of each reduction on the links of each level alone, [n_reductions, n_levels].

    Args:
        model: Cost model by the data sheets; if it takes the fastest algorithm, so does each level here.
        problem: The problem with the reductions.
        matrix: The placement.
        program_steps: Most collectives of a program, of which the best is taken; 0 for a single all-reduce.
    """
    hierarchy = problem.hierarchy
    alone = [CostModel(_only(hierarchy, level), model.algorithm) for level in range(hierarchy.n_levels)]
    rows = []
    for reduction in problem.reductions:
        if program_steps:
            program, _ = model.best_program(matrix, reduction, program_steps)
            rows.append([one.program_time_s(matrix, reduction, program) for one in alone])
        else:
            rows.append([one.all_reduce_time_s(matrix, reduction) for one in alone])
    return _without_rest(np.array(rows))


def _parts(links_s: FloatArray, whole_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    links_s = _without_rest(links_s)
    return links_s, np.maximum(whole_s - links_s.max(axis=1, initial=0.0), 0.0)


def _without_rest(times_s: FloatArray) -> FloatArray:
    """Return times without those of unused links, which are bytes over the largest bandwidth."""
    return np.where(times_s < _NO_TIME_S, 0.0, times_s)


def _only(hierarchy: Hierarchy, kept: int) -> Hierarchy:
    """Return a hierarchy in which only one level's links take time."""
    levels = [
        dataclasses.replace(
            level,
            bandwidth_bytes_per_s=level.bandwidth_bytes_per_s if index == kept else _NO_LIMIT,
            latency_s=0.0,
        )
        for index, level in enumerate(hierarchy.levels)
    ]
    return dataclasses.replace(hierarchy, levels=tuple(levels))
