"""What-if analysis: how long steps would be if some operations had no stragglers.

After Lin et al.: Understanding Stragglers in Large Model Training Using What-if Analysis (OSDI 2025,
arXiv 2505.05713). An operation without stragglers has the ideal duration of its kind. The share of a part of
the job, such as its last stage, in the loss of time is ``(step - step with that part ideal) / (step - ideal
step)``; shares of different parts need not have the sum 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import BoolArray, FloatArray, IntArray, Operations, TrainingTrace
from sysgym.emulator.training.replay import step_times_s
from sysgym.emulator.training.timing import durations_s, ideal_durations_s

WORST_SHARE = 0.03
"""Share of the ranks that count as the worst ones."""


@dataclass(frozen=True)
class WhatIf:
    """Steps of a trace with and without stragglers, all by replay.

    Attributes:
        operations: Operations of a step.
        graph: Their dependencies.
        durations: Durations in the trace, float64 [n_steps, n].
        ideal: Durations without stragglers, float64 [n].
        step_s: Mean time of a step.
        ideal_step_s: Time of a step without stragglers.
    """

    operations: Operations
    graph: Graph
    durations: FloatArray
    ideal: FloatArray
    step_s: float
    ideal_step_s: float

    @classmethod
    def of(cls, trace: TrainingTrace, graph: Graph) -> WhatIf:
        """Return the analysis of a trace."""
        durations = durations_s(trace, graph)
        ideal = ideal_durations_s(trace.operations, durations)
        return cls(
            trace.operations,
            graph,
            durations,
            ideal,
            float(step_times_s(graph, durations).mean()),
            float(step_times_s(graph, ideal[None])[0]),
        )

    @property
    def slowdown(self) -> float:
        """Time of a step over that without stragglers."""
        return self.step_s / self.ideal_step_s

    def step_without_s(self, part: BoolArray) -> float:
        """Return the mean time of a step if these operations had no stragglers."""
        return float(step_times_s(self.graph, np.where(part, self.ideal, self.durations)).mean())

    def step_if_free_s(self, part: BoolArray) -> float:
        """Return the mean time of a step if these operations took no time."""
        return float(step_times_s(self.graph, np.where(part, 0.0, self.durations)).mean())

    def steps_with_only_s(self, part: BoolArray) -> FloatArray:
        """Return the time of each step if only these operations had stragglers, float64 [n_steps]."""
        return step_times_s(self.graph, np.where(part, self.durations, self.ideal))

    def share_of(self, part: BoolArray) -> float:
        """Return the share of the lost time that is regained without the stragglers of a part.

        Raises:
            ZeroDivisionError: If no time is lost.
        """
        return (self.step_s - self.step_without_s(part)) / (self.step_s - self.ideal_step_s)

    def added_by(self, part: BoolArray) -> float:
        """Return the share of the lost time that the stragglers of a part cause alone."""
        added = float(self.steps_with_only_s(part).mean()) - self.ideal_step_s
        return added / (self.step_s - self.ideal_step_s)

    def share_of_last_stage(self) -> float:
        """Return the share of the last pipeline stage (M_S in the paper)."""
        return self.share_of(self.operations.stage == self.operations.stage.max())

    def share_of_worst_ranks(self) -> float:
        """Return the share of the worst 3 % of the ranks, at least one (M_W in the paper)."""
        return self.share_of(np.isin(self.operations.rank, self.worst_ranks()))

    def worst_ranks(self) -> IntArray:
        """Return the ranks with the largest slowdown, the worst first.

        A rank's slowdown is the smaller one of its data-parallel rank and its stage: the job's if only the
        operations of that part have stragglers.
        """
        of_data = self._slowdowns(self.operations.data_rank)
        of_stage = self._slowdowns(self.operations.stage)
        ranks, first = np.unique(self.operations.rank, return_index=True)
        slowdown = [
            min(of_data[data_rank], of_stage[stage])
            for data_rank, stage in zip(
                self.operations.data_rank[first].tolist(), self.operations.stage[first].tolist(), strict=True
            )
        ]
        most = math.ceil(WORST_SHARE * len(ranks))
        return ranks[np.argsort(-np.array(slowdown), kind="stable")[:most]]

    def _slowdowns(self, part_of: IntArray) -> dict[int, float]:
        return {
            int(part): float(self.steps_with_only_s(part_of == part).mean()) / self.ideal_step_s
            for part in np.unique(part_of)
        }

    def rank_slowdowns(self) -> FloatArray:
        """Return each step's slowdown if one rank alone had stragglers, float64 [n_ranks, n_steps]."""
        return np.array(
            [
                self.steps_with_only_s(self.operations.rank == rank) / self.ideal_step_s
                for rank in self.operations.ranks
            ]
        )
