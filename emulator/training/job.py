"""Jobs to be replayed: when operations ran, and what they waited for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import FloatArray, LeftOut, Operations, TrainingTrace
from sysgym.emulator.training.replay import replay


class Job(NamedTuple):
    """A trace of any format, with the dependencies of its operations.

    Attributes:
        trace: Operations, and when they ran in each step.
        graph: Their dependencies.
        modelled: Whether the times are not traced but computed, so that a replay has no error to show.
        notes: What a reader of results should know, a sentence each.
    """

    trace: TrainingTrace
    graph: Graph
    modelled: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def of_durations(
        cls,
        name: str,
        operations: Operations,
        graph: Graph,
        durations: FloatArray,
        left_out: LeftOut | None = None,
        notes: tuple[str, ...] = (),
    ) -> Job:
        """Return the job of one step whose operations take given times and start as soon as they can.

        Args:
            name: Name of the job.
            operations: The n operations of a step.
            graph: Their dependencies.
            durations: Time of each operation after the last member of its group has started, float64 [n].
            left_out: What of the files was not used.
            notes: What a reader should know.
        """
        replayed = replay(graph, durations)
        trace = TrainingTrace(
            name,
            operations,
            np.zeros(1, np.int64),
            replayed.start_s[None],
            replayed.end_s[None],
            left_out or LeftOut(),
        )
        return cls(trace, graph, modelled=True, notes=notes)
