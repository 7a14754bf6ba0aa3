"""Accuracy of replays: replayed steps beside traced ones, and beside predictions that need no replay."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sysgym.emulator.training.graph import Graph
from sysgym.emulator.training.operations import FloatArray, TrainingTrace
from sysgym.emulator.training.replay import replay, step_times_s
from sysgym.emulator.training.timing import durations_s, gaps_s, learned_gaps_s


class StepError(NamedTuple):
    """Error of predicted steps, relative to the traced ones.

    Attributes:
        name: How the steps were predicted.
        steps: On which steps.
        bias: Mean error; positive if predictions are too long.
        mean: Mean absolute error.
        largest: Largest absolute error.
    """

    name: str
    steps: str
    bias: float
    mean: float
    largest: float

    @classmethod
    def of(cls, name: str, steps: str, predicted_s: FloatArray, traced_s: FloatArray) -> StepError:
        """Return the error of predictions."""
        error = predicted_s / traced_s - 1.0
        return cls(name, steps, float(error.mean()), float(np.abs(error).mean()), float(np.abs(error).max()))


def step_errors(trace: TrainingTrace, graph: Graph) -> list[StepError]:
    """Return the errors of replays with more and more of what was traced, and of trivial predictions.

    With the durations of the very step, the error tests the graph; only a prediction of the second half of
    the steps from the first half is one of the future. A trace of one step has no halves.
    """
    durations, gaps = durations_s(trace, graph), gaps_s(trace, graph)
    every = "all steps"
    with_gaps = np.array(
        [replay(graph, *of_step).end_s.max() for of_step in zip(durations, gaps, strict=True)]
    )
    errors = [
        StepError.of("durations of the step", every, step_times_s(graph, durations), trace.step_s),
        StepError.of(
            "durations and gaps of the step", every, with_gaps - trace.start_s.min(axis=1), trace.step_s
        ),
    ]
    half = len(trace.steps) // 2
    if not half:
        return errors
    first, second = trace.only(slice(0, half)), trace.only(slice(half, None))
    later = f"last {len(second.steps)} steps"
    launches, n_later = learned_gaps_s(first, graph), len(second.steps)
    mean_durations = durations[:half].mean(axis=0)[None]
    predictions = (
        ("durations of the step, earlier launch gaps", step_times_s(graph, durations[half:], launches)),
        ("mean durations of earlier steps", step_times_s(graph, mean_durations, launches).repeat(n_later)),
        ("no replay: mean of earlier steps", np.full(n_later, first.step_s.mean())),
    )
    return errors + [StepError.of(name, later, found, second.step_s) for name, found in predictions]
